"""The rows of metrics.jsonl as server-sent events: those that exist, then new ones as they are written.

Event `rows` is a list of rows; `reset` says that the file was truncated or replaced and all rows come again; `state`
says whether a process is training the run, after the first rows and whenever it changes.
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
from elman.serve.json_response import dumps

if sys.platform != "win32":
    import fcntl

POLL_SECONDS = 0.25  # between two reads of the file
QUIET_POLLS = 8  # polls after which the lock of the run is checked; while it trains, polls without a new row
MAX_ROWS = 500  # largest number of rows in an event
CHUNK = 1 << 18  # bytes that are read at a time: the file of a long run is large, and many clients may follow it


class MetricsFollower:
    """Reads what was added to a file since the last call, one chunk at a time."""

    more = False  # whether another chunk is available

    def __init__(self, path: Path) -> None:
        self.path, self._at, self._file_number = path, 0, 0

    def events(self) -> list[tuple[str, str]]:
        """Kinds of events and their JSON, of complete lines only."""
        events: list[tuple[str, str]] = []
        self.more = False
        try:
            with open_regular(self.path) as file:
                found = os.fstat(file.fileno())
                if self._at and (found.st_size < self._at or found.st_ino != self._file_number):
                    self._at = 0
                    events.append(("reset", "{}"))
                self._file_number = found.st_ino
                file.seek(self._at)
                new = file.read(CHUNK)
        except OSError:
            return events  # it does not exist yet
        end = new.rfind(b"\n") + 1
        if not end and len(new) == CHUNK:  # longer than any row: skipped
            end = CHUNK
        self._at += end
        self.more = end > 0 and self._at < found.st_size
        rows = list(filter(None, map(_row, new[:end].splitlines())))
        return [*events, *(("rows", f"[{','.join(rows[i : i + MAX_ROWS])}]") for i in range(0, len(rows), MAX_ROWS))]


def _row(line: bytes) -> str:
    """A row as JSON, "" if the line is not one: the file can contain anything, and NaN is not JSON."""
    try:
        row = json.loads(line)
        return dumps({name: _value(name, value) for name, value in row.items()}) if isinstance(row, dict) else ""
    except (ValueError, RecursionError):
        return ""


def _value(name: str, value: Any) -> Any:
    """The value, or None if its type is wrong: a page that expects a number cannot show a text."""
    kinds = str if name == "sample" else dict if name == "gradient_norms" else int | float
    return value if isinstance(value, kinds) and not isinstance(value, bool) else None


def is_training(path: Path) -> bool:
    """Whether a process holds the lock of the run; always False on Windows, which has no such locks."""
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
    path: Path, closing: threading.Event, reading: asyncio.Semaphore
) -> AsyncGenerator[ServerSentEvent, None]:
    """All events of a run until `closing` is set; if it is set already, the rows that exist and the state.

    `reading` limits how many streams read at a time.
    """
    follower, training, quiet = MetricsFollower(path / "metrics.jsonl"), None, 0
    while True:
        last = closing.is_set()
        async with reading:
            new = await asyncio.to_thread(follower.events)
        for kind, value in new:
            yield ServerSentEvent(value, event=kind, sep="\n")
        if follower.more:
            continue
        quiet = 0 if new and training else quiet + 1
        if training is None or quiet >= QUIET_POLLS or last:
            quiet = 0
            now = is_training(path)
            if now != training:
                training = now
                yield ServerSentEvent(dumps({"training": now}), event="state", sep="\n")
        if last:
            return
        await asyncio.sleep(POLL_SECONDS)
