"""Small trainings that the page can start and stop: `elman train` in a process of its own, on a text or a named corpus.

A client never names a path, neither of a text nor of the folder of a run.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from elman.config import BUDGET, check_for_service
from elman.data import fetch, list_corpora
from elman.errors import ElmanError
from elman.serve.errors import ApiError, invalid
from elman.serve.json_response import JsonResponse
from elman.serve.limits import Limits
from elman.serve.registry import Registry
from elman.serve.schemas import TrainingRequest
from elman.serve.training_process import Bounds, command

MAX_SECONDS = 600.0  # a training is stopped then, whatever its options
STOP_SECONDS = 10.0  # for a training to save and end before it is killed
# largest number of large files in a run: 3 checkpoints while one is written, 2 models while one is replaced, metrics
FILES = 6
MIN_FILE = 1 << 20  # bytes
NO_MESSAGE = "It ended without a message, probably out of memory. Choose a smaller hidden, batch_size or window."
DEFAULTS = {"hidden": 128, "seconds": 60, "sample_every": 200, "validate_every": 100}


@dataclass(eq=False)
class Training:
    name: str
    process: asyncio.subprocess.Process
    done: asyncio.Task[str]  # ends with the process; its result is the error message
    stopped: bool = False
    timer: asyncio.Task[None] | None = None

    def summary(self) -> dict[str, Any]:
        code = self.process.returncode
        state = "running" if code is None else "finished" if code == 0 else "stopped" if self.stopped else "failed"
        message = (self.done.result() or NO_MESSAGE) if self.done.done() and state == "failed" else None
        return {"object": "training", "name": self.name, "state": state, "message": message}


class TrainingRoutes:
    def __init__(self, registry: Registry, limits: Limits, folder: Path, *, allowed: bool) -> None:
        self.registry, self.limits, self.folder, self.allowed = registry, limits, folder, allowed
        self.known: dict[str, Training] = {}
        self._starting = asyncio.Lock()

    async def trainings(self) -> Response:
        """The trainings that were started here."""
        return JsonResponse({"object": "list", "data": [training.summary() for training in self.known.values()]})

    async def start_training(self, body: TrainingRequest) -> Response:
        """Start a small training; if it fails at once, the answer is its error message with status 400."""
        if not self.allowed:
            message = (
                "Without a key (ELMAN_API_KEY), trainings can be started only if the service listens on localhost."
            )
            raise ApiError(403, message, code="training_not_allowed")
        text, corpus, name, flags = _parse(body)
        if self._starting.locked() or any(t.process.returncode is None for t in self.known.values()):
            raise ApiError(409, "A training is running already. Stop it first.", code="training_in_progress")
        if len(self.known) >= self.limits.max_trainings:
            message = f"{len(self.known)} trainings were started, which is the limit. Restart the service,"
            raise ApiError(
                409,
                f"{message} or start it with a larger limit (elman serve --max-trainings).",
                code="too_many_trainings",
            )
        async with self._starting:
            training = await self._start(text, corpus, name, flags)
        return JsonResponse(training.summary(), status_code=201)

    async def _start(self, text: str | None, corpus: str | None, name: str, flags: list[str]) -> Training:
        source = "-" if corpus is None else str(await run_in_threadpool(_path_of, corpus))
        out = _free_path(self.folder, name, {served.name for served in self.registry})
        bounds = await run_in_threadpool(self._bounds)
        words = command(bounds, ["train", source, f"--out={out}", *flags])
        environment = {key: value for key, value in os.environ.items() if key != "ELMAN_API_KEY"}
        process = await asyncio.create_subprocess_exec(
            *words,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C in the terminal is sent to the service only
        )
        given = None if text is None else text.encode("utf-8", "surrogatepass")
        paths = {str(out): out.name} if corpus is None else {str(out): out.name, source: corpus}
        training = Training(out.name, process, asyncio.create_task(_error_message(process, given, paths)))
        self.known[training.name] = training
        training.timer = asyncio.create_task(self._stop_in_time(training))
        while not (out / "config.json").is_file():
            if training.done.done():
                del self.known[training.name]
                message = training.done.result() or "The training ended before its first step, without a message."
                raise ApiError(400, message, code="training_failed")
            await asyncio.sleep(0.05)
        self.registry.add(out)
        return training

    def _bounds(self) -> Bounds:
        """The resources that the next training may use; ApiError 409 if earlier ones have used up the disk space."""
        used = sum(_size(self.folder / name) for name in self.known)
        parent = next(path for path in (self.folder.absolute(), *self.folder.absolute().parents) if path.is_dir())
        file = min(self.limits.max_training_disk - used, shutil.disk_usage(parent).free // 2) // FILES
        if file < MIN_FILE:
            message = f"Trainings use {used:,} bytes of disk, and there is no space for another."
            do = "Delete some of them, or start the service with a larger limit (elman serve --max-training-disk)."
            raise ApiError(409, f"{message} {do}", code="training_disk_full")
        memory = self.limits.max_training_memory
        if hasattr(os, "sysconf"):
            memory = min(memory, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2)
        return Bounds(os.getpid(), memory, file, int(MAX_SECONDS + STOP_SECONDS) * (os.cpu_count() or 1) + 1)

    async def stop_training(self, name: str) -> Response:
        """Stop a training; it saves first."""
        training = self.known.get(name)
        if training is None:
            raise ApiError(404, "There is no training with this name.", code="training_not_found", param="name")
        await self._stop(training)
        return JsonResponse(training.summary())

    async def close(self) -> None:
        await asyncio.gather(*(self._stop(training) for training in self.known.values()))

    async def _stop_in_time(self, training: Training) -> None:
        await asyncio.wait({training.done}, timeout=MAX_SECONDS)
        await self._stop(training)

    async def _stop(self, training: Training) -> None:
        """Stop a training: it finishes its step and saves, so that `elman train --resume` can continue it."""
        _terminate(training)
        try:
            await asyncio.wait_for(asyncio.shield(training.done), STOP_SECONDS)
        except TimeoutError:
            with suppress(ProcessLookupError):
                training.process.kill()
            await training.done


def _terminate(training: Training) -> None:
    """Send SIGTERM once: a second signal would end it before it has saved."""
    if training.process.returncode is None and not training.stopped:
        training.stopped = True
        training.process.send_signal(signal.SIGTERM)


async def _error_message(process: asyncio.subprocess.Process, text: bytes | None, names: Mapping[str, str] = {}) -> str:
    """The last message of the process, with names in place of the paths of this machine."""
    _, errors = await process.communicate(text)
    lines = [line for line in errors.decode("utf-8", "replace").splitlines() if line.startswith("elman: ")]
    message = lines[-1].removeprefix("elman: ").replace("standard input", "the text") if lines else ""
    for path, name in names.items():
        message = message.replace(path, name)
    return re.sub("--([a-z]+[a-z-]*)", lambda flag: flag[1].replace("-", "_"), message)[:2000]  # name fields, not flags


def _parse(request: TrainingRequest) -> tuple[str | None, str | None, str, list[str]]:
    text, corpus = request.text, request.corpus
    if (text is None) == (corpus is None):
        raise ApiError(400, "text, corpus: expected exactly one of them", code="missing_field", param="text")
    if text is not None and not text.strip():
        raise ApiError(400, "text: it is empty. Send a text to train on.", code="invalid_value", param="text")
    if corpus is not None and corpus not in (known := [row.name for row in list_corpora(texts=True)]):
        raise invalid("corpus", f"one of {', '.join(known)}")
    return text, corpus, request.name or corpus or "pasted", _flags(request.options)


def _flags(options: dict[str, Any]) -> list[str]:
    chosen = {name: value for name, value in options.items() if value is not None}
    limited = any(name in chosen for name in BUDGET)
    chosen = {name: value for name, value in DEFAULTS.items() if name not in BUDGET or not limited} | chosen
    try:
        config = check_for_service(chosen)
    except ElmanError as error:
        raise ApiError(400, f"options: {error}", code="invalid_value", param="options") from None
    return [f"--{name.replace('_', '-')}={getattr(config, name)}" for name in chosen]


def _path_of(corpus: str) -> Path:
    where = next(row.where for row in list_corpora() if row.name == corpus)
    return where or fetch(corpus)


def _size(folder: Path) -> int:
    """Bytes of the files of a folder; a file that disappears meanwhile does not count."""
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                size += os.lstat(os.path.join(parent, name)).st_size
    return size


def _free_path(folder: Path, name: str, served: set[str]) -> Path:
    """A path that does not exist and whose name no served run has, so that the run is served under this name."""
    path, number = folder / name, 1
    while path.exists() or path.name in served:
        number += 1
        path = folder / f"{name}-{number}"
    return path
