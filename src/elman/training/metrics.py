"""metrics.jsonl: its rows, and how a training writes them."""

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
from elman.training.events import Event, RolledBack, Started, Stepped

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
OPTIONAL_COLUMNS = ("validation_accuracy", "sample")  # left out of a row in which they are None
UNITS = {  # of the loss of each task
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
    return values | {name: value for name in OPTIONAL_COLUMNS if (value := getattr(event, name)) is not None}


def first_row(event: Started) -> dict[str, Any] | None:
    """The row of the model that training starts from, with nothing but its validation; None if there is none."""
    if event.validation is None:
        return None
    loss, accuracy = event.validation
    values = dict.fromkeys(COLUMNS) | {"step": 0, "epoch": 0.0, "validation_loss": loss, "seconds": 0.0}
    return values if accuracy is None else values | {"validation_accuracy": accuracy}


def _finite(value: Any) -> Any:
    """The value with None in place of NaN and infinity, which JSON does not have."""
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
            if type(step := row.get("step")) is int and abs(step) < 2**53:  # a file may contain anything
                kept.append(dict(row))
        elif type(row.get("to")) is int:
            kept = [one for one in kept if one["step"] <= row["to"]]
    return kept


class History:
    """A listener that collects the rows of metrics in a list."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def __call__(self, event: Event) -> None:
        if isinstance(event, Started) and (first := first_row(event)):
            self._rows.append(first)
        elif isinstance(event, Stepped) and event.logged:
            self._rows.append(row(event))
        elif isinstance(event, RolledBack):
            self._rows[:] = [one for one in self._rows if one["step"] <= event.to]


class MetricsFile:
    """metrics.jsonl, to which a training appends rows.

    It is truncated to `offset` first: a resumed training repeats the steps after its checkpoint.
    """

    def __init__(self, path: Path, offset: int) -> None:
        try:
            self._file = open_regular(path, write=True)
            end = min(offset, self._file.seek(0, os.SEEK_END))  # the file is shorter only if somebody truncated it
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
        """Flush the file to the disk and return its size."""
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise StorageError(f"{self.path} could not be written: {error.strerror}") from error
        return self._file.tell()

    def close(self) -> None:
        with contextlib.suppress(OSError):  # of a row that could not be written: add() has raised StorageError for it
            self._file.close()
