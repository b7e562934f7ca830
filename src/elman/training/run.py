"""A run is a folder:

config.json         all options, the data, and the versions that it was made with
vocabulary.json     the tokens
model.safetensors   the weights with the lowest validation loss; the last ones if there is no validation
metrics.jsonl       a row every log_every steps and after each validation or sample; a row for each rollback
checkpoints/step-N  all that is needed to resume
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

from elman.config import ALL_TASKS
from elman.errors import CheckpointError, RunError, StorageError, option
from elman.files import Content, open_regular, temporary_name
from elman.maths.arrays import Array
from elman.training.arrays import ExpectedArrays, read_arrays, to_pieces
from elman.training.storage import as_json, check_folder, read_json, sync_folder, write_file, write_folder

if sys.platform != "win32":
    import fcntl

FORMAT = 2
KEPT = 2  # number of checkpoints that are kept: the newest ones
LOCK_SECONDS = 0.2  # seconds to wait for a lock that another process holds only for a check
MAX_LINE = 1 << 20  # bytes of a row of metrics


class Checkpoint(NamedTuple):
    """A folder checkpoints/step-N; `metadata` is the content of its state.json."""

    step: int
    path: Path
    metadata: dict[str, Any]

    def arrays(self, expected: ExpectedArrays | None = None) -> dict[str, Array]:
        return read_arrays(self.path / "state.safetensors", expected, finite=False)


class Run:
    """A run folder that exists."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if not os.path.exists(path):  # Path.exists raises for a name that is too long
            raise RunError(f"There is no run at {path}", do="Create one with elman train.")
        if not (path / "config.json").is_file():
            raise RunError(f"{path} is not a run: it has no config.json")
        config = read_json(path / "config.json")
        if not isinstance(config, dict) or config.get("format") != FORMAT:
            got = config.get("format") if isinstance(config, dict) else type(config).__name__
            raise CheckpointError(f"{path / 'config.json'}", expected=f"a run of format {FORMAT}", got=got)
        self.config: dict[str, Any] = config

    @classmethod
    def create(cls, path: Path, config: Mapping[str, Any], files: Mapping[str, bytes], *, force: bool = False) -> Run:
        """Create the folder with its config and first files, atomically."""
        with cls.create_locked(path, config, files, force=force) as run:
            return run

    @classmethod
    @contextlib.contextmanager
    def create_locked(
        cls, path: Path, config: Mapping[str, Any], files: Mapping[str, bytes], *, force: bool = False
    ) -> Iterator[Run]:
        """Create the folder as `create` does, and hold its lock inside the `with` block.

        With `force` an existing run is replaced, unless it is being trained; of other folders only an empty one is
        replaced. The old run is deleted only when the new one is in its place.
        """
        path = Path(os.path.realpath(path))
        refuse_existing(path, force=force)
        temporary = temporary_name(path)
        old = temporary.with_name(f"{temporary.name}.old")
        replaced = force and os.path.exists(path / "config.json")
        with cls(path).lock() if replaced else contextlib.nullcontext(), contextlib.ExitStack() as stack:
            try:
                temporary.mkdir(parents=True)
                stack.callback(shutil.rmtree, temporary, ignore_errors=True)
                for name, data in {"config.json": as_json({"format": FORMAT, **config}), **files}.items():
                    write_file(temporary / name, data)
                stack.enter_context(_locked(temporary))  # the lock belongs to the folder and stays when it is renamed
                _put_in_place(temporary, path, old if replaced else None)
            except OSError as error:
                raise StorageError(f"{path} could not be created: {error.strerror or error}") from error
            yield cls(path)

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock of the run, so that one process at a time writes to it. The lock ends with the process."""
        with _locked(self.path):
            if read_json(self.path / "config.json") != self.config:
                raise RunError(f"{self.path} was replaced by another process", do="Try again.")
            self._tidy()
            yield

    def _tidy(self) -> None:
        """Remove incomplete files of a killed process; the lock guarantees that nobody is still writing them."""
        for path in self.path.iterdir():
            if re.fullmatch(r"\.(config\.json|model\.safetensors)\.[0-9a-f]+", path.name):
                path.unlink(missing_ok=True)
        for path in self._folder().glob(".step-*"):
            shutil.rmtree(path, ignore_errors=True)

    def write_model(self, arrays: Mapping[str, Array]) -> None:
        write_file(self.path / "model.safetensors", to_pieces(arrays))

    def read_model(self, expected: ExpectedArrays) -> dict[str, Array]:
        if not (self.path / "model.safetensors").exists():
            raise RunError(f"{self.path} has no model yet", do=f"elman train --resume {self.path} continues it.")
        return read_arrays(self.path / "model.safetensors", expected)

    def save(self, step: int, arrays: Mapping[str, Array], metadata: Mapping[str, Any]) -> None:
        """Write a checkpoint, then delete all others except the KEPT - 1 newest of the earlier steps."""
        files: dict[str, Content] = {"state.safetensors": to_pieces(arrays), "state.json": as_json(metadata)}
        write_folder(self._folder() / f"step-{step}", files)
        ahead = [path for number, path in self._checkpoints() if number > step]  # from before a rollback
        older = [path for number, path in self._checkpoints() if number < step]
        for path in ahead + older[KEPT - 1 :]:
            shutil.rmtree(path, ignore_errors=True)

    def newest(self) -> Checkpoint | None:
        """The newest checkpoint that is not damaged; None if there are none; CheckpointError if all are damaged."""
        damaged = None
        for step, path in self._checkpoints():
            try:
                check_folder(path)
                metadata = read_json(path / "state.json")
                if not isinstance(metadata, dict):
                    raise CheckpointError(f"{path / 'state.json'} is damaged")
                return Checkpoint(step, path, metadata)
            except CheckpointError as error:
                damaged = damaged or error
        if damaged is not None:
            raise damaged
        return None

    def metrics(self) -> list[dict[str, Any]]:
        """The rows of metrics.jsonl; a line that is incomplete or no JSON object is left out."""
        rows = []
        with contextlib.suppress(OSError), open_regular(self.path / "metrics.jsonl") as file:
            while line := file.readline(MAX_LINE):
                try:
                    row = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                if line.endswith(b"\n") and isinstance(row, dict):
                    rows.append(row)
        return rows

    def _folder(self) -> Path:
        """The folder of the checkpoints: never a link, because older checkpoints in it are deleted."""
        folder = self.path / "checkpoints"
        if folder.is_symlink():
            raise CheckpointError(f"{folder} is a link", expected="a folder inside the run", do="Move the folder here.")
        return folder

    def _checkpoints(self) -> Iterator[tuple[int, Path]]:
        """The step and the folder of each checkpoint, newest first."""
        folder = self._folder()
        found = []
        for path in folder.iterdir() if folder.is_dir() else ():
            match = re.fullmatch(r"step-(\d{1,15})", path.name)
            if match and not path.is_symlink():
                found.append((int(match[1]), path))
        return iter(sorted(found, reverse=True))


def refuse_existing(path: Path, *, force: bool = False) -> None:
    """Raise RunError unless the path is free, an empty folder or, with `force`, a run that is not being trained."""
    if not os.path.exists(path) or (path.is_dir() and not any(path.iterdir())):
        return
    if not force:
        raise RunError(
            f"{path} exists already",
            do=f"Choose another folder; {option('force', True)} replaces a run, and nothing else.",
        )
    try:
        task = Run(path).config.get("task")
        if task not in ALL_TASKS:
            raise CheckpointError(f"{path / 'config.json'}: the task", expected="a known one", got=repr(task))
    except RunError as error:
        do = "Nothing was changed. Choose another folder, or delete it yourself."
        raise RunError(f"{option('force', True)} replaces runs of Elman only: {error}", do=do) from None
    with _locked(path):
        pass


def _put_in_place(new: Path, path: Path, old: Path | None) -> None:
    """Rename the folder `new` to `path`. An existing folder there is renamed to `old`, and back if this fails."""
    if old is None:
        # this replaces an empty folder, and fails if another process has created a run there in the meantime
        new.rename(path)
    else:
        try:
            path.rename(old)
            new.rename(path)
        except BaseException:
            if new.exists() and old.exists():
                old.rename(path)
            raise
        finally:
            if not new.exists():
                shutil.rmtree(old, ignore_errors=True)
    sync_folder(path.parent)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of a folder. Another process may hold it for a moment, to check whether a training holds it."""
    if sys.platform == "win32":  # which has no such locks
        yield
        return
    folder = os.open(path, os.O_RDONLY)
    try:
        until = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    do = "Stop it first, or choose another folder."
                    raise RunError(f"{path} is being trained by another process", do=do) from None
            time.sleep(LOCK_SECONDS / 20)
        if not os.path.samestat(os.fstat(folder), os.stat(path)):
            raise RunError(f"{path} was replaced by another process", do="Try again.")
        yield
    finally:
        os.close(folder)
