"""A run is a folder:

config.json         every choice, the corpus, and what it was made with
vocabulary.json     the tokens
model.safetensors   the best weights by validation
metrics.jsonl       a row for every so many steps
checkpoints/step-N  everything that a resumed run needs
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from elman.errors import CheckpointError, RunError, StorageError
from elman.maths.arrays import Array
from elman.training.arrays import Wanted, read_arrays, to_bytes
from elman.training.storage import as_json, check_folder, read_json, sync_folder, write_file, write_folder

if sys.platform != "win32":
    import fcntl

FORMAT = 1
KEPT = 2  # checkpoints
MOMENT = 0.2  # seconds


class Checkpoint(NamedTuple):
    step: int
    path: Path
    facts: dict[str, Any]

    def arrays(self, expected: Wanted | None = None) -> dict[str, Array]:
        return read_arrays(self.path / "state.safetensors", expected, finite=False)


class Run:
    """A run folder that exists."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not os.path.exists(path):  # Path.exists raises for a name that is too long
            raise RunError(f"There is no run at {path}", do="elman train makes one.")
        if not (path / "config.json").is_file():
            raise RunError(f"{path} is not a run: it has no config.json")
        config = read_json(path / "config.json")
        if not isinstance(config, dict) or config.get("format") != FORMAT:
            got = config.get("format") if isinstance(config, dict) else type(config).__name__
            raise CheckpointError(f"{path / 'config.json'}", expected=f"a run of format {FORMAT}", got=got)
        self.config: dict[str, Any] = config

    @classmethod
    def create(cls, path: Path, config: Mapping[str, Any], files: Mapping[str, bytes], *, force: bool = False) -> Run:
        """Make the folder with its config and first files, at once: it is never seen half-made."""
        path = Path(os.path.abspath(path))
        if not force or not os.path.exists(path / "config.json"):
            refuse_existing(path)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        old = beside.with_name(f"{beside.name}.old")
        try:
            shutil.rmtree(beside, ignore_errors=True)  # left by a killed process of the same number
            beside.mkdir(parents=True)
            for name, data in {"config.json": as_json({"format": FORMAT, **config}), **files}.items():
                write_file(beside / name, data)
            if force and path.exists():
                path.rename(old)
            # over an empty folder a rename succeeds; over one that another process has made meanwhile it fails
            beside.rename(path)
            sync_folder(path.parent)
        except OSError as error:
            raise StorageError(f"{path} could not be made: {error.strerror or error}") from error
        finally:
            shutil.rmtree(beside, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)
        return cls(path)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """One process at a time writes into a run; the lock goes with the process that holds it."""
        if sys.platform == "win32":  # which has no such locks
            self._tidy()
            yield
            return
        folder = os.open(self.path, os.O_RDONLY)
        try:
            self._take(folder)
            self._tidy()
            yield
        finally:
            os.close(folder)

    def _take(self, folder: int) -> None:
        """Whoever asks whether the run is in training holds its lock too, for a moment: that passes."""
        until = time.monotonic() + MOMENT
        while True:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if time.monotonic() > until:
                    raise RunError(f"{self.path} is being trained by another process") from None
            time.sleep(MOMENT / 20)

    def _tidy(self) -> None:
        """Remove what a kill left half-written: whoever holds the lock knows that nobody is still writing it."""
        for path in self.path.iterdir():
            if re.fullmatch(r"\.(config\.json|model\.safetensors)\.\d+", path.name):
                path.unlink(missing_ok=True)
        for path in self.path.glob("checkpoints/.step-*"):
            shutil.rmtree(path, ignore_errors=True)

    def write_model(self, arrays: Mapping[str, Array]) -> None:
        write_file(self.path / "model.safetensors", to_bytes(arrays))

    def read_model(self, expected: Wanted) -> dict[str, Array]:
        if not (self.path / "model.safetensors").exists():
            raise RunError(f"{self.path} has no model yet", do=f"elman train --resume {self.path} goes on with it.")
        return read_arrays(self.path / "model.safetensors", expected)

    def save(self, step: int, arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> None:
        """A checkpoint; older ones go once it is safe."""
        folder = self.path / "checkpoints"
        write_folder(folder / f"step-{step}", {"state.safetensors": to_bytes(arrays), "state.json": as_json(facts)})
        ahead = [path for number, path in self._checkpoints() if number > step]  # from before the run was rolled back
        older = [path for number, path in self._checkpoints() if number < step]
        for path in ahead + older[KEPT - 1 :]:
            shutil.rmtree(path, ignore_errors=True)

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint that is whole, if there is any; what a kill left half-written is passed over."""
        damaged = None
        for step, path in self._checkpoints():
            try:
                check_folder(path)
                facts = read_json(path / "state.json")
                if not isinstance(facts, dict):
                    raise CheckpointError(f"{path / 'state.json'} is damaged")
                return Checkpoint(step, path, facts)
            except CheckpointError as error:
                damaged = damaged or error
        if damaged is not None:
            raise damaged
        return None

    def metrics(self) -> list[dict[str, Any]]:
        """The rows of metrics.jsonl; a torn last line is left out."""
        try:
            lines = (self.path / "metrics.jsonl").read_bytes().splitlines(keepends=True)
        except OSError:
            return []
        rows = []
        for line in lines:
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if line.endswith(b"\n") and isinstance(row, dict):
                rows.append(row)
        return rows

    def _checkpoints(self) -> Iterator[tuple[int, Path]]:
        folder = self.path / "checkpoints"
        found = []
        for path in folder.iterdir() if folder.is_dir() else ():
            match = re.fullmatch(r"step-(\d{1,15})", path.name)
            if match:
                found.append((int(match[1]), path))
        return iter(sorted(found, reverse=True))


def refuse_existing(path: Path) -> None:
    """An empty folder may be used; anything else is somebody's."""
    if os.path.exists(path) and (not path.is_dir() or any(path.iterdir())):
        raise RunError(f"{path} exists already", do="Choose another --out; --force replaces a run, and nothing else.")
