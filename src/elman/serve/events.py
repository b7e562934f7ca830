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
PIECE = 1 << 18  # bytes that are read at a time: the file of a long run is large, and many may follow it


class Follower:
    """Reads what was added to a file since the last time, a piece at a time."""

    more = False  # whether there is another piece already

    def __init__(self, path: Path) -> None:
        self.path, self._at, self._file_number = path, 0, 0

    def events(self) -> list[tuple[str, str]]:
        """Kinds of events and their JSON, of whole lines only: the last may be half-written."""
        told: list[tuple[str, str]] = []
        self.more = False
        try:
            with open_regular(self.path) as file:
                found = os.fstat(file.fileno())
                if self._at and (found.st_size < self._at or found.st_ino != self._file_number):
                    self._at = 0
                    told.append(("reset", "{}"))
                self._file_number = found.st_ino
                file.seek(self._at)
                new = file.read(PIECE)
        except OSError:
            return told  # not there yet
        end = new.rfind(b"\n") + 1
        if not end and len(new) == PIECE:  # no row is as long: it is passed over
            end = PIECE
        self._at += end
        self.more = end > 0 and self._at < found.st_size
        rows = list(filter(None, map(_row, new[:end].splitlines())))
        return [*told, *(("rows", f"[{','.join(rows[i : i + TOGETHER])}]") for i in range(0, len(rows), TOGETHER))]


def _row(line: bytes) -> str:
    """A row as JSON, "" if the line is none: a file may hold anything, and NaN is no JSON."""
    try:
        row = json.loads(line)
        return dumps({name: _cell(name, value) for name, value in row.items()}) if isinstance(row, dict) else ""
    except (ValueError, RecursionError):
        return ""


def _cell(name: str, value: Any) -> Any:
    """null where a column holds what it should not: a page that expects a number cannot show a text."""
    kinds = str if name == "sample" else dict if name == "gradient_norms" else int | float
    return value if isinstance(value, kinds) and not isinstance(value, bool) else None


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


async def follow(
    path: Path, ending: threading.Event, reading: asyncio.Semaphore
) -> AsyncGenerator[ServerSentEvent, None]:
    """All events of a run until the service ends; if it does already, those until now. Clients read by turns."""
    follower, training, quiet = Follower(path / "metrics.jsonl"), None, 0
    while True:
        last = ending.is_set()
        async with reading:
            new = await asyncio.to_thread(follower.events)
        for kind, value in new:
            yield ServerSentEvent(value, event=kind, sep="\n")
        if follower.more:
            continue
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
