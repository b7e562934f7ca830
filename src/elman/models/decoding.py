"""Writing with a network that begins with a state: greedy, at random, or the likeliest of many (beam search)."""

from __future__ import annotations

import numpy as np

from elman.data.symbols import UNKNOWN_ID
from elman.maths.arrays import Array
from elman.maths.loss import softmax
from elman.network.parameters import Parameters
from elman.network.teller import Teller

NEVER = -np.inf  # the logit of the unknown, which is not to be written


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
    totals = np.cumsum(softmax(o / temperature), axis=1)  # (B, Y)
    draws = np.array([rng.random() for rng in generators]) * totals[:, -1]
    return np.asarray(np.minimum((totals <= draws[:, np.newaxis]).sum(axis=1), o.shape[1] - 1))


def beam_write(network: Teller, p: Parameters, states: list[Array], *, limit: int, width: int) -> list[int]:
    """The likeliest sequence that a beam finds from one state (1, H) a layer; scores are means over the tokens."""
    Y = network.outputs
    beams: list[list[int]] = [[]]
    scores = np.zeros(1)  # Σ log probability
    ids = np.full(1, network.edge)
    ended: list[tuple[float, list[int]]] = []
    for _ in range(limit):
        o, states = network.step(p, ids, states)
        o = o.astype(np.float64)
        o[:, UNKNOWN_ID] = NEVER
        with np.errstate(divide="ignore"):
            log_y_hat = np.log(softmax(o))  # (beams, Y)
        ranked = (scores[:, np.newaxis] + log_y_hat).ravel()
        best = np.argsort(-ranked, kind="stable")[: 2 * width]
        kept: list[int] = []
        for i in best:
            beam, token = divmod(int(i), Y)
            if token == network.edge:
                ended.append((ranked[i] / (len(beams[beam]) + 1), beams[beam]))
            elif len(kept) < width and np.isfinite(ranked[i]):
                kept.append(int(i))
        if not kept or len(ended) >= width:
            break
        parents, ids = np.divmod(np.array(kept), Y)
        beams = [[*beams[parent], int(token)] for parent, token in zip(parents, ids, strict=True)]
        scores, states = ranked[kept], [h[parents] for h in states]
    else:
        ended += [(score / max(len(beam), 1), beam) for score, beam in zip(scores, beams, strict=True)]
    return max(ended, key=lambda scored: scored[0], default=(0.0, beams[0]))[1]
