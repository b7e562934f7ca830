"""Small trainings that a page may start and stop: `elman train` in a process of its own, on a text or a named corpus.

A client never names a path: not of a text, and not of the folder in which the run is kept.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from elman.config import Config
from elman.data import fetch, list_corpora
from elman.errors import ElmanError
from elman.serve.child import Bounds, command
from elman.serve.fields import Fields, read_fields
from elman.serve.limits import Limits
from elman.serve.plain import Json
from elman.serve.problems import ApiError
from elman.serve.registry import Registry

MOST: dict[str, float] = {
    "hidden": 512,
    "layers": 4,
    "batch_size": 256,
    "window": 512,
    "accumulate": 16,  # a training is asked to stop between steps: one must not take minutes
    "seconds": 600,
    "vocabulary_size": 20_000,
}
REFUSED = {"encoding", "keep_boilerplate"}  # are about files
SECONDS = 600.0  # after which a training is stopped, whatever its budget
PATIENCE = 10.0  # seconds in which one that was asked to stop should have saved
FILES = 6  # of a run at most: three checkpoints while one is written, the model twice while it is replaced, metrics
SMALLEST = 1 << 20  # bytes of a file without which no training makes sense
UNSAID = "It ended without a message, probably for want of memory. Take a smaller hidden, batch or window."
DEFAULTS = {"hidden": 128, "seconds": 60, "sample_every": 200, "validate_every": 100}
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


@dataclass(eq=False)
class Training:
    name: str
    process: asyncio.subprocess.Process
    done: asyncio.Task[str]  # what it complained about
    stopped: bool = False
    timer: asyncio.Task[None] | None = None

    def facts(self) -> dict[str, Any]:
        code = self.process.returncode
        state = "running" if code is None else "finished" if code == 0 else "stopped" if self.stopped else "failed"
        said = (self.done.result() or UNSAID) if self.done.done() and state == "failed" else None
        return {"object": "training", "name": self.name, "state": state, "message": said}


class Trainings:
    def __init__(self, registry: Registry, limits: Limits, folder: Path, *, allowed: bool) -> None:
        self.registry, self.limits, self.folder, self.allowed = registry, limits, folder, allowed
        self.known: dict[str, Training] = {}
        self._starting = asyncio.Lock()

    async def all(self, request: Request) -> Response:
        return Json({"object": "list", "data": [training.facts() for training in self.known.values()]})

    async def start(self, request: Request) -> Response:
        """201 once the run is there; 400 with the trainer's own words if it refuses."""
        if not self.allowed:
            message = "Trainings can be started on this machine only, or with a key: set ELMAN_API_KEY."
            raise ApiError(403, message, code="training_not_allowed")
        fields = await read_fields(request, self.limits.max_seconds)
        text, corpus, name, flags = _read(fields)
        if self._starting.locked() or any(t.process.returncode is None for t in self.known.values()):
            raise ApiError(409, "A training is going on already. Stop it first.", code="training_in_progress")
        if len(self.known) >= self.limits.max_trainings:
            message = f"{len(self.known)} trainings were started already, which is the limit. Start the service again"
            raise ApiError(409, f"{message}, or with a larger --max-trainings.", code="too_many_trainings")
        async with self._starting:
            training = await self._start(text, corpus, name, flags)
        return Json(training.facts(), status_code=201)

    async def _start(self, text: str | None, corpus: str | None, name: str, flags: list[str]) -> Training:
        source = "-" if corpus is None else str(await run_in_threadpool(_path_of, corpus))
        out = _free(self.folder, name, {served.name for served in self.registry})
        bounds = await run_in_threadpool(self._bounds)
        words = command(bounds, ["train", source, f"--out={out}", *flags])
        environment = {key: value for key, value in os.environ.items() if key != "ELMAN_API_KEY"}
        process = await asyncio.create_subprocess_exec(
            *words,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in the service's terminal is the service's to pass on
        )
        given = None if text is None else text.encode("utf-8", "surrogatepass")
        paths = {str(out): out.name} if corpus is None else {str(out): out.name, source: corpus}
        training = Training(out.name, process, asyncio.create_task(_said(process, given, paths)))
        self.known[training.name] = training
        training.timer = asyncio.create_task(self._end_in_time(training))
        while not (out / "config.json").is_file():
            if training.done.done():
                del self.known[training.name]
                message = training.done.result() or "The training ended before it began."
                raise ApiError(400, message, code="training_failed")
            await asyncio.sleep(0.05)
        self.registry.add(out)
        return training

    def _bounds(self) -> Bounds:
        """What the next training may use; 409 where the earlier ones have left no room on the disk."""
        used = sum(_size(self.folder / name) for name in self.known)
        parent = next(path for path in (self.folder.absolute(), *self.folder.absolute().parents) if path.is_dir())
        file = min(self.limits.max_training_disk - used, shutil.disk_usage(parent).free // 2) // FILES
        if file < SMALLEST:
            message = f"Trainings hold {used:,} bytes of disk, and there is no room for another."
            do = "Delete some of them, or start the service with a larger --max-training-disk."
            raise ApiError(409, f"{message} {do}", code="training_disk_full")
        memory = self.limits.max_training_memory
        if hasattr(os, "sysconf"):
            memory = min(memory, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
        return Bounds(os.getpid(), memory, file, int(SECONDS + PATIENCE) * (os.cpu_count() or 1) + 1)

    async def stop(self, request: Request) -> Response:
        training = self.known.get(request.path_params["name"])
        if training is None:
            raise ApiError(404, "There is no training of this name.", code="training_not_found", param="name")
        await self._end(training)
        return Json(training.facts())

    async def close(self) -> None:
        await asyncio.gather(*(self._end(training) for training in self.known.values()))

    async def _end_in_time(self, training: Training) -> None:
        await asyncio.wait({training.done}, timeout=SECONDS)
        await self._end(training)

    async def _end(self, training: Training) -> None:
        """It finishes its step and saves; `elman train --resume` can go on with it."""
        _stop(training)
        try:
            await asyncio.wait_for(asyncio.shield(training.done), PATIENCE)
        except TimeoutError:
            with suppress(ProcessLookupError):
                training.process.kill()
            await training.done


def _stop(training: Training) -> None:
    """Once: a second signal would end it before it has saved."""
    if training.process.returncode is None and not training.stopped:
        training.stopped = True
        training.process.send_signal(signal.SIGTERM)


async def _said(process: asyncio.subprocess.Process, text: bytes | None, paths: Mapping[str, str] = {}) -> str:
    """Its last message, with the names of what is at these paths: a client need not know where things are."""
    _, errors = await process.communicate(text)
    lines = [line for line in errors.decode("utf-8", "replace").splitlines() if line.startswith("elman: ")]
    said = lines[-1].removeprefix("elman: ").replace("standard input", "the text") if lines else ""
    for path, name in paths.items():
        said = said.replace(path, name)
    return said[:2000]


def _read(fields: Fields) -> tuple[str | None, str | None, str, list[str]]:
    text, corpus = fields.text("text", None, sys.maxsize), fields.text("corpus", None, 100)
    if (text is None) == (corpus is None):
        raise ApiError(400, "text, corpus: expected one of them", code="missing_field", param="text")
    if text is not None and not text.strip():
        raise ApiError(400, "text: it is empty. Give some text to learn from.", code="invalid_value", param="text")
    if corpus is not None and corpus not in (known := [row.name for row in list_corpora()]):
        fields.refuse("corpus", f"one of {', '.join(known)}")
    name = fields.text("name", corpus or "pasted", 40)
    if not NAME.fullmatch(name):
        fields.refuse("name", "up to 40 letters, digits, - and _, the first a letter or digit")
    options = fields.take("options") or {}
    fields.end()
    return text, corpus, name, _flags(fields, options)


def _flags(fields: Fields, options: Any) -> list[str]:
    if not isinstance(options, dict) or REFUSED & set(options):
        fields.refuse("options", f"an object of choices for training, without {' and '.join(sorted(REFUSED))}")
    if unknown := set(options) - set(Config().options()):
        fields.refuse("options", f"choices for training, not {', '.join(sorted(unknown))[:200]}")
    budgets = {"epochs", "steps", "seconds"} & {name for name, value in options.items() if value is not None}
    chosen = {k: v for k, v in DEFAULTS.items() if k != "seconds" or not budgets}
    chosen |= {name: value for name, value in options.items() if value is not None}
    try:
        checked = Config().with_options(**chosen).options()
    except ElmanError as error:
        raise ApiError(400, f"options: {error}", code="invalid_value", param="options") from None
    for name, most in MOST.items():
        if checked[name] is not None and checked[name] > most:
            fields.refuse("options", f"{name} of at most {most:g}: this is for small trainings")
    return [f"--{name.replace('_', '-')}={checked[name]}" for name in chosen]


def _path_of(corpus: str) -> Path:
    where = next(row.where for row in list_corpora() if row.name == corpus)
    return where or fetch(corpus)


def _size(folder: Path) -> int:
    """Bytes of its files; those that go away meanwhile count for nothing."""
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(parent, name)).st_size
    return size


def _free(folder: Path, name: str, served: set[str]) -> Path:
    """A folder that is not there, whose name is no served run's: the training and its run have one name."""
    path, number = folder / name, 1
    while path.exists() or path.name in served:
        number += 1
        path = folder / f"{name}-{number}"
    return path
