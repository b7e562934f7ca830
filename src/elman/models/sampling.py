"""Generate tokens with a network: sampling, greedy decoding and beam search. The state is carried from token to token,
so that each token takes the same time.

A seeded sample is the same alone and in a batch: a row of a batch does not depend on the other rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, takewhile
from typing import NamedTuple

import numpy as np

from elman.config import LARGEST, is_real, is_whole
from elman.data import Vocabulary
from elman.data.symbols import UNKNOWN_ID, Symbols
from elman.data.targets import Labels
from elman.errors import ArgumentError, DtypeError, RangeError, option
from elman.maths.arrays import Array
from elman.maths.loss import softmax
from elman.network import DecoderState, EncoderDecoder, HeadNetwork, Network, Parameters, make_sampler
from elman.training.task import generator

TEXT_BLOCK, SEQUENCE_BLOCK = 32, 16  # tokens that one call of Decoder.write generates, of a text and of a sequence
MAX_BEAM = 1024  # a wider beam takes too long
MAX_LENGTH_RATIO, MAX_LENGTH_EXTRA = 2, 10  # a generated sequence has at most 2 · (longest in training) + 10 tokens
SHOWN_LABELS, SHOWN_TEMPERATURE = 3, 0.8  # of the samples that are shown while a generator is trained
UNKNOWN = np.array([UNKNOWN_ID])  # the ids that are never generated in sequences


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen.

    Parameters
    ----------
    temperature : float
        Below 1 likely tokens become likelier, above 1 less likely; 0 takes the likeliest token.
    top_k : int, optional
        Sample among the k likeliest tokens only.
    top_p : float, optional
        Sample among the likeliest tokens that together have this probability.

    Examples
    --------
    >>> from elman import Sampling
    >>> Sampling(temperature=0.7, top_p=0.9).check()
    Sampling(temperature=0.7, top_k=None, top_p=0.9)
    """

    temperature: float = 0.8
    top_k: int | None = None
    top_p: float | None = None

    def check(self) -> Sampling:
        """Return itself if its values are valid; RangeError otherwise."""
        if not (is_real(self.temperature) and math.isfinite(self.temperature) and self.temperature >= 0):
            raise RangeError(option("temperature"), expected="a number, 0 or more", got=self.temperature)
        if self.top_k is not None and not (is_whole(self.top_k) and self.top_k >= 1):
            raise RangeError(option("top_k"), expected="a whole number, 1 or more", got=self.top_k)
        if self.top_p is not None and not (is_real(self.top_p) and 0 < self.top_p <= 1):
            raise RangeError(option("top_p"), expected="a number above 0, at most 1", got=self.top_p)
        return self


def as_arrays(how: Sequence[Sampling], Y: int) -> dict[str, Array]:
    """The options of B sequences as arrays (B,), for compiled code; without a limit top_k is Y and top_p is 1."""
    return {
        "temperature": np.array([one.temperature for one in how], np.float64),
        "top_k": np.array([Y if one.top_k is None else min(one.top_k, Y) for one in how], np.int64),
        "top_p": np.array([1 if one.top_p is None else one.top_p for one in how], np.float64),
    }


def distribution(o: Array, how: Sampling, banned: Array | None = None) -> Array:
    """The probabilities (Y,) of the next token, after temperature, top-k and top-p, from its logits (Y,)."""
    o = o.astype(np.float64)  # (Y,)
    if banned is not None and len(banned):
        o[banned] = -np.inf
    if how.temperature == 0:
        y_hat = np.zeros_like(o)
        y_hat[o.argmax()] = 1
        return y_hat
    with np.errstate(over="ignore"):  # a tiny temperature: all but the likeliest become -inf, as they should
        y_hat = softmax((o - o.max()) / how.temperature)
    if how.top_k is None and how.top_p is None:
        return y_hat
    order = np.argsort(-o, kind="stable")  # the likeliest first
    keep = len(order) if how.top_k is None else min(how.top_k, len(order))
    if how.top_p is not None:
        # the smallest number of tokens whose probabilities add up to top_p or more, except for rounding
        keep = min(keep, int(np.searchsorted(np.cumsum(y_hat[order]), how.top_p * (1 - 1e-12))) + 1)
    y_hat[order[keep:]] = 0
    return np.asarray(y_hat / y_hat.sum())


def pick(y_hat: Array, u: float) -> int:
    """The token for a uniform number u from 0 to 1: inverse transform sampling."""
    cumulative = np.cumsum(y_hat)
    token = int(np.searchsorted(cumulative, u * cumulative[-1], side="right"))
    return min(token, int(np.flatnonzero(y_hat)[-1]))  # rounding must not select a token of probability 0


def check_request(length: int, stop: str | None, seed: int) -> None:
    """Check the arguments that sampling and beam search have in common."""
    if not is_whole(length) or not 0 <= length <= LARGEST:
        raise RangeError(option("length"), expected="a whole number of tokens from 0 to 2^53", got=length)
    if stop == "":
        raise ArgumentError(option("stop"), expected="a text that is not empty", got="''")
    if not is_whole(seed) or seed < 0:
        raise RangeError(option("seed"), expected="a whole number, 0 or more", got=seed)


def check_beam(width: int) -> None:
    if not is_whole(width) or not 1 <= width <= MAX_BEAM:
        raise RangeError(option("beam"), expected=f"a whole number from 1 to {MAX_BEAM}", got=width)


class Decoder:
    """A network with its weights packed, ready to generate."""

    def __init__(self, network: Network, parameters: Parameters, banned: Array | None = None) -> None:
        self.network, self.packed = network, network.pack(parameters)
        self.banned = np.empty(0, np.intp) if banned is None else banned  # ids that are never generated
        self.sampler = make_sampler(network.stacks[-1], parameters)

    def step(self, ids: Array, state: DecoderState) -> tuple[Array, DecoderState]:
        """Logits (B, Y) of the token after ids (B,), and the new state; a row does not depend on the other rows."""
        if self.sampler is not None or len(ids) == 1:
            return self.network.next_logits(self.packed, ids, state)
        # one by one, because in BLAS the last bits of a row may depend on the other rows
        alone = [
            self.network.next_logits(self.packed, ids[i : i + 1], state.take(slice(i, i + 1))) for i in range(len(ids))
        ]
        o, states = zip(*alone, strict=True)
        return np.concatenate(o), DecoderState.join(states)

    def write(
        self,
        o: Array,  # (B, Y), the logits of the first token; overwritten with those of the token after the last
        state: DecoderState,
        uniforms: Array,  # (n, B), random numbers from 0 to 1
        how: Sequence[Sampling],  # (B,)
    ) -> tuple[Array, DecoderState]:
        """Generate n tokens for each row, (n, B); returns them and the state after them."""
        if self.sampler is not None and not state.memory:
            each = as_arrays(how, self.network.outputs)
            after = state.state.copy()
            tokens = self.sampler.write(o, after, uniforms, **each, banned=self.banned)
            return tokens, DecoderState(after)
        tokens = np.empty(uniforms.shape, np.int64)
        for n, draws in enumerate(uniforms):
            if all(one.temperature == 0 for one in how):
                likeliest = o.copy()
                likeliest[:, self.banned] = -np.inf
                tokens[n] = likeliest.argmax(axis=1)
            else:
                for i, u in enumerate(draws):
                    tokens[n, i] = pick(distribution(o[i], how[i], self.banned), float(u))
            o[...], state = self.step(tokens[n], state)
        return tokens, state

    def generate(
        self,
        edge: int,  # the token before the first and after the last one of a sequence
        state: DecoderState,
        *,
        limit: int,
        how: Sampling | None = None,  # greedy unless given
        generators: Sequence[np.random.Generator] | None = None,  # one for each row
    ) -> list[list[int]]:
        """Generate each row until its `edge` token, `limit` tokens at most; a row does not depend on the others."""
        B = state.state.shape[2]
        how = how or Sampling(temperature=0.0)
        found: list[list[int]] = [[] for _ in range(B)]
        rows = np.arange(B)  # that have not ended
        if B and limit:
            o, state = self.step(np.full(B, edge), state)
        for start in range(0, limit, SEQUENCE_BLOCK):
            if not len(rows):
                break
            n = min(SEQUENCE_BLOCK, limit - start)
            uniforms = np.zeros((n, len(rows)))
            if generators is not None:
                uniforms = np.stack([generators[int(row)].random(n) for row in rows], axis=1)
            tokens, state = self.write(o, state, uniforms, [how] * len(rows))
            ended = (tokens == edge).any(axis=0)  # (rows,)
            for row, more, ends in zip(rows, tokens.T.tolist(), ended, strict=True):
                found[row] += more[: more.index(edge)] if ends else more
            rows, o, state = rows[~ended], o[~ended], state.take(np.flatnonzero(~ended))
        return found


class Hypothesis(NamedTuple):
    """A sequence of a beam search."""

    # Σ log probability; if the sequence has ended, divided by length ** length_penalty, where an edge token counts
    score: float
    tokens: list[int]


class _Search:
    """The beam search of one row."""

    def __init__(self, width: int, edge: int | None, ends: Callable[[list[int]], bool], length_penalty: float) -> None:
        self.width, self.edge, self.ends, self.length_penalty = width, edge, ends, length_penalty
        self.beams, self.ended = [Hypothesis(0.0, [])], []  # type: tuple[list[Hypothesis], list[Hypothesis]]
        self.parents: list[int] = []  # for each beam the number of the earlier beam that it continues
        self.running = True

    def advance(self, log_y_hat: Array) -> None:
        """Continue the beams by one token and keep the best `width`; log_y_hat (beams, Y)."""
        totals = np.array([beam.score for beam in self.beams])[:, np.newaxis] + log_y_hat
        length = len(self.beams[0].tokens) + 1
        if self.edge is not None:
            for beam, total in zip(self.beams, totals[:, self.edge].tolist(), strict=True):
                self._end(total, beam.tokens, length)
            totals[:, self.edge] = -np.inf
        before, self.beams, self.parents = self.beams, [], []
        best = max((one.score for one in self.ended), default=-np.inf)
        for place in _largest(totals.reshape(-1), self.width):
            parent, token = divmod(int(place), totals.shape[1])
            score, tokens = float(totals[parent, token]), [*before[parent].tokens, token]
            if score == -np.inf:
                continue
            if self.ends(tokens):
                best = max(best, self._end(score, tokens, length))
            elif self.length_penalty or score > best:
                self.parents.append(parent)
                self.beams.append(Hypothesis(score, tokens))
        if not self.beams:
            self.running = False
        elif self.length_penalty:  # ends when `width` ended sequences are at least as good as the best beam
            better = sum(one.score >= self._normalized(self.beams[0].score, length) for one in self.ended)
            self.running = better < self.width
        elif best >= self.beams[0].score:
            self.running, self.beams = False, []

    def _normalized(self, score: float, length: int) -> float:
        return float(score / length**self.length_penalty)

    def _end(self, score: float, tokens: list[int], length: int) -> float:
        if score == -np.inf:
            return score
        self.ended.append(Hypothesis(self._normalized(score, length), tokens))
        return self.ended[-1].score

    def found(self) -> list[Hypothesis]:
        rest = [] if self.edge is not None and self.ended else self.beams
        return sorted(self.ended + rest, key=lambda one: -one.score)


def _largest(values: Array, count: int) -> Array:
    """The indices of the `count` largest values, the largest first; equal values in their order."""
    if count < len(values):
        places = np.flatnonzero(values >= np.partition(values, -count)[-count])
    else:
        places = np.arange(len(values))
    return places[np.argsort(-values[places], kind="stable")][:count]


def beam_search(
    decoder: Decoder,
    o: Array,  # (B, Y), the logits of the first token
    state: DecoderState,
    *,
    width: int,
    limit: int,
    edge: int | None = None,  # a sequence ends before this token
    ends: Callable[[list[int]], bool] = lambda tokens: False,  # whether these tokens are a whole sequence
    length_penalty: float = 0.0,
) -> list[list[Hypothesis]]:
    """The sequences of each row that a beam search with `width` beams finds, the best first.

    Without a length penalty sequences are compared by their probability, which favors short ones. The search of a row
    ends when the best ended sequence is at least as likely as every beam, because a sequence is never likelier than its
    beginning. With a penalty, ended sequences are compared by Σ log probability / length^penalty, where the edge token
    counts, and the search ends when `width` of them are at least as good as every beam. All rows advance together.

    Sequences that have not ended after `limit` tokens are left out, unless `edge` is None or no sequence has ended.
    """
    searches = [_Search(width, edge, ends, length_penalty) for _ in range(len(o))]
    running, rows = searches, list[int]()
    for number in range(limit):
        if number:
            ids = [beam.tokens[-1] for search in running for beam in search.beams]
            o, state = decoder.step(np.array(ids), state.take(np.array(rows)))
        logits = o.astype(np.float64)
        logits[:, decoder.banned] = -np.inf
        with np.errstate(divide="ignore"):  # log 0 is -inf
            log_y_hat = np.log(softmax(logits))  # (rows, Y)
        rows, at = [], 0
        for search in running:
            count = len(search.beams)
            search.advance(log_y_hat[at : at + count])
            if search.running:
                rows += [at + parent for parent in search.parents]
            at += count
        running = [search for search in running if search.running]
        if not running:
            break
    return [search.found() for search in searches]


# -- text -------------------------------------------------------------------------------------------------------------


class TextSampler:
    """Generates text with the network, parameters and vocabulary of a language model."""

    def __init__(self, network: HeadNetwork, parameters: Parameters, vocabulary: Vocabulary) -> None:
        self.network, self.parameters, self.vocabulary = network, parameters, vocabulary
        # a word model never generates <unk>
        self.banned = np.array([0] if vocabulary.kind == "word" and len(vocabulary) > 1 else [], np.intp)

    def decoder(self) -> Decoder:
        """A decoder with the current parameters."""
        return Decoder(self.network, self.parameters, self.banned)

    def read(
        self, ids: Iterable[int] | Array, state: DecoderState | None = None, *, decoder: Decoder | None = None
    ) -> tuple[Array, DecoderState]:
        """Read ids; returns the logits (Y,) of the next token, and the state."""
        x = np.asarray(ids, np.int64)
        if not len(x):
            raise ArgumentError(option("prompt"), expected="at least one token", got="none")
        packed = self.network.pack(self.parameters) if decoder is None else decoder.packed
        start = self.network.stack.zero_state(1, self.parameters.buffer.dtype) if state is None else state.state
        o, after = self.network.read(packed, x[:, np.newaxis], start)
        return o[-1, 0], DecoderState(after)

    def prompt(self, text: str, rng: np.random.Generator, unknown: str = "error") -> tuple[list[int], list[int]]:
        """The ids to read first, and those of them that belong to the generated text.

        A sequence begins with <end>. Without a prompt, a text begins after a new line, which is not part of it; if the
        vocabulary has no new line, the first token is drawn.
        """
        if not isinstance(text, str):
            raise DtypeError(option("prompt"), expected="a str", got=type(text).__name__)
        if text or self.vocabulary.end is not None:
            ids = self.vocabulary.read(text, unknown=unknown)  # type: ignore[arg-type]
            if len(ids):
                return [int(i) for i in ids], []
        newline = self.vocabulary.encode("\n", unknown="skip")
        if len(newline) and newline[0] not in self.banned:
            return [int(newline[0])], []
        allowed = np.setdiff1d(np.arange(len(self.vocabulary)), self.banned)
        drawn = [int(rng.choice(allowed))]
        return drawn, drawn

    def tokens(self, prompt: list[int], how: Sampling, rng: np.random.Generator) -> Iterator[int]:
        """A stream of sampled tokens, up to the <end> of a sequence; that of a text has no end."""
        decoder = self.decoder()
        o, state = self.read(prompt, decoder=decoder)
        logits = o[np.newaxis].copy()  # (1, Y)
        while True:
            tokens, state = decoder.write(logits, state, rng.random((TEXT_BLOCK, 1)), [how])
            for token in tokens[:, 0].tolist():
                if token == self.vocabulary.end:
                    return
                yield token

    def stream(
        self,
        prompt: str = "",
        *,
        length: int = 500,
        how: Sampling | None = None,
        seed: int = 0,
        index: int = 0,
        stop: str | None = None,
        unknown: str = "error",
    ) -> Iterator[str]:
        """The sampled text in pieces, without the prompt; seed and `index` determine it."""
        check_request(length, stop, seed)
        how = (how or Sampling()).check()
        rng = np.random.default_rng([seed, index])
        ids, drawn = self.prompt(prompt, rng, unknown)
        return _until(stop, self.pieces(islice(chain(drawn, self.tokens(ids, how, rng)), length)))

    def write_many(
        self,
        prompt: str = "",
        *,
        count: int,
        length: int = 500,
        how: Sampling | None = None,
        seed: int = 0,
        stop: str | None = None,
        unknown: str = "error",
    ) -> list[str]:
        """The prompt with each of the samples 0 to count - 1, generated as one batch; each is the same as alone."""
        if not is_whole(count) or count < 1:
            raise RangeError(option("count"), expected="a whole number, 1 or more", got=count)
        check_request(length, stop, seed)
        how, decoder = (how or Sampling()).check(), self.decoder()
        generators = [np.random.default_rng([seed, index]) for index in range(count)]
        starts = [self.prompt(prompt, rng, unknown) for rng in generators]
        read = [self.read(ids, decoder=decoder) for ids, _ in starts]
        logits = np.stack([o for o, _ in read])  # (count, Y)
        state = DecoderState(np.concatenate([state.state for _, state in read], axis=2))  # (L, P, count, H)
        uniforms = np.stack([rng.random(length) for rng in generators], axis=1)  # (length, count)
        tokens, _ = decoder.write(logits, state, uniforms, [how] * count)  # (length, count)
        texts = (islice(chain(drawn, tokens[:, i].tolist()), length) for i, (_, drawn) in enumerate(starts))
        end = self.vocabulary.end
        return [prompt + "".join(_until(stop, self.pieces(takewhile(lambda i: i != end, ids)))) for ids in texts]

    def pieces(self, ids: Iterable[int]) -> Iterator[str]:
        """The text of each id. A character of several bytes comes with its last byte; one that is incomplete at the end
        is left out."""
        return map(self.vocabulary.decoder().feed, ids)

    def write(self, prompt: str = "", **options: object) -> str:
        """The prompt and the sampled text, as one string; the options are those of `stream`."""
        return prompt + "".join(self.stream(prompt, **options))  # type: ignore[arg-type]

    def likeliest(
        self, prompt: str, *, width: int, length: int, stop: str | None = None, unknown: str = "error", seed: int = 0
    ) -> str:
        """The prompt and the likeliest continuation that a beam search finds, up to the stop text."""
        check_beam(width)
        check_request(length, stop, seed)
        ids, drawn = self.prompt(prompt, np.random.default_rng([seed, 0]), unknown)
        drawn, decoder = drawn[:length], self.decoder()
        o, state = self.read(ids, decoder=decoder)

        def text_of(tokens: list[int]) -> str:
            return "".join(self.pieces([*drawn, *tokens]))

        def ends(tokens: list[int]) -> bool:
            return tokens[-1] == self.vocabulary.end or (stop is not None and stop in text_of(tokens))

        found = beam_search(decoder, o[np.newaxis], state, width=width, limit=length - len(drawn), ends=ends)
        text = text_of(found[0][0].tokens if found[0] else [])
        return prompt + (text[: text.index(stop)] if stop and stop in text else text)


def _until(stop: str | None, pieces: Iterator[str]) -> Iterator[str]:
    """The pieces up to the stop text.

    If the text so far ends with the beginning of the stop text, that end is held back until the next piece.
    """
    if stop is None:
        yield from pieces
        return
    held = ""
    for piece in pieces:
        held += piece
        if stop in held:
            yield held[: held.index(stop)]
            return
        safe = len(held) - next((n for n in range(len(stop) - 1, 0, -1) if held.endswith(stop[:n])), 0)
        if safe:
            yield held[:safe]
            held = held[safe:]
    yield held


# -- sequences with an end --------------------------------------------------------------------------------------------


def max_length(symbols: Symbols) -> int:
    """The maximum number of tokens of a generated sequence."""
    return MAX_LENGTH_RATIO * symbols.longest + MAX_LENGTH_EXTRA


def sample_labels(
    network: EncoderDecoder, p: Parameters, labels: Labels, symbols: Symbols, seed: int, step: int
) -> str:
    """A sample for each of a few labels, one per line, to show during the training of a generator."""
    ids = generator(seed, "labels", step).permutation(labels.width)[:SHOWN_LABELS]
    generators, decoder = [generator(seed, "sample", step + int(i)) for i in ids], Decoder(network, p, UNKNOWN)
    start = network.begin(decoder.packed, ids)
    how = Sampling(temperature=SHOWN_TEMPERATURE)
    written = decoder.generate(network.edge, start, limit=max_length(symbols), how=how, generators=generators)
    texts = [symbols.decode(tokens) for tokens in written]
    lines = [text if isinstance(text, str) else " ".join(text) for text in texts]
    return "\n".join(f"{label}: {line}" for label, line in zip(labels.decode(ids), lines, strict=True))
