"""elman eval for models of whole sequences: the figures that people expect of each task."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elman.cli.console import console, write
from elman.errors import DataError

if TYPE_CHECKING:
    from elman.data.labelled import Rows
    from elman.models.evaluation import ClassScores

MOST_CLASSES = 25  # of which a table is still read


def evaluate_sequences(run: Path, source: str, *, encoding: str | None, as_json: bool) -> int:
    from elman.data.inputs import NumberInputs
    from elman.data.labelled import FORMS, read_rows
    from elman.data.named import find_here
    from elman.data.targets import Numbers
    from elman.models.evaluation import ClassScores, SequenceScores, evaluate_model
    from elman.models.loading import load_predictor

    model = load_predictor(run)
    numbers = isinstance(model.fitted_.spec.inputs, NumberInputs | Numbers)
    if model.task not in FORMS or numbers:
        what = f"{run} is a run to {model.task}{', from numbers' * numbers}"
        raise DataError(what, do="Measure it in Python: load_model(RUN).score(X, y).")
    source = source if source == "-" else str(find_here(source) or source)
    rows = read_rows(source, model.task, encoding=encoding or model.fitted_.config.encoding)
    _refuse_strangers(model, rows)
    with console.rich.status(f"judging {len(rows):,} examples"):
        figures = evaluate_model(model, rows.left, rows.right)
    if as_json:
        write(json.dumps(asdict(figures), ensure_ascii=False) + "\n")
        return 0
    if isinstance(figures, ClassScores):
        what = "tags" if model.task == "tag" else "examples"
        console.print(f"accuracy {figures.accuracy:.4f}, macro F1 {figures.macro_f1:.4f}; {figures.examples:,} {what}")
        if len(figures.classes) <= MOST_CLASSES:
            _table(figures)
    elif isinstance(figures, SequenceScores):
        console.print(f"exact match {figures.exact_match:.4f}, token accuracy {figures.token_accuracy:.4f}, ", end="")
        console.print(
            f"words right {figures.words_right:.4f}, edit distance {figures.edit_distance:.4f} a token", end=""
        )
        if figures.bleu is not None:
            console.print(f", BLEU {figures.bleu:.1f}, chrF {figures.chrf:.1f}", end="")
        console.print(f"; {figures.examples:,} examples")
    else:
        console.print(f"{figures.nats_per_token:.4f} nats a token, perplexity {figures.perplexity:.3f}; ", end="")
        console.print(f"{figures.examples:,} examples")
    return 0


def _refuse_strangers(model: Any, rows: Rows) -> None:
    """A label that was never seen in training can only be wrong: better said, with its place, than counted."""
    from elman.data.checks import did_you_mean

    if model.task == "translate":
        return
    classes = model.classes_ if model.task != "generate" else model.fitted_.spec.inputs.classes
    known = set(classes.tolist())
    for right, place in zip(rows.right, rows.places, strict=True):
        for label in right if model.task == "tag" else [right]:
            if label not in known:
                what = "tag" if model.task == "tag" else "label"
                near = did_you_mean(str(label), map(str, known)) or None
                raise DataError(place, expected=f"a {what} that was seen in training", got=repr(label), do=near)


def _table(figures: ClassScores) -> None:
    """The confusion matrix: rows are what it is, columns what was said."""
    import numpy as np

    n = np.array(figures.confusion)
    met = np.flatnonzero(n.sum(axis=0) + n.sum(axis=1))  # classes that are, or were said
    confusion, names = n[np.ix_(met, met)].tolist(), [str(figures.classes[i]) for i in met]
    first = max(11, *map(len, names))
    widths = [max(4, *(len(str(row[j])) for row in confusion)) for j in range(len(names))]
    heads = " ".join(f"{name[:width]:>{width}}" for name, width in zip(names, widths, strict=True))
    console.print(f"\n{'is ↓ said →':{first}} {heads}", markup=False)
    for name, row in zip(names, confusion, strict=True):
        cells = " ".join(f"{n or '·':>{width}}" for n, width in zip(row, widths, strict=True))
        console.print(f"{name:{first}} {cells}", markup=False)
