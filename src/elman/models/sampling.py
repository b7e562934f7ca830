"""Writing with a language model, one token after the other: O(1) work a token, because the state is carried."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING

import numpy as np

from elman.config import LARGEST, is_real, is_whole
from elman.data import Vocabulary
from elman.errors import ArgumentError, DtypeError, RangeError
from elman.maths.arrays import Array
from elman.maths.loss import softmax
from elman.network import DecoderState, HeadNetwork, Parameters

if TYPE_CHECKING:
    from elman.models.decoding import Decoder

AHEAD = 32  # tokens that are written in one call of compiled code
WIDEST_BEAM = 1024  # beyond it a search takes forever and finds nothing likelier


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen."""

    temperature: float = 0.8  # below 1 is safer, above 1 is wilder, 0 takes the likeliest
    top_k: int | None = None  # choose among the k likeliest only
    top_p: float | None = None  # choose among the likeliest that together have this probability

    def check(self) -> Sampling:
        if not (is_real(self.temperature) and math.isfinite(self.temperature) and self.temperature >= 0):
            raise RangeError("temperature", expected="a number, 0 or more", got=self.temperature)
        if self.top_k is not None and not (is_whole(self.top_k) and self.top_k >= 1):
            raise RangeError("top_k", expected="a whole number, 1 or more", got=self.top_k)
        if self.top_p is not None and not (is_real(self.top_p) and 0 < self.top_p <= 1):
            raise RangeError("top_p", expected="a number above 0, at most 1", got=self.top_p)
        return self


def as_arrays(how: Sequence[Sampling], Y: int) -> dict[str, Array]:
    """As compiled code takes them: one number a sequence, (B,) each; all Y tokens where there is no limit."""
    return {
        "temperature": np.array([one.temperature for one in how], np.float64),
        "top_k": np.array([Y if one.top_k is None else min(one.top_k, Y) for one in how], np.int64),
        "top_p": np.array([1 if one.top_p is None else one.top_p for one in how], np.float64),
    }


def distribution(o: Array, how: Sampling, banned: Array | None = None) -> Array:
    """Probabilities of the next token, after temperature, top-k and top-p."""
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
        # as few as reach top_p: the one that crosses it is kept
        keep = min(keep, int(np.searchsorted(np.cumsum(y_hat[order]), how.top_p * (1 - 1e-12))) + 1)
    y_hat[order[keep:]] = 0
    return np.asarray(y_hat / y_hat.sum())


def pick(y_hat: Array, u: float) -> int:
    """The token at u, from 0 to 1, on the line on which each token's stretch is its probability."""
    cumulative = np.cumsum(y_hat)
    token = int(np.searchsorted(cumulative, u * cumulative[-1], side="right"))
    return min(token, int(np.flatnonzero(y_hat)[-1]))  # rounding must not reach past the last one possible


def check_request(length: int, stop: str | None, seed: int) -> None:
    """What drawing and beam search are asked for alike."""
    if not is_whole(length) or not 0 <= length <= LARGEST:
        raise RangeError("length", expected="a whole number of tokens from 0 to 2^53", got=length)
    if stop == "":
        raise ArgumentError("stop", expected="a text that is not empty", got="''")
    if not is_whole(seed) or seed < 0:
        raise RangeError("seed", expected="a whole number, 0 or more", got=seed)


def check_beam(width: int) -> None:
    if not is_whole(width) or not 1 <= width <= WIDEST_BEAM:
        raise RangeError("beam", expected=f"a whole number from 1 to {WIDEST_BEAM}", got=width)


class Writer:
    """A network with its parameters and vocabulary, ready to write."""

    def __init__(self, network: HeadNetwork, parameters: Parameters, vocabulary: Vocabulary) -> None:
        self.network, self.parameters, self.vocabulary = network, parameters, vocabulary
        # a word model never writes <unk>
        self.banned = np.array([0] if vocabulary.kind == "word" and len(vocabulary) > 1 else [], np.intp)

    def decoder(self) -> Decoder:
        """The parameters as they are now, ready to write."""
        from elman.models.decoding import Decoder

        return Decoder(self.network, self.parameters, self.banned)

    def read(
        self, ids: Iterable[int] | Array, state: DecoderState | None = None, *, decoder: Decoder | None = None
    ) -> tuple[Array, DecoderState]:
        """The logits (Y,) after the last of the ids, and the state."""
        x = np.asarray(ids, np.int64)
        if not len(x):
            raise ArgumentError("prompt", expected="at least one token", got="none")
        packed = self.network.pack(self.parameters) if decoder is None else decoder.packed
        start = self.network.stack.zero_state(1, self.parameters.buffer.dtype) if state is None else state.state
        o, after = self.network.read(packed, x[:, np.newaxis], start)
        return o[-1, 0], DecoderState(after)

    def prompt(self, text: str, rng: np.random.Generator, unknown: str = "error") -> tuple[list[int], list[int]]:
        """The ids to read first, and those of them that count as written.

        Without a prompt a new line is read, which nobody sees; where the vocabulary has none, a token is drawn.
        """
        if not isinstance(text, str):
            raise DtypeError("prompt", expected="a str", got=type(text).__name__)
        if text:
            ids = self.vocabulary.encode(text, unknown=unknown)  # type: ignore[arg-type]
            if len(ids):
                return [int(i) for i in ids], []
        newline = self.vocabulary.encode("\n", unknown="skip")
        if len(newline) and newline[0] not in self.banned:
            return [int(newline[0])], []
        allowed = np.setdiff1d(np.arange(len(self.vocabulary)), self.banned)
        drawn = [int(rng.choice(allowed))]
        return drawn, drawn

    def tokens(self, prompt: list[int], how: Sampling, rng: np.random.Generator) -> Iterator[int]:
        """Token after token, without end."""
        decoder = self.decoder()
        o, state = self.read(prompt, decoder=decoder)
        logits = o[np.newaxis].copy()  # (1, Y)
        while True:
            tokens, state = decoder.write(logits, state, rng.random((AHEAD, 1)), [how])
            yield from tokens[:, 0].tolist()

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
        """Pieces of text as they are written, the prompt not among them; sample `index` of those with this seed."""
        check_request(length, stop, seed)
        how = (how or Sampling()).check()
        rng = np.random.default_rng([seed, index])
        ids, begun = self.prompt(prompt, rng, unknown)
        return _until(stop, self.pieces(islice(chain(begun, self.tokens(ids, how, rng)), length)))

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
        """The samples with index 0 to count - 1, each as it would be alone, written side by side."""
        if not is_whole(count) or count < 1:
            raise RangeError("count", expected="a whole number, 1 or more", got=count)
        check_request(length, stop, seed)
        how, decoder = (how or Sampling()).check(), self.decoder()
        generators = [np.random.default_rng([seed, index]) for index in range(count)]
        starts = [self.prompt(prompt, rng, unknown) for rng in generators]
        read = [self.read(ids, decoder=decoder) for ids, _ in starts]
        logits = np.stack([o for o, _ in read])  # (count, Y)
        state = DecoderState(np.concatenate([state.state for _, state in read], axis=2))  # (L, P, count, H)
        uniforms = np.stack([rng.random(length) for rng in generators], axis=1)  # (length, count)
        tokens, _ = decoder.write(logits, state, uniforms, [how] * count)  # (length, count)
        texts = (islice(chain(begun, tokens[:, i].tolist()), length) for i, (_, begun) in enumerate(starts))
        return [prompt + "".join(_until(stop, self.pieces(ids))) for ids in texts]

    def pieces(self, ids: Iterable[int]) -> Iterator[str]:
        """The text of ids, one by one; a byte model's unfinished character waits, and is left out at the end."""
        return map(self.vocabulary.decoder().feed, ids)

    def write(self, prompt: str = "", **options: object) -> str:
        """The same, whole: the prompt and what follows it."""
        return prompt + "".join(self.stream(prompt, **options))  # type: ignore[arg-type]


def _until(stop: str | None, pieces: Iterator[str]) -> Iterator[str]:
    """The pieces up to the stop text; as much as could be its beginning is held back until it is known."""
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
