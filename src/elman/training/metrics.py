"""metrics.jsonl: what a row says, and the file while a run goes on."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from elman.errors import StorageError
from elman.files import open_regular
from elman.training.events import Event, RolledBack, Stepped

COLUMNS = (
    "step",
    "epoch",
    "loss",
    "validation_loss",
    "gradient_norm",
    "gradient_norms",
    "learning_rate",
    "tokens_per_second",
    "seconds",
)
SOMETIMES = ("validation_accuracy", "sample")  # columns of the rows that have them
UNITS = {  # of the loss that a task is judged by
    "lm": "nats per token",
    "classify": "nats per example",
    "regress": "mean squared error (standardized)",
    "tag": "nats per tag",
    "generate": "nats per token",
    "translate": "nats per token",
}


def row(event: Stepped) -> dict[str, Any]:
    """A row of metrics.jsonl."""
    values = {name: getattr(event, name) for name in COLUMNS}
    return values | {name: value for name in SOMETIMES if (value := getattr(event, name)) is not None}


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: null stands for them."""
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def to_line(row: Mapping[str, Any]) -> bytes:
    """A row as a line of metrics.jsonl."""
    return json.dumps(_finite(dict(row)), allow_nan=False).encode() + b"\n"


def kept_rows(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of metrics.jsonl without events, and without the rows of steps that were rolled back."""
    kept: list[dict[str, Any]] = []
    for row in rows:
        if "event" not in row:
            if type(row.get("step")) is int:
                kept.append(dict(row))
        elif type(row.get("to")) is int:
            kept = [one for one in kept if one["step"] <= row["to"]]
    return kept


class History:
    """A listener that collects the rows of metrics in a list."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def __call__(self, event: Event) -> None:
        if isinstance(event, Stepped) and event.logged:
            self._rows.append(row(event))
        elif isinstance(event, RolledBack):
            self._rows[:] = [one for one in self._rows if one["step"] <= event.to]


class MetricsFile:
    """metrics.jsonl while a run goes on: rows go to its end; a resumed run first cuts off what it will repeat."""

    def __init__(self, path: Path, offset: int) -> None:
        try:
            self._file = open_regular(path, write=True)
            end = min(offset, self._file.seek(0, os.SEEK_END))  # shorter only if somebody cut it
            self._file.truncate(end)
            self._file.seek(end)
        except OSError as error:
            raise StorageError(f"{path} could not be written: {error.strerror}") from error
        self.path = path

    def add(self, row: Mapping[str, Any]) -> None:
        try:
            self._file.write(to_line(row))
            self._file.flush()
        except OSError as error:
            raise StorageError(f"{self.path} could not be written: {error.strerror}") from error

    def sync(self) -> int:
        """Flush to the disk; the offset up to which the file is safe."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise StorageError(f"{self.path} could not be written: {error.strerror}") from error
        return self._file.tell()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # of a row that could not be written, which add() has said
            self._file.close()
