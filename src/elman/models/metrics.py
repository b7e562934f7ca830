"""How good a model of whole sequences is: the figures that people expect of each task, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from elman.data.symbols import Symbols, cut
from elman.data.targets import Labels
from elman.maths.arrays import Array


@dataclass(frozen=True)
class Judged:
    """Classes, or tags: one for each example, or for each step."""

    examples: int
    accuracy: float
    macro_f1: float
    classes: list[Any]
    confusion: list[list[int]]  # rows: what it is, columns: what was said


@dataclass(frozen=True)
class Told:
    """Sequences that were written."""

    examples: int
    exact_match: float  # share that is right from end to end
    token_accuracy: float  # share of the places where both have the same token
    edit_distance: float  # insertions, deletions and changes, for each token that was wanted


@dataclass(frozen=True)
class Likelihood:
    """What a generator thinks of sequences."""

    examples: int
    nats_per_token: float
    perplexity: float


def judged(wanted: Sequence[Any], said: Sequence[Any], classes: Array) -> Judged:
    labels = Labels(classes)
    n = np.zeros((len(classes), len(classes)), np.int64)
    np.add.at(n, (labels.encode(wanted), labels.encode(said)), 1)
    right, either = n.diagonal(), n.sum(axis=0) + n.sum(axis=1)
    f1 = 2 * right[either > 0] / either[either > 0]  # of each class that is, or was said
    return Judged(len(wanted), float(right.sum() / n.sum()), float(f1.mean()), classes.tolist(), n.tolist())


def told(wanted: Sequence[Any], said: Sequence[Any], symbols: Symbols) -> Told:
    pairs = [(cut(w, symbols.kind), cut(s, symbols.kind)) for w, s in zip(wanted, said, strict=True)]
    places = sum(max(len(w), len(s)) for w, s in pairs)
    same = sum(a == b for w, s in pairs for a, b in zip(w, s, strict=False))
    edits = sum(edit_distance(w, s) for w, s in pairs)
    tokens = sum(len(w) for w, _ in pairs)
    exact = float(np.mean([w == s for w, s in pairs]))
    return Told(len(pairs), exact, same / max(places, 1), edits / max(tokens, 1))


def edit_distance(a: Sequence[Any], b: Sequence[Any]) -> int:
    """The fewest insertions, deletions and changes that make b of a."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (x != y))
    return row[-1]


def evaluate(model: Any, left: list[Any], right: list[Any]) -> Judged | Told | Likelihood:
    """A model on examples as they stand in a file: texts and labels, tokens and tags, sources and targets."""
    task = model.task
    if task == "generate":
        nats = model.nats(right, left)
        return Likelihood(len(left), nats, float(np.exp(nats)))
    said = model.predict(left)
    if task == "translate":
        return told(right, said, model.symbols_)
    if task == "tag":
        flat = [tag for tags in right for tag in tags], [tag for tags in said for tag in tags]
        return judged(*flat, model.classes_)
    return judged(right, said, model.classes_)


def as_facts(figures: Judged | Told | Likelihood) -> dict[str, Any]:
    return asdict(figures)
