"""Hidden units along a text, how well each tracks readable features, and the surprise of the model.

Units are fitted and chosen on the first part of the text, and scored on the second. A yes-or-no feature is scored by
the AUC, the probability that the unit is higher (or lower, as in the first part) where the feature is present than
where it is not: 0.5 is chance, 1 is perfect. A number is scored by R² of the line that was fitted to the first part: 0
is no better than the mean, 1 is perfect, below 0 is worse than the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from elman.data.checks import did_you_mean
from elman.data.streams import sequences_of
from elman.errors import DataError, RangeError, UnknownNameError
from elman.kernels import softmax
from elman.look.text_features import features_of
from elman.look.traces import text_ids
from elman.maths.arrays import Array
from elman.maths.loss import surprise
from elman.models import LanguageModel

CHUNK = 4096  # tokens whose probabilities are in memory at a time
UNITS_AT_A_TIME = 64  # units whose ranks are in memory at a time
SEEN = 10  # how often a feature must be present, and absent, in each part of the text


@dataclass(frozen=True, eq=False, repr=False)
class Reading:
    """States and predictions of a model along a text, from a zero state: T tokens, L layers, P state parts, H units.

    Attributes
    ----------
    text : str
        The text.
    tokens : tuple of str, length T
        The tokens of the text.
    s : ndarray, shape (L, P, T, H)
        The state after each token.
    state_names : tuple of str, length P
        "h", and in an LSTM "c".
    surprise : ndarray, shape (T,)
        -log probability of each token in nats; NaN for the first.
    alternatives : tuple of tuple of str, (T, k)
        The k likeliest tokens at each position; empty for the first.
    probabilities : ndarray, shape (T, k)
        The probabilities of the alternatives; NaN for the first token.
    features : dict of str to ndarray, shape (T,)
        The readable features of the text by name.
    numbers : frozenset of str
        The features that are numbers; the others are yes or no.
    """

    text: str
    tokens: tuple[str, ...]
    s: Array
    state_names: tuple[str, ...]
    surprise: Array
    alternatives: tuple[tuple[str, ...], ...]
    probabilities: Array
    features: dict[str, Array]
    numbers: frozenset[str]

    def __repr__(self) -> str:
        L, _, T, H = self.s.shape
        mean = f", {np.nanmean(self.surprise):.2f} nats per token" if T > 1 else ""
        return f"<Reading: {T} tokens, {L} × {H} units{mean}>"

    @property
    def h(self) -> Array:
        """The state h after each token, (L, T, H)."""
        return np.asarray(self.s[:, 0])

    def state(self, name: str) -> Array:
        """A state part by name, (L, T, H): "h", or "c" of an LSTM."""
        return np.asarray(self.s[:, self.state_names.index(name)])


def read_text(model: LanguageModel, text: str | Array, *, alternatives: int = 5) -> Reading:
    """Read a text with a model, and keep the states, the surprise and the likeliest tokens.

    Parameters
    ----------
    model : LanguageModel
        A fitted model.
    text : str or ndarray of ids
        An unknown word is read as <unk>; another unknown token is an error.
    alternatives : int
        How many of the likeliest tokens are kept at each position.

    Returns
    -------
    Reading
        States, surprise and likeliest tokens at each token.

    Examples
    --------
    >>> from elman import LanguageModel, look
    >>> model = LanguageModel(hidden=8, steps=1).fit("the cat sat on the mat. " * 20, listeners=[])
    >>> look.read_text(model, "the cat").h.shape
    (1, 7, 8)
    """
    network, p, vocabulary = model.network_, model.parameters_, model.vocabulary_
    if not isinstance(alternatives, int) or alternatives < 1:
        raise RangeError("alternatives", expected="a whole number, 1 or more", got=alternatives)
    if not len(text):
        raise DataError("the text is empty", do="Give at least one character.")
    ids = text_ids(model, text)
    packed = network.pack(p)
    *before, last = sequences_of(ids, vocabulary.end)  # each from a state of zeros; neighbors share an <end>
    read = [
        network.stack.forward(packed.stacks[0], p, one[:, np.newaxis]) for one in (*(one[:-1] for one in before), last)
    ]
    s = np.concatenate([[states.s[:, 1:, 0] for states in one.traces] for one in read], axis=2)  # (L, P, T, H)
    outputs = np.concatenate([one.outputs for one in read])
    k = min(alternatives, len(vocabulary))
    T = len(ids)
    nats, best, probabilities = np.full(T, np.nan), np.zeros((T, k), np.int64), np.full((T, k), np.nan)
    for start in range(0, len(ids) - 1, CHUNK):
        here = slice(start, min(start + CHUNK, len(ids) - 1))
        there = slice(here.start + 1, here.stop + 1)  # a state predicts the token after it
        o = packed.output.forward(outputs[here, 0])  # (…, Y)
        nats[there] = surprise(o, ids[there])
        y_hat = softmax(o.astype(np.float64))
        best[there] = np.argsort(-y_hat, axis=1, kind="stable")[:, :k]
        probabilities[there] = np.take_along_axis(y_hat, best[there], axis=1)
    names = vocabulary.tokens
    known = ~np.isnan(probabilities[:, 0])  # False for the first token
    likeliest = [tuple(names[i] for i in row) if predicted else () for row, predicted in zip(best, known, strict=True)]
    features = features_of(text, vocabulary)
    return Reading(
        text if isinstance(text, str) else vocabulary.decode(ids),
        tuple(names[i] for i in ids),
        s,
        network.stack.cell.state_names,
        nats,
        tuple(likeliest),
        probabilities,
        {feature.name: values for feature, values in features.items()},
        frozenset(feature.name for feature in features if feature.number),
    )


class UnitScore(NamedTuple):
    """How well one unit tracks one feature.

    Attributes
    ----------
    layer, unit : int
        Which unit, from 0.
    score : float
        AUC or R², on the second part of the text.
    rises : bool
        Whether the unit is higher where the feature is present or larger; otherwise it is lower.
    state : str
        The state part: "h", or "c" of an LSTM.
    """

    layer: int
    unit: int
    score: float
    rises: bool
    state: str = "h"


@dataclass(frozen=True, eq=False, repr=False)
class Ranking:
    """How well each unit tracks each feature: F features, L layers, P state parts, H units.

    Attributes
    ----------
    features : tuple of str, length F
        The features that are present and absent often enough in both parts of the text.
    measures : tuple of str, length F
        "AUC" or "R²".
    scores : ndarray, shape (F, L, P, H)
        Scores on the second part of the text.
    chosen_by : ndarray, shape (F, L, P, H)
        Scores on the first part, by which units are chosen: the unit with the best score of many may have it by chance,
        so that its score on the same part would be too high.
    rises : ndarray of bool, shape (F, L, P, H)
        The direction, from the first part.
    state_names : tuple of str, length P
        "h", and in an LSTM "c".
    left_out : tuple of str
        The other features: present, or absent, too rarely in one of the parts.
    fitted, judged : int
        The numbers of tokens of the first and of the second part.
    """

    features: tuple[str, ...]
    measures: tuple[str, ...]
    scores: Array
    chosen_by: Array
    rises: Array
    state_names: tuple[str, ...]
    left_out: tuple[str, ...]
    fitted: int
    judged: int

    def __repr__(self) -> str:
        feature, measure, best = self.by_feature()[0]
        unit = f"{best.state} of unit {best.unit}, layer {best.layer}"
        return f"<Ranking: {len(self.features)} features; best: {feature} by {unit}, {measure} {best.score:.2f}>"

    def best(self, feature: str, count: int = 5) -> list[UnitScore]:
        """The units that track a feature best on the first part of the text, with their scores on the second.

        Parameters
        ----------
        feature : str
            One of `features`.
        count : int
            How many.

        Returns
        -------
        list of UnitScore
            The best first.
        """
        if feature not in self.features:
            hint = did_you_mean(feature, self.features) or None
            raise UnknownNameError("feature", expected=f"one of {', '.join(self.features)}", got=repr(feature), do=hint)
        every = (self.scores, self.chosen_by, self.rises)
        scores, chosen_by, rises = (a[self.features.index(feature)] for a in every)  # (L, P, H)
        found = []
        for i in np.argsort(-chosen_by, axis=None, kind="stable")[:count]:
            layer, part, unit = (int(index) for index in np.unravel_index(i, scores.shape))
            place = layer, part, unit
            found.append(UnitScore(layer, unit, float(scores[place]), bool(rises[place]), self.state_names[part]))
        return found

    def by_feature(self) -> list[tuple[str, str, UnitScore]]:
        """Each feature with its measure and its best unit, the best-tracked feature first.

        To compare the two measures, an AUC is rescaled to 2 · AUC - 1, so that chance is 0 for both.

        Returns
        -------
        list of (str, str, UnitScore)
            Feature, measure, best unit.
        """
        rows = [(f, m, self.best(f, 1)[0]) for f, m in zip(self.features, self.measures, strict=True)]
        return sorted(rows, key=lambda row: -(2 * row[2].score - 1 if row[1] == "AUC" else row[2].score))


def rank_units(reading: Reading, *, share: float = 0.5) -> Ranking:
    """Score every unit for every readable feature: fitted on the first part of the text, scored on the rest.

    Parameters
    ----------
    reading : Reading
        From `read_text`; a few thousand characters are enough.
    share : float
        The first part as a fraction of the text.

    Returns
    -------
    Ranking
        Scores of h, and in an LSTM of c too.

    Examples
    --------
    >>> from elman import LanguageModel, look
    >>> model = LanguageModel(hidden=8, steps=1).fit("the cat sat on the mat. " * 20, listeners=[])
    >>> ranking = look.rank_units(look.read_text(model, "the cat sat on the mat. " * 20))
    >>> "inside a word" in ranking.features
    True
    """
    if not 0 < share < 1:
        raise RangeError("share", expected="between 0 and 1", got=share)
    L, P, T, H = reading.s.shape
    cut = round(T * share)
    shown = [name for name, v in reading.features.items() if min(_seen(v[:cut]), _seen(v[cut:])) >= SEEN]
    if not shown:
        raise DataError(
            "the text is too short to rank units",
            expected=f"a feature that is present and absent at least {SEEN} times in each part",
            got=f"{T} tokens",
            do="Take a few thousand characters.",
        )
    values = np.stack([reading.features[name] for name in shown]).astype(np.float64)  # (F, T)
    yes_no = np.array([name not in reading.numbers for name in shown])  # (F,)
    units = reading.s.swapaxes(2, 3).reshape(L * P * H, T)
    N = len(units)
    scores, rises = np.empty((2, len(shown), N)), np.empty((len(shown), N), bool)  # (2, F, N): of both parts; (F, N)
    for start in range(0, N, UNITS_AT_A_TIME):
        some = slice(start, start + UNITS_AT_A_TIME)
        narrow = units[some]  # (U, T)
        h = narrow.astype(np.float64)
        slope, shift = _line(h[:, :cut], values[:, :cut])
        rises[:, some] = slope > 0
        for part, of_part in zip((slice(cut), slice(cut, None)), scores, strict=True):
            of_part[:, some] = _r_squared(h[:, part], values[:, part], slope, shift)
            auc = _auc(narrow[:, part], values[yes_no][:, part])  # float32 sorts in two thirds of the time
            of_part[yes_no, some] = np.where(rises[yes_no, some], auc, 1 - auc)
    measures = tuple("AUC" if yes else "R²" for yes in yes_no)
    left_out = tuple(name for name in reading.features if name not in shown)
    first, second, rises = (a.reshape(len(shown), L, P, H) for a in (*scores, rises))
    return Ranking(tuple(shown), measures, second, first, rises, reading.state_names, left_out, cut, T - cut)


def _seen(values: Array) -> int:
    """How often a feature is present or absent, whichever is less; a number is present if it is above its minimum."""
    there = int(np.count_nonzero(values > values.min())) if len(values) else 0
    return min(there, len(values) - there)


def _line(h: Array, v: Array) -> tuple[Array, Array]:
    """The least-squares line v ≈ slope · h + shift of every unit h (U, T) and feature v (F, T): slope, shift (F, U)."""
    h_mean, v_mean = h.mean(axis=1), v.mean(axis=1)[:, np.newaxis]  # (U,), (F, 1)
    centered = h - h_mean[:, np.newaxis]
    spread = (centered * centered).sum(axis=1)  # (U,)
    slope = (v - v_mean) @ centered.T / np.where(spread > 0, spread, 1)  # (F, U); 0 for a constant unit
    return slope, v_mean - slope * h_mean


def _r_squared(h: Array, v: Array, slope: Array, shift: Array) -> Array:
    """1 - Σ (v - slope · h - shift)² / Σ (v - mean)², with the square multiplied out: no array of (F, U, T)."""
    h_mean, v_mean = h.mean(axis=1), v.mean(axis=1)[:, np.newaxis]
    h, v = h - h_mean[:, np.newaxis], v - v_mean
    total = (v * v).sum(axis=1)[:, np.newaxis]  # (F, 1)
    bias = v_mean - slope * h_mean - shift  # (F, U) what is left of the means
    left = total - 2 * slope * (v @ h.T) + slope**2 * (h * h).sum(axis=1) + h.shape[1] * bias**2
    return np.asarray(1 - left / total)


def _auc(h: Array, v: Array) -> Array:
    """The AUC (F, U): the share of pairs of a yes and a no in which the unit is higher at the yes, from rank sums."""
    yes = v.sum(axis=1)[:, np.newaxis]  # (F, 1)
    return np.asarray((v @ _ranks(h).T - yes * (yes + 1) / 2) / (yes * (h.shape[1] - yes)))


def _ranks(h: Array) -> Array:
    """The ranks in each row, from 1; ties have their mean rank. (scipy.stats.rankdata takes two seconds to import.)"""
    order = np.argsort(h, axis=1)
    ordered, index = np.take_along_axis(h, order, axis=1), np.arange(h.shape[1])
    differs = ordered[:, 1:] != ordered[:, :-1]
    first = np.maximum.accumulate(np.where(np.pad(differs, ((0, 0), (1, 0)), constant_values=True), index, 0), axis=1)
    ends = np.where(np.pad(differs, ((0, 0), (0, 1)), constant_values=True), index, h.shape[1])
    last = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
    ranks = np.empty(h.shape)
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, axis=1)
    return ranks  # (U, T)
