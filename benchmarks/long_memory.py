"""Problems that need a long memory, the networks that are to solve them, and their scores on test data.

- adding: two of T numbers are marked, one in each half; their sum is the target (Hochreiter and Schmidhuber 1997)
- digits: an image of 8 × 8 pixels is read one pixel at a time, row by row; its digit is the target (Le et al. 2015)
- copy memory: 10 symbols, each one of 8, then T steps of which the last asks for them, then 10 steps in which they are
  the targets; the target of all other steps is a blank (Arjovsky et al. 2016)
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from elman import SequenceClassifier, SequenceRegressor, SequenceTagger

TRAINED, TESTED = 20_000, 2_000  # random sequences for training and for the test
RECALLED, SYMBOLS, BLANK, ASK = 10, "abcdefgh", "-", "?"
PLAIN = {"bidirectional": False, "dropout": 0.0, "patience": 0, "batch_size": 32}
TAGGER = {"embedding": 0, "input_dropout": 0.0, "recurrent_dropout": 0.0, "unk_dropout": 0.0}


def adding(T: int, n: int) -> tuple[Any, Any]:
    """X (n, T, 2): a number from 0 to 1, and whether it is marked; y (n,): the sum of the two marked numbers."""
    rng = np.random.default_rng(0)
    X = np.zeros((n, T, 2))
    X[:, :, 0] = rng.random((n, T))
    for half in (0, T // 2):
        X[np.arange(n), half + rng.integers(T // 2, size=n), 1] = 1
    return X, (X[:, :, 0] * X[:, :, 1]).sum(axis=1)


def copy_memory(T: int, n: int) -> tuple[Any, Any]:
    """X and y (n, T + 20), tokens and tags."""
    symbols = np.random.default_rng(0).choice(list(SYMBOLS), (n, RECALLED))
    X, y = np.full((2, n, T + 2 * RECALLED), BLANK)
    X[:, :RECALLED] = y[:, -RECALLED:] = symbols
    X[:, -RECALLED - 1] = ASK
    return X.tolist(), y.tolist()


def drawn(make: Callable[[int, int], tuple[Any, Any]], T: int) -> list[Any]:
    """X, X_test, y, y_test."""
    X, y = make(T, TRAINED + TESTED)
    return [X[:TRAINED], X[TRAINED:], y[:TRAINED], y[TRAINED:]]


def digits() -> list[Any]:
    """X (n, 64), the shades from 0 to 1, and y, the digits: X, X_test, y, y_test."""
    images, labels = load_digits(return_X_y=True)
    return list(train_test_split(images / 16, labels, test_size=0.2, random_state=0, stratify=labels))


def adding_scores(model: Any, X: Any, y: Any) -> dict[str, tuple[float, float]]:
    return {"mean squared error": (float(((model.predict(X) - y) ** 2).mean()), float(((y - 1) ** 2).mean()))}


def digit_scores(model: Any, X: Any, y: Any) -> dict[str, tuple[float, float]]:
    return {"accuracy": (float(model.score(X, y)), float(np.bincount(y).max() / len(y)))}


def copy_scores(model: Any, X: Any, y: Any) -> dict[str, tuple[float, float]]:
    p = np.stack(model.predict_proba(X))  # (n, T + 20, tags)
    targets = np.searchsorted(model.classes_, y)
    nats = -np.log(np.take_along_axis(p, targets[:, :, None], axis=2)).mean()
    right = (p.argmax(axis=2) == targets)[:, -RECALLED:].mean()
    memoryless = RECALLED * math.log(len(SYMBOLS)) / targets.shape[1]
    return {"nats per step": (float(nats), memoryless), "symbols right": (float(right), 1 / len(SYMBOLS))}


class Problem(NamedTuple):
    kind: Any  # the class of the estimator
    data: Callable[[int], list[Any]]  # of T
    scores: Callable[[Any, Any, Any], dict[str, tuple[float, float]]]  # by measure: the score, and the baseline's


PROBLEMS = {
    "adding": Problem(SequenceRegressor, lambda T: drawn(adding, T), adding_scores),
    "digits": Problem(SequenceClassifier, lambda _: digits(), digit_scores),
    "copy memory": Problem(SequenceTagger, lambda T: drawn(copy_memory, T), copy_scores),
}


class Network(NamedTuple):
    problem: str
    T: int  # steps; of copy memory, those between the symbols and their recall
    start: str  # the initialization of W_hh, and the activation of a vanilla cell
    options: dict[str, Any]


def network(problem: str, T: int, cell: str, start: str, units: int, rate: float, steps: int, **more: Any) -> Network:
    initial, _, activation = start.partition(", ")
    vanilla = {"activation": activation} if cell == "rnn" else {}
    options = {"cell": cell, "recurrent_init": initial, "hidden": units, "learning_rate": rate, "steps": steps}
    return Network(problem, T, start, PLAIN | options | vanilla | more)


NETWORKS = [
    network("adding", 200, "rnn", "identity, relu", 100, 5e-4, 4000),
    network("adding", 400, "gru", "orthogonal", 64, 4e-3, 2000),
    network("digits", 64, "rnn", "orthogonal, tanh", 128, 2e-3, 900),
    network("copy memory", 100, "rnn", "orthogonal, identity", 128, 1e-3, 3000, **TAGGER),
    network("copy memory", 100, "gru", "orthogonal", 128, 8e-3, 6000, **TAGGER, input_init_scale=1.0),
]


def solve(network: Network, seed: int) -> dict[str, Any]:
    """The scores of a network that was trained from this seed."""
    kind, data, scores = PROBLEMS[network.problem]
    X, X_test, y, y_test = data(network.T)
    began, began_cpu = time.perf_counter(), time.process_time()
    model = kind(**network.options, random_state=seed).fit(X, y)
    times = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - began_cpu}
    measured = {name: list(both) for name, both in scores(model, X_test, y_test).items()}
    shown = {"cell": network.options["cell"], "units": network.options["hidden"], "start": network.start}
    return {"problem": network.problem, "T": network.T, **shown, "seed": seed, "steps": model.n_iter_, **times,
            "rate": network.options["learning_rate"], "measured": measured}  # fmt: skip
