"""elman compile: compile the kernels before they are needed."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, get_args

from elman.cli.console import console, track
from elman.cli.flags import flag
from elman.config import ALL_TASKS, CellName, Task
from elman.errors import ArgumentError


@dataclass(frozen=True)
class Compile:
    """Compile kernels now, so that the first training, sample or prediction need not wait for them: those of every cell
    and task with default options, and of language models also with dropout. A tiny network of each cell and task is
    trained for a few steps. The kernels are cached on disk, where every other command finds them.

    Other options, such as --dtype float64 or --optimizer sgd, may need kernels that are compiled when they are first
    used. Exits with 1 if kernels cannot be cached.

    For instance:
        elman compile
        elman compile --cell gru --task lm
    """

    cell: CellName | None = flag(None, "compile for this cell only")
    task: Task | None = flag(None, "compile for this task only")

    def run(self) -> int:
        from elman.kernels import KERNELS

        if KERNELS != "compiled":
            raise ArgumentError("ELMAN_KERNELS", expected="compiled or unset", got=KERNELS, do="Unset it to compile.")
        from elman.kernels.compile import FOLDER, UNUSED

        began = time.perf_counter()
        cells = [self.cell] if self.cell else get_args(CellName)
        tasks = [self.task] if self.task else ALL_TASKS
        with _warnings() as warnings:  # one if a kernel cannot be saved, because the disk is full for instance
            for cell, task in track([(cell, task) for cell in cells for task in tasks], "compiling"):
                _run_tiny_model(task, cell)
        end = f"the kernels are in {FOLDER}."
        if UNUSED:
            do = "Set ELMAN_CACHE to a folder that only you can write to."
            end = f"the kernels are not cached: {FOLDER} {UNUSED}. {do}"
        elif warnings:
            end = f"not all kernels are cached. {warnings[0]}"
        console.print(f"Compiled in {time.perf_counter() - began:.0f} s; {end}", markup=False)
        return 1 if UNUSED or warnings else 0


@contextmanager
def _warnings() -> Iterator[list[str]]:
    """The warnings about kernels, which are collected instead of being printed."""
    log, found = logging.getLogger("elman.kernels"), list[str]()

    def collect(record: logging.LogRecord) -> bool:
        found.append(record.getMessage())
        return False

    log.addFilter(collect)
    try:
        yield found
    finally:
        log.removeFilter(collect)


def _run_tiny_model(task: str, cell: str) -> None:
    """Train a tiny network with batches large enough to be split into slices, then sample or predict with it."""
    from elman.models import (
        LanguageModel,
        Seq2Seq,
        SequenceClassifier,
        SequenceGenerator,
        SequenceRegressor,
        SequenceTagger,
    )

    options: dict[str, Any] = {"cell": cell, "hidden": 64}  # of fewer units, BLAS computes some gradients
    if task == "lm":
        for dropout in (0.0, 0.1):
            text = "the cat sat on the mat. " * 99
            model = LanguageModel(**options, steps=1, batch_size=32, window=8, dropout=dropout).fit(text, listeners=[])
        model.sample(3)
        model.sample_many(2, length=3)
        model.evaluate(text)
        return
    words, labels = ["ab", "ba", "aab", "bba"] * 16, ["x", "y"] * 32
    models: dict[str, tuple[Any, Any]] = {
        "classify": (SequenceClassifier, labels),
        "regress": (SequenceRegressor, [float(len(word)) for word in words]),
        "tag": (SequenceTagger, [list(word) for word in words]),
        "generate": (SequenceGenerator, words),
        "translate": (Seq2Seq, words),
    }
    model_class, y = models[task]
    inputs = [labels if task == "generate" else words]
    if task in ("classify", "regress"):  # sentences have other default options than single words
        inputs.append([f"{word} a b" for word in words])
    for X in inputs:
        model_class(**options, epochs=1).fit(X, y).score(X, y)
