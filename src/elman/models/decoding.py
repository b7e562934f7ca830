"""Tokens that follow a state, with any network that predicts the next one: drawn, the likeliest, or by beam search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from elman.maths.arrays import Array
from elman.maths.loss import softmax
from elman.models.sampling import Sampling, as_arrays, distribution, pick
from elman.network import DecoderState, Network, Parameters, make_sampler

AHEAD = 16  # tokens that are drawn for a sequence before its end is looked for


class Decoder:
    """A network with its weights packed, ready to write."""

    def __init__(self, network: Network, parameters: Parameters, banned: Array | None = None) -> None:
        self.network, self.packed = network, network.pack(parameters)
        self.banned = np.empty(0, np.intp) if banned is None else banned  # ids that are never written
        self.sampler = make_sampler(network.stacks[-1], parameters)

    def step(self, ids: Array, state: DecoderState) -> tuple[Array, DecoderState]:
        """Logits (B, Y) of the token after ids (B,), and the state then; a row depends on nothing but itself."""
        if self.sampler is not None or len(ids) == 1:
            return self.network.next_logits(self.packed, ids, state)
        # BLAS computes a row in other bits beside others
        alone = [
            self.network.next_logits(self.packed, ids[i : i + 1], state.take(slice(i, i + 1))) for i in range(len(ids))
        ]
        o, states = zip(*alone, strict=True)
        return np.concatenate(o), state._replace(state=np.concatenate([one.state for one in states], axis=2))

    def write(
        self,
        o: Array,  # (B, Y), the logits before the first token; become those after the last
        state: DecoderState,
        uniforms: Array,  # (n, B), from 0 to 1
        how: Sequence[Sampling],  # one a row
    ) -> tuple[Array, DecoderState]:
        """n tokens for each row, (n, B), and the state after them."""
        if self.sampler is not None and not state.memory:
            each = as_arrays(how, self.network.outputs)
            after = state.state.copy()
            tokens = self.sampler.write(o, after, uniforms, **each, banned=self.banned)
            return tokens, DecoderState(after)
        tokens = np.empty(uniforms.shape, np.int64)
        for n, draws in enumerate(uniforms):
            for i, u in enumerate(draws):
                tokens[n, i] = pick(distribution(o[i], how[i], self.banned), float(u))
            o[...], state = self.step(tokens[n], state)
        return tokens, state

    def until(
        self,
        edge: int,  # the token that begins and ends
        state: DecoderState,
        *,
        limit: int,
        how: Sampling | None = None,  # the likeliest token each time, unless given
        generators: Sequence[np.random.Generator] | None = None,  # one a row
    ) -> list[list[int]]:
        """The tokens of each row up to the edge, `limit` at most; a row depends on nothing but itself."""
        B = state.state.shape[2]
        how = how or Sampling(temperature=0.0)
        found: list[list[int]] = [[] for _ in range(B)]
        rows = np.arange(B)  # that are not at their end
        if B and limit:
            o, state = self.step(np.full(B, edge), state)
        for start in range(0, limit, AHEAD):
            if not len(rows):
                break
            n = min(AHEAD, limit - start)
            uniforms = np.zeros((n, len(rows)))
            if generators is not None:
                uniforms = np.stack([generators[int(row)].random(n) for row in rows], axis=1)
            tokens, state = self.write(o, state, uniforms, [how] * len(rows))
            ended = (tokens == edge).any(axis=0)  # (rows,)
            for row, own, ends in zip(rows, tokens.T.tolist(), ended, strict=True):
                found[row] += own[: own.index(edge)] if ends else own
            rows, o, state = rows[~ended], o[~ended], state.take(np.flatnonzero(~ended))
        return found


class Hypothesis(NamedTuple):
    """A sequence that beam search has found."""

    score: float  # Σ log probability
    tokens: list[int]


def beam_search(
    decoder: Decoder,
    o: Array,  # (1, Y), the logits before the first token
    state: DecoderState,  # of one row
    *,
    width: int,
    limit: int,
    edge: int | None = None,  # a sequence ends with this token, which is not part of it
    ends: Callable[[list[int]], bool] = lambda tokens: False,  # whether tokens are a whole sequence
) -> list[Hypothesis]:
    """Sequences that are likelier than all others that `width` candidates a step can find, the likeliest first.

    A candidate that has come to its end is set aside with its probability; the search ends when no candidate that goes
    on can overtake the best one set aside, because a longer sequence is never likelier than its beginning.
    """
    beams, ended = [Hypothesis(0.0, [])], []  # type: tuple[list[Hypothesis], list[Hypothesis]]
    parents: list[int] = []  # the beam that each of them continues
    for number in range(limit):
        if number:
            rows = np.array(parents)
            o, state = decoder.step(np.array([beam.tokens[-1] for beam in beams]), state.take(rows))
        logits = o.astype(np.float64)
        logits[:, decoder.banned] = -np.inf
        with np.errstate(divide="ignore"):  # log 0 is -inf, which is right
            totals = np.array([beam.score for beam in beams])[:, np.newaxis] + np.log(softmax(logits))  # (beams, Y)
        if edge is not None:
            first = int(totals[:, edge].argmax())
            ended.append(Hypothesis(float(totals[first, edge]), beams[first].tokens))
            totals[:, edge] = -np.inf
        best = max((one.score for one in ended), default=-np.inf)
        alive: list[Hypothesis] = []
        parents = []
        for place in np.argsort(-totals, axis=None, kind="stable")[:width]:
            parent, token = divmod(int(place), totals.shape[1])
            candidate = Hypothesis(float(totals[parent, token]), [*beams[parent].tokens, token])
            if candidate.score == -np.inf:
                continue
            if ends(candidate.tokens):
                ended.append(candidate)
                best = max(best, candidate.score)
            elif candidate.score > best:
                parents.append(parent)
                alive.append(candidate)
        beams = alive
        if not beams or best >= beams[0].score:
            beams = []
            break
    whole = [one for one in ended if one.score > -np.inf]
    return sorted(whole if edge is not None and whole else whole + beams, key=lambda one: -one.score)
