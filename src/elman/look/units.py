"""What hidden units do along a text, which of them tracks something readable, and what surprised the model.

    reading = read_text(model, text)        every unit's activation, every token's surprise and its alternatives
    ranking = rank_units(reading)           how well each unit tracks each feature of trackers.py
    ranking.best("inside quotation marks")  [UnitScore(layer=0, unit=7, score=0.998, rises=True), …]

A score is honest: units are fitted and chosen on the first part of the text, the score is that of the second. A yes or
no is scored by the AUC, the probability that the unit is higher (or lower, as the first part says) where it is yes than
where it is no: 0.5 is chance, 1 is perfect. A number is scored by R² of the line that was fitted to the first part:
0 is no better than the mean, 1 is perfect, and below 0 the line misleads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from elman.data.checks import did_you_mean
from elman.errors import DataError, RangeError, UnknownNameError
from elman.kernels import softmax
from elman.look.trackers import track
from elman.maths.arrays import Array
from elman.maths.loss import surprise
from elman.models import LanguageModel
from elman.network import check_ids

CHUNK = 4096  # tokens whose probabilities are held at a time
UNITS_AT_A_TIME = 64  # whose ranks are held at a time
SEEN = 10  # times that a feature must be, and not be, in each part of the text


@dataclass(frozen=True, eq=False)
class Reading:
    """A text as the model read it, from a state of zeros: T tokens, L layers of H units."""

    text: str
    tokens: tuple[str, ...]  # (T,) as the vocabulary names them
    h: Array  # (L, T, H) the state after each token
    surprise: Array  # (T,) -log probability of each token in nats; NaN for the first
    alternatives: tuple[tuple[str, ...], ...]  # (T, k) the tokens that the model found likeliest in its place
    probabilities: Array  # (T, k) theirs; NaN for the first
    features: dict[str, Array]  # (T,) the readable features of the text, by name
    numbers: frozenset[str]  # the features that are numbers; the others are yes or no


def read_text(model: LanguageModel, text: str | Array, *, alternatives: int = 5) -> Reading:
    """Let the model read a text, or the ids of one. An unknown word is read as <unk>; another token is an error."""
    network, p, vocabulary = model.writer.network, model.writer.parameters, model.writer.vocabulary
    if not isinstance(alternatives, int) or alternatives < 1:
        raise RangeError("alternatives", expected="1 or more", got=alternatives)
    if not len(text):
        raise DataError("the text is empty", do="Give it at least one character.")
    if isinstance(text, str):
        ids = vocabulary.encode(text, unknown="replace" if vocabulary.kind == "word" else "error").astype(np.int64)
    else:
        ids = np.asarray(text, np.int64)
        check_ids("ids", ids, network.stack.inputs)
    packed = network.pack(p)
    read = network.stack.forward(packed.stacks[0], p, ids[:, np.newaxis])
    h = np.stack([states.s[0, 1:, 0] for states in read.traces])  # (L, T, H)
    k = min(alternatives, len(vocabulary))
    cost, best, chances = np.full(len(ids), np.nan), np.zeros((len(ids), k), np.int64), np.full((len(ids), k), np.nan)
    for start in range(0, len(ids) - 1, CHUNK):
        here = slice(start, min(start + CHUNK, len(ids) - 1))
        there = slice(here.start + 1, here.stop + 1)  # a state predicts the token after it
        o = packed.output.forward(read.outputs[here, 0])  # (…, Y)
        cost[there] = surprise(o, ids[there])
        y_hat = softmax(o.astype(np.float64))
        best[there] = np.argsort(-y_hat, axis=1, kind="stable")[:, :k]
        chances[there] = np.take_along_axis(y_hat, best[there], axis=1)
    names = vocabulary.tokens
    considered = [() if np.isnan(p[0]) else tuple(names[i] for i in row) for row, p in zip(best, chances, strict=True)]
    tracked = track(text, vocabulary)
    return Reading(
        text if isinstance(text, str) else vocabulary.decode(ids),
        tuple(names[i] for i in ids),
        h,
        cost,
        tuple(considered),
        chances,
        {tracker.name: values for tracker, values in tracked.items()},
        frozenset(tracker.name for tracker in tracked if tracker.number),
    )


class UnitScore(NamedTuple):
    layer: int
    unit: int
    score: float
    rises: bool  # the unit is higher where the feature is; otherwise lower


@dataclass(frozen=True, eq=False)
class Ranking:
    """How well each unit tracks each feature: F features, L layers of H units."""

    features: tuple[str, ...]  # (F,)
    measures: tuple[str, ...]  # (F,) "AUC" or "R²"
    scores: Array  # (F, L, H) on the second part of the text
    chosen_by: Array  # (F, L, H) on the first part: the best of many on the second would be so by luck
    rises: Array  # (F, L, H) the direction, from the first part
    left_out: tuple[str, ...]  # features that the text shows too seldom, or always
    fitted: int  # tokens of the first part
    judged: int  # tokens of the second

    def best(self, feature: str, count: int = 5) -> list[UnitScore]:
        """The units that track it best on the first part of the text, the best first; the scores are of the second."""
        if feature not in self.features:
            hint = did_you_mean(feature, self.features) or None
            raise UnknownNameError("feature", expected=f"one of {', '.join(self.features)}", got=repr(feature), do=hint)
        every = (self.scores, self.chosen_by, self.rises)
        scores, chosen_by, rises = (a[self.features.index(feature)].ravel() for a in every)
        H = self.scores.shape[2]
        order = np.argsort(-chosen_by, kind="stable")[:count]
        return [UnitScore(int(i) // H, int(i) % H, float(scores[i]), bool(rises[i])) for i in order]

    def told(self) -> list[tuple[str, str, UnitScore]]:
        """Each feature with its measure and its best unit, those that are told best first.

        To compare them, chance is 0 for both: an AUC counts as 2 · AUC - 1, R² as it is.
        """
        rows = [(f, m, self.best(f, 1)[0]) for f, m in zip(self.features, self.measures, strict=True)]
        return sorted(rows, key=lambda row: -(2 * row[2].score - 1 if row[1] == "AUC" else row[2].score))


def rank_units(reading: Reading, *, share: float = 0.5) -> Ranking:
    """Score every unit for every feature: fitted on this share of the text, judged on the rest."""
    if not 0 < share < 1:
        raise RangeError("share", expected="between 0 and 1", got=share)
    L, T, H = reading.h.shape
    cut = round(T * share)
    shown = [name for name, v in reading.features.items() if min(_seen(v[:cut]), _seen(v[cut:])) >= SEEN]
    if not shown:
        raise DataError(
            "the text is too short to rank units",
            expected=f"a feature that is there and not there {SEEN} times in each part",
            got=f"{T} tokens",
            do="Take some thousand characters.",
        )
    values = np.stack([reading.features[name] for name in shown]).astype(np.float64)  # (F, T)
    yes_no = np.array([name not in reading.numbers for name in shown])  # (F,)
    units = np.concatenate(list(reading.h), axis=1)  # (T, L·H)
    scores, rises = np.empty((2, len(shown), L * H)), np.empty((len(shown), L * H), bool)  # of both parts
    for start in range(0, L * H, UNITS_AT_A_TIME):
        some = slice(start, start + UNITS_AT_A_TIME)
        narrow = np.ascontiguousarray(units[:, some].T)  # (U, T)
        h = narrow.astype(np.float64)
        slope, shift = _line(h[:, :cut], values[:, :cut])
        rises[:, some] = slope > 0
        for part, of_part in zip((slice(cut), slice(cut, None)), scores, strict=True):
            of_part[:, some] = _r_squared(h[:, part], values[:, part], slope, shift)
            auc = _auc(narrow[:, part], values[yes_no][:, part])  # float32 sorts in two thirds of the time
            of_part[yes_no, some] = np.where(rises[yes_no, some], auc, 1 - auc)
    measures = tuple("AUC" if yes else "R²" for yes in yes_no)
    left_out = tuple(name for name in reading.features if name not in shown)
    chosen_by, judged, up = (a.reshape(len(shown), L, H) for a in (*scores, rises))
    return Ranking(tuple(shown), measures, judged, chosen_by, up, left_out, cut, T - cut)


def _seen(values: Array) -> int:
    """How often it is there, or not there, whichever is less: a number is there where it is above its least."""
    there = int(np.count_nonzero(values > values.min())) if len(values) else 0
    return min(there, len(values) - there)


def _line(h: Array, v: Array) -> tuple[Array, Array]:
    """The least-squares line v ≈ slope · h + shift, for every unit and feature with one product."""
    h_mean, v_mean = h.mean(axis=1), v.mean(axis=1)[:, np.newaxis]  # (U,), (F, 1)
    centred = h - h_mean[:, np.newaxis]
    spread = (centred * centred).sum(axis=1)  # (U,)
    slope = (v - v_mean) @ centred.T / np.where(spread > 0, spread, 1)  # (F, U); a unit that never moves: 0
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
    """The share of pairs (yes, no) in which the unit is higher at the yes: from the sum of the ranks of the yeses."""
    yes = v.sum(axis=1)[:, np.newaxis]  # (F, 1)
    return np.asarray((v @ _ranks(h).T - yes * (yes + 1) / 2) / (yes * (h.shape[1] - yes)))


def _ranks(h: Array) -> Array:
    """From 1, in each row; equal activations share theirs. (scipy.stats has it, and takes two seconds to import.)"""
    order = np.argsort(h, axis=1)
    ordered, index = np.take_along_axis(h, order, axis=1), np.arange(h.shape[1])
    differs = ordered[:, 1:] != ordered[:, :-1]
    first = np.maximum.accumulate(np.where(np.pad(differs, ((0, 0), (1, 0)), constant_values=True), index, 0), axis=1)
    ends = np.where(np.pad(differs, ((0, 0), (0, 1)), constant_values=True), index, h.shape[1])
    last = np.minimum.accumulate(ends[:, ::-1], axis=1)[:, ::-1]
    ranks = np.empty(h.shape)
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, axis=1)
    return ranks  # (U, T)
