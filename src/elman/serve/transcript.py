"""From tokens to the text that may be shown: what could be the beginning of a stop text waits until it is known."""

from __future__ import annotations

import codecs
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import Any, NamedTuple

from elman.data import Vocabulary


class Part(NamedTuple):
    """What tokens have added to a text."""

    text: str
    notes: list[Any]  # what was said with each token that is now shown
    tokens: int  # how many were used up: those after a stop text are not
    stopped: bool


class Transcript:
    """One text as it grows."""

    def __init__(self, vocabulary: Vocabulary, stop: Iterable[str] = ()) -> None:
        self._pieces, self.stop = pieces(vocabulary), tuple(stop)
        self._waiting: list[tuple[str, Any]] = []  # tokens that are not shown yet

    def feed(self, tokens: list[int], notes: list[Any] | None = None) -> Part:
        added = self._pieces(tokens)
        notes = [None] * len(added) if notes is None else notes
        if not self.stop:
            return Part("".join(added), notes, len(added), False)
        before = len(self._waiting)
        self._waiting += zip(added, notes, strict=True)
        held = "".join(piece for piece, _ in self._waiting)
        ends = list(accumulate(len(piece) for piece, _ in self._waiting))
        found = [(at + len(stop), at) for stop in self.stop if (at := held.find(stop)) >= 0]
        if found:
            end, at = min(found)  # the stop text that is complete first
            _, notes = self._take(bisect_left([0, *ends[:-1]], at))  # all tokens that begin before it
            return Part(held[:at], notes, bisect_left(ends, end) + 1 - before, True)
        safe = len(held) - max(_overlap(held, stop) for stop in self.stop)
        text, notes = self._take(bisect_right(ends, safe))
        return Part(text, notes, len(added), False)

    def end(self) -> Part:
        """What waits is no stop text after all. A byte model's unfinished character is left out."""
        text, notes = self._take(len(self._waiting))
        return Part(text, notes, 0, False)

    def _take(self, count: int) -> tuple[str, list[Any]]:
        taken, self._waiting = self._waiting[:count], self._waiting[count:]
        return "".join(piece for piece, _ in taken), [note for _, note in taken]


def _overlap(text: str, stop: str) -> int:
    """The longest end of a text with which the stop text may have begun."""
    return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n])), 0)


def pieces(vocabulary: Vocabulary) -> Callable[[Iterable[int]], list[str]]:
    """A function from tokens to their texts; a byte model's character comes with its last byte."""
    if vocabulary.kind == "byte":
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        single = [bytes([i]) for i in range(256)]
        return lambda tokens: [decode(single[i]) for i in tokens]
    table = vocabulary.tokens
    return lambda tokens: [table[i] for i in tokens]


def names(vocabulary: Vocabulary) -> tuple[str, ...]:
    """What tokens are called in log-probabilities: themselves; bytes that are no character as OpenAI writes them."""
    if vocabulary.kind == "byte":
        return tuple(chr(i) if i < 128 else f"bytes:\\x{i:02x}" for i in range(256))
    return vocabulary.tokens
