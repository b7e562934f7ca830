"""The attribution of a prediction of a classifier, regressor or tagger to the tokens of a sequence, by two methods.

Gradient times input is the first-order estimate of how much the score of the prediction would fall if the input of a
token were 0 (for standardized numbers that is their mean): one backward pass for all tokens. Leaving a token out
measures how much the score falls without it: one forward pass for each token. If the two disagree, the network is far
from linear around this sequence, and leaving out is more reliable.

The score is the log-odds of the prediction, log(p / (1 - p)), in nats; for a regressor it is the predicted value, the
first one if there are several.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from elman.data.inputs import NumberInputs, TokenInputs
from elman.data.targets import Numbers
from elman.errors import ArgumentError, DataError, RangeError, UnknownNameError
from elman.look.traces import in_float64
from elman.maths.arrays import Array
from elman.maths.layers import output_forward
from elman.maths.loss import softmax
from elman.models.predictors import LabelPredictor, Predictor
from elman.network import HeadNetwork, Parameters, Stack

LONGEST = {"one": 4096, "steps": 256}  # maximum length of a sequence with one output, and with an output at every step
ROWS = 128  # sequences in a batch
SHOWN = 3  # tokens in the summary


@dataclass(frozen=True, eq=False, repr=False)
class Attribution:
    """How much each token of a sequence contributes to each prediction: T tokens, S predictions (1, or T in a tagger).

    Attributes
    ----------
    tokens : tuple of str, length T
        The tokens; "step 0", "step 1", … for a sequence of numbers.
    targets : tuple, length S
        The predicted (or given) class: one for the sequence, or a tag for each step; "value" for a regressor.
    score : ndarray, shape (S,)
        Log-odds of the target in nats; for a regressor the predicted value, the first one if there are several.
    gradient : ndarray, shape (S, T)
        Gradient times input.
    left_out : ndarray, shape (S, T)
        How much lower the score is without the token. A classifier or regressor reads the sequence without it; a
        tagger, which needs all steps, reads zeros in its place.
    agreement : float
        Spearman's rank correlation of `gradient` and `left_out`, the mean over all predictions; NaN for a single token,
        or if the contributions to a prediction are all equal.
    score_name : str
        "log-odds", or "predicted value" for a regressor.
    """

    tokens: tuple[str, ...]
    targets: tuple[Any, ...]
    score: Array
    gradient: Array
    left_out: Array
    agreement: float
    score_name: str = "log-odds"

    def __repr__(self) -> str:
        return f"<Attribution: {self.words}>"

    @property
    def words(self) -> str:
        """The tokens that contribute most to the first prediction, in a sentence."""
        order = np.argsort(-np.abs(self.left_out[0]), kind="stable")[:SHOWN]
        listed = ", ".join(f"“{self.tokens[t].strip()}” ({self.left_out[0, t]:+.2f})" for t in order)
        score = f"{self.score_name} {self.score[0]:+.2f}"
        head = score if self.score_name == "predicted value" else f"{self.targets[0]}, {score}"
        return f"{head}: {listed}; rank correlation of the two methods: {self.agreement:.2f}"


def attribution(model: Predictor, sequence: Any, *, target: Any = None) -> Attribution:
    """How much each token of a sequence contributes to the prediction of a model.

    Parameters
    ----------
    model : SequenceClassifier, SequenceRegressor or SequenceTagger
        A fitted model.
    sequence : str, list of str, or array of numbers
        One sequence, as in training.
    target : label, optional
        The class, or the tag at every step, whose log-odds are explained; unless given, the predicted class or tags.

    Returns
    -------
    Attribution
        Contributions by gradient times input and by leaving each token out.

    Examples
    --------
    >>> from elman import SequenceClassifier, look
    >>> texts, labels = ["good film", "bad film"] * 20, ["+", "-"] * 20
    >>> model = SequenceClassifier(hidden=8, epochs=5, tokens="word").fit(texts, labels, listeners=[])
    >>> look.attribution(model, "good film").tokens
    (' good', ' film')
    """
    fitted = model._fitted_model()
    network = fitted.network
    if not isinstance(network, HeadNetwork):
        raise ArgumentError("model", expected="a classifier, regressor or tagger", got=type(model).__name__)
    x = model._encoded([sequence]).values  # (T,) ids, or (T, X)
    every_step = network.pooling == "none"
    longest = LONGEST["steps" if every_step else "one"]
    if not 0 < len(x) <= longest:
        what = "the sequence"
        raise (RangeError(what, expected=f"at most {longest} steps", got=len(x)) if len(x) else
               DataError(what, expected="at least one token", got="none"))  # fmt: skip
    dense, p, steps = _dense_network(network, fitted.parameters, x)
    wide = _Float64Network(dense, p)
    o = wide.outputs(steps[:, np.newaxis])[..., 0, :]  # (Y,) or (T, Y)
    o = o if every_step else o[np.newaxis]  # (S, Y)
    picked = _picked(model, o, target, classes=network.loss_name == "cross_entropy")
    score, d_o = _scores(o, picked)
    gradient = wide.gradient_times_input(steps, d_o, every_step=every_step)
    if every_step:
        left_out = score[:, np.newaxis] - _replaced(wide, steps, picked)
    else:
        left_out = score[:, np.newaxis] - _deleted(network, fitted.parameters, x, picked)
    if isinstance(targets := fitted.spec.targets, Numbers):  # outputs are standardized; predicted values are not
        score = score * targets.deviation[0] + targets.mean[0]
        gradient, left_out = gradient * targets.deviation[0], left_out * targets.deviation[0]
    agreement = float(np.mean([_rank_correlation(*rows) for rows in zip(gradient, left_out, strict=True)]))
    return Attribution(
        _tokens(model, sequence, len(x)), _labels(model, o, picked), score, gradient, left_out, agreement,
        "predicted value" if picked is None else "log-odds",
    )  # fmt: skip


class _Float64Network:
    """A network that runs in float64."""

    def __init__(self, network: HeadNetwork, p: Parameters) -> None:
        self.network = network
        self.packed, self.p = in_float64(network.stack, p)

    def outputs(self, x: Array, lengths: Array | None = None) -> Array:
        """The outputs (B, Y), or (T, B, Y) if there is one for every step, of inputs (T, B, …)."""
        trace = self.network.stack.forward(self.packed, self.p, x, lengths=lengths)
        return output_forward(self.network._pool(trace, lengths).vector, self.p["head.W_hy"], self.p["head.b_y"])

    def gradient_times_input(self, x: Array, d_o: Array, *, every_step: bool) -> Array:
        """Gradient times input (S, T); the batch has one row for each prediction, because their gradients differ."""
        S, stack = len(d_o), self.network.stack
        rows = np.repeat(x[:, np.newaxis], S, axis=1)  # (T, S, X)
        trace = stack.forward(self.packed, self.p, rows)
        pooled = self.network._pool(trace, None)
        d_vector = d_o @ self.p["head.W_hy"].T  # (S, D·H)
        if every_step:  # prediction s is made at step s
            at_steps = np.zeros((len(x), *d_vector.shape))
            at_steps[np.arange(S), np.arange(S)] = d_vector
            d_vector = at_steps  # (T, S, D·H)
        d_outputs, d_final = self.network._pool_backward(d_vector, trace, None, pooled)
        d_x, _ = stack.backward(self.packed, self.p, trace, d_outputs, self.p.zeros(), d_final=d_final)
        assert d_x is not None
        return np.asarray((d_x * rows).sum(axis=-1).T)


def _dense_network(network: HeadNetwork, p: Parameters, x: Array) -> tuple[HeadNetwork, Parameters, Array]:
    """A network with dense inputs and the same outputs, its parameters, and its inputs (T, X) in place of x.

    Token ids become their embeddings, or one-hot rows over the ids that occur in x.
    """
    old, used = network.stack, np.unique(x)
    if x.ndim == 2:
        steps, width = np.asarray(x, np.float64), x.shape[1]
    elif old.embedding:
        steps, width = np.asarray(p[f"{old.prefix}embedding.W"][x], np.float64), old.embedding
    else:
        steps, width = (x[:, np.newaxis] == used).astype(np.float64), len(used)
    stack = Stack(
        width, old.hidden, old.layers, cell=old.cell, bidirectional=len(old.directions) > 1,
        learned_state=old.learned_state, prefix=old.prefix, tokens=False,
    )  # fmt: skip
    dense = HeadNetwork(stack, network.outputs, pooling=network.pooling, loss=network.loss_name)
    copy = Parameters(dense.shapes, np.dtype(np.float64))
    for name, view in copy.items():
        value = p[name]
        view[...] = value[used] if value.shape != view.shape else value  # of W_xh the rows of the ids in x
    return dense, copy, steps


def _deleted(network: HeadNetwork, p: Parameters, x: Array, picked: Array | None) -> Array:
    """(1, T): the score without each token."""
    T = len(x)
    wide = _Float64Network(network, p)
    if T == 1:  # what is left is empty: a sequence of length 0
        inputs = x[:, np.newaxis] if x.ndim == 2 else x[:, np.newaxis].astype(np.int64)
        return _scores(wide.outputs(inputs, lengths=np.zeros(1, np.int64)), picked)[0][np.newaxis]
    found = []
    for start in range(0, T, ROWS):
        left = np.arange(start, min(start + ROWS, T))
        kept = np.stack([np.delete(np.arange(T), t) for t in left], axis=1)  # (T-1, rows)
        inputs = x[kept]
        found.append(_scores(wide.outputs(inputs if x.ndim == 2 else inputs.astype(np.int64)), picked)[0])
    return np.concatenate(found)[np.newaxis]


def _replaced(wide: _Float64Network, steps: Array, picked: Array | None) -> Array:
    """(S, T): the score of every step if zeros replace the input of step t."""
    T = len(steps)
    found = np.empty((T, T))
    for start in range(0, T, ROWS):
        left = np.arange(start, min(start + ROWS, T))
        rows = np.repeat(steps[:, np.newaxis], len(left), axis=1)  # (T, rows, X)
        rows[left, np.arange(len(left))] = 0
        o = wide.outputs(rows)  # (T, rows, Y)
        for i, t in enumerate(left):
            found[:, t] = _scores(o[:, i], picked)[0]
    return found


def _scores(o: Array, picked: Array | None) -> tuple[Array, Array]:
    """The score (S,), log-odds of the picked outputs or a regressor's first output, and its gradient on o (S, Y)."""
    d_o = np.zeros(o.shape)
    if picked is None:
        d_o[:, 0] = 1
        return o[:, 0].astype(np.float64), d_o
    rows = np.arange(len(o))
    of_rows = np.broadcast_to(picked, len(o))
    others = o.astype(np.float64)
    others[rows, of_rows] = -np.inf
    top = others.max(axis=1)
    total = top + np.log(np.exp(others - top[:, np.newaxis]).sum(axis=1))
    d_o -= softmax(others)
    d_o[rows, of_rows] = 1
    return o[rows, of_rows] - total, d_o


def _picked(model: Predictor, o: Array, target: Any, *, classes: bool) -> Array | None:
    """The index of the output that is explained, for each prediction; None if there are no classes to choose from."""
    if not classes or o.shape[1] < 2:
        if target is not None:
            raise ArgumentError("target", expected="none: only classes can be chosen", got=repr(target))
        return None
    if target is None:
        return np.asarray(o.argmax(axis=1))
    assert isinstance(model, LabelPredictor)
    known = model.classes_.tolist()
    if target not in known:
        raise UnknownNameError("target", expected=f"one of {', '.join(map(str, known[:20]))}", got=repr(target))
    return np.full(len(o), known.index(target))


def _labels(model: Predictor, o: Array, picked: Array | None) -> tuple[Any, ...]:
    if picked is None or not isinstance(model, LabelPredictor):
        return ("value",) * len(o)
    return tuple(model.classes_[picked].tolist())


def _tokens(model: Predictor, sequence: Any, T: int) -> tuple[str, ...]:
    inputs = model._fitted_model().spec.inputs
    if isinstance(inputs, NumberInputs):
        return tuple(f"step {t}" for t in range(T))
    assert isinstance(inputs, TokenInputs)
    return tuple(inputs.symbols.tokenize(sequence))


def _rank_correlation(a: Array, b: Array) -> float:
    """Spearman's rank correlation; NaN if one of the two is constant."""
    if len(a) < 2:
        return float("nan")
    ranks = [_ranks(values) for values in (a, b)]
    spread = [r - r.mean() for r in ranks]
    size = float(np.sqrt((spread[0] ** 2).sum() * (spread[1] ** 2).sum()))
    return float(spread[0] @ spread[1]) / size if size else float("nan")


def _ranks(values: Array) -> Array:
    """The ranks, from 1; equal values share the mean of their ranks."""
    _, index, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    return np.asarray(((last - count + 1 + last) / 2)[index])
