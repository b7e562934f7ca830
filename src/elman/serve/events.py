"""The rows of metrics.jsonl as events: those that are there, then new ones as they are written.

Event `rows` is a list of rows; `reset` says that the file was cut or replaced: forget all rows, they come again;
`state` says whether somebody is training the run, after the first rows and whenever it changes.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import threading
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from sse_starlette import ServerSentEvent

from elman.files import open_regular
from elman.serve.plain import dumps

if sys.platform != "win32":
    import fcntl

EVERY = 0.25  # seconds from one look at the file to the next
QUIET = 8  # looks without a row, after which it is asked whether somebody still trains
TOGETHER = 500  # rows in an event


class Follower:
    """Reads what was added to a file since the last time."""

    def __init__(self, path: Path) -> None:
        self.path, self._at, self._file_number = path, 0, 0

    def events(self) -> list[tuple[str, Any]]:
        """Of whole lines only: the last may be half-written."""
        told: list[tuple[str, Any]] = []
        try:
            with open_regular(self.path) as file:
                found = os.fstat(file.fileno())
                if self._at and (found.st_size < self._at or found.st_ino != self._file_number):
                    self._at = 0
                    told.append(("reset", {}))
                self._file_number = found.st_ino
                file.seek(self._at)
                new = file.read()
        except OSError:
            return told  # not there yet
        whole = new[: new.rfind(b"\n") + 1]
        self._at += len(whole)
        rows = list(filter(None, map(_row, whole.splitlines())))
        return [*told, *(("rows", rows[i : i + TOGETHER]) for i in range(0, len(rows), TOGETHER))]


def _row(line: bytes) -> dict[str, Any] | None:
    """A file may hold anything; NaN is no JSON."""
    try:
        row = json.loads(line)
        dumps(row)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def in_training(path: Path) -> bool:
    """Whether a process holds the lock of the run."""
    if sys.platform == "win32":
        return False
    try:
        folder = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(folder)
    return False


async def follow(path: Path, ending: threading.Event) -> AsyncGenerator[ServerSentEvent, None]:
    """All events of a run until the service ends; if it does already, those until now."""
    follower, training, quiet = Follower(path / "metrics.jsonl"), None, 0
    while True:
        last = ending.is_set()
        new = await asyncio.to_thread(follower.events)
        for kind, value in new:
            yield ServerSentEvent(dumps(value), event=kind, sep="\n")
        quiet = 0 if new and training else quiet + 1
        if training is None or quiet >= QUIET or last:
            quiet = 0
            now = in_training(path)
            if now != training:
                training = now
                yield ServerSentEvent(dumps({"training": now}), event="state", sep="\n")
        if last:
            return
        await asyncio.sleep(EVERY)
