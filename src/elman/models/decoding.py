"""Writing with a network that begins with a state: greedy, at random, or the likeliest of many (beam search)."""

from __future__ import annotations

import numpy as np

from elman.data.symbols import UNKNOWN_ID, Symbols
from elman.data.targets import Labels
from elman.maths.arrays import Array
from elman.maths.loss import softmax
from elman.network.parameters import Parameters
from elman.network.teller import Teller
from elman.training.task import generator

NEVER = -np.inf  # the logit of the unknown, which is not to be written
LONGER = 2  # times the longest sequence in training: what is written ends there at the latest
SHOWN = 3  # labels, of which a model in training shows what it would write
WARMTH = 0.8  # at which temperature


def limit_of(symbols: Symbols) -> int:
    return LONGER * symbols.longest + 10


def write(
    network: Teller,
    p: Parameters,
    states: list[Array],  # (B, H) a layer
    *,
    limit: int,
    temperature: float = 0.0,  # 0: the likeliest token each time
    generators: list[np.random.Generator] | None = None,  # one a row, for a temperature above 0
) -> list[list[int]]:
    """The tokens that follow each state, without the edge, `limit` at most; a row depends on nothing but itself."""
    B = len(states[0])
    ids, told = np.full(B, network.edge), [[] for _ in range(B)]  # type: tuple[Array, list[list[int]]]
    rows = np.arange(B)  # that still write
    for _ in range(limit):
        if not len(rows):
            break
        o, states = network.step(p, ids, states)
        chosen = choose(o, temperature, None if generators is None else [generators[row] for row in rows])
        for row, token in zip(rows, chosen, strict=True):
            if token != network.edge:
                told[row].append(int(token))
        goes_on = chosen != network.edge
        rows, ids, states = rows[goes_on], chosen[goes_on], [h[goes_on] for h in states]
    return told


def choose(o: Array, temperature: float, generators: list[np.random.Generator] | None) -> Array:
    """One token a row: (B,) ids from logits (B, Y)."""
    o = o.astype(np.float64)
    o[:, UNKNOWN_ID] = NEVER
    if not temperature or generators is None:
        return np.asarray(o.argmax(axis=1))
    o -= o.max(axis=1, keepdims=True)  # a temperature next to 0 must not overflow
    with np.errstate(over="ignore"):
        totals = np.cumsum(softmax(o / temperature), axis=1)  # (B, Y)
    draws = np.array([rng.random() for rng in generators]) * totals[:, -1]
    return np.asarray(np.minimum((totals <= draws[:, np.newaxis]).sum(axis=1), o.shape[1] - 1))


def beam_write(network: Teller, p: Parameters, states: list[Array], *, limit: int, width: int) -> list[int]:
    """The likeliest sequence that a beam finds from one state (1, H) a layer."""
    Y = network.outputs
    beams: list[list[int]] = [[]]
    scores = np.zeros(1)  # Σ log probability
    ids = np.full(1, network.edge)
    best, best_score = beams[0], -np.inf  # of those that have come to their end
    for _ in range(limit):
        o, states = network.step(p, ids, states)
        o = o.astype(np.float64)
        o[:, UNKNOWN_ID] = NEVER
        with np.errstate(divide="ignore"):
            totals = scores[:, np.newaxis] + np.log(softmax(o))  # (beams, Y)
        first = int(totals[:, network.edge].argmax())
        if totals[first, network.edge] > best_score:
            best, best_score = beams[first], totals[first, network.edge]
        totals[:, network.edge] = -np.inf
        kept = np.argsort(-totals, axis=None, kind="stable")[:width]
        kept = kept[totals.flat[kept] > best_score]  # a longer one is never likelier
        if not len(kept):
            return best
        parents, ids = np.divmod(kept, Y)
        beams = [[*beams[parent], int(token)] for parent, token in zip(parents, ids, strict=True)]
        scores, states = totals.flat[kept], [h[parents] for h in states]
    return best if np.isfinite(best_score) else beams[0]


def show(network: Teller, p: Parameters, labels: Labels, symbols: Symbols, seed: int, step: int) -> str:
    """What a network in training would write for a few labels: a line each."""
    ids = generator(seed, "labels", step).permutation(labels.width)[:SHOWN]
    generators = [generator(seed, "sample", step + int(i)) for i in ids]
    states = network.start(p, ids)[0]
    told = write(network, p, states, limit=limit_of(symbols), temperature=WARMTH, generators=generators)
    lines = []
    for label, tokens in zip(labels.decode(ids), told, strict=True):
        text = symbols.decode(tokens)
        lines.append(f"{label}: {text if isinstance(text, str) else ' '.join(text)}")
    return "\n".join(lines)
