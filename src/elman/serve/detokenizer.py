"""From tokens to text that can be sent: a possible beginning of a stop text is held back."""

from __future__ import annotations

import codecs
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any, NamedTuple

from elman.data import Vocabulary


class Part(NamedTuple):
    """The text and tokens that are released."""

    text: str
    infos: list[Any]  # one for each released token
    tokens: int  # number of new tokens, released or held back, without those after a stop text
    stopped: bool  # whether a stop text is complete


class Detokenizer:
    """Decodes one text while it is generated."""

    def __init__(self, vocabulary: Vocabulary, stop: Iterable[str] = ()) -> None:
        self._decode, self.stop = token_decoder(vocabulary), tuple(stop)
        self._held: list[tuple[str, Any]] = []  # tokens that are not released yet

    def feed(self, tokens: list[int], infos: list[Any] | None = None) -> Part:
        """Add tokens; returns what can be released now."""
        pieces = self._decode(tokens)
        infos = [None] * len(pieces) if infos is None else infos
        if not self.stop:
            return Part("".join(pieces), infos, len(pieces), False)
        before = len(self._held)
        self._held += zip(pieces, infos, strict=True)
        held = "".join(piece for piece, _ in self._held)
        ends = list(accumulate(len(piece) for piece, _ in self._held))
        found = [(at + len(stop), at) for stop in self.stop if (at := held.find(stop)) >= 0]
        if found:
            end, at = min(found)  # the stop text that is complete first
            _, infos = self._release(bisect_left([0, *ends[:-1]], at))  # all tokens that begin before it
            return Part(held[:at], infos, bisect_left(ends, end) + 1 - before, True)
        safe = len(held) - max(_overlap(held, stop) for stop in self.stop)
        text, infos = self._release(bisect_right(ends, safe))
        return Part(text, infos, len(pieces), False)

    def end(self) -> Part:
        """The text that is still held back. An incomplete character, if tokens are bytes or subwords, is left out."""
        text, infos = self._release(len(self._held))
        return Part(text, infos, 0, False)

    def _release(self, count: int) -> tuple[str, list[Any]]:
        released, self._held = self._held[:count], self._held[count:]
        return "".join(piece for piece, _ in released), [info for _, info in released]


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of the text that is a beginning of the stop text."""
    return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n])), 0)


def token_decoder(vocabulary: Vocabulary) -> Callable[[Iterable[int]], list[str]]:
    """A function from token ids to their texts; a character of several byte tokens comes with its last one."""
    if vocabulary.pieces:
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        pieces = vocabulary.pieces
        return lambda tokens: [decode(pieces[i]) for i in tokens]
    table = ["" if i == vocabulary.end else token for i, token in enumerate(vocabulary.tokens)]
    return lambda tokens: [table[i] for i in tokens]


def token_names(vocabulary: Vocabulary) -> tuple[str, ...]:
    """The names of tokens in log-probabilities: their texts; bytes that are no whole characters in OpenAI's form."""
    if not vocabulary.pieces:
        return vocabulary.tokens
    count = len(vocabulary) - (vocabulary.end is not None)
    return (*map(_piece_name, vocabulary.pieces[:count]), *vocabulary.tokens[count:])


def _piece_name(piece: bytes) -> str:
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in piece)
