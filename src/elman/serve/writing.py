"""One text that a client has asked for: what is to be read and written, how far it is, and what is said of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from elman.maths.arrays import Array
from elman.maths.loss import surprise
from elman.models.sampling import Sampling
from elman.serve.stepper import Stepper
from elman.serve.transcript import Part, Transcript

Finish = Literal["length", "stop", "timeout", "error"]


class Note(NamedTuple):
    """What the model thought of a token before it came, and of a unit after it."""

    token: int
    logprob: float | None  # None for the first token of all, which nothing predicts
    top: list[tuple[int, float]]  # the likeliest tokens with theirs
    activation: float | None


class Delta(NamedTuple):
    """What is new; notes on the prompt come without text, because the client has it."""

    text: str = ""
    notes: Sequence[Note] = ()
    tokens: int = 0
    finish: Finish | None = None


@dataclass(frozen=True)
class Wanted:
    """What is to be said with each token."""

    top: int = 0  # the likeliest tokens
    prompt: bool = False  # with those of the prompt too
    unit: tuple[int, int] | None = None  # layer and unit whose activation is wanted


@dataclass(eq=False)
class Writing:
    stepper: Stepper
    prompt: Array  # ids to read first, at least one
    begun: list[int]  # those of them that count as written
    how: Sampling
    rng: np.random.Generator
    length: int  # tokens to write
    transcript: Transcript
    receive: Callable[[Delta], None]
    wanted: Wanted | None = None
    deadline: float = float("inf")  # of time.monotonic
    read: int = 0  # tokens of the prompt
    written: int = 0
    cancelled: bool = False
    o: Array | None = None  # (Y,) after what was read

    def __post_init__(self) -> None:
        self.state = self.stepper.zero_state  # (L, P, 1, H), while the prompt is read

    @property
    def late(self) -> bool:
        return time.monotonic() > self.deadline

    def take(self, s: Array, count: int) -> Delta:
        """All states (L, P, T+1, H) of the next tokens of the prompt, of which the first `count` are its own."""
        ids, before = self.prompt[self.read : self.read + count], self.o
        self.read += count
        self.state = s[:, :, [count]]
        through, notes = self.read == len(self.prompt), []
        if self.wanted is not None and self.wanted.prompt:
            o = self.stepper.logits(s[-1, 0, 1 : count + 1])  # (count, Y)
            self.o, notes = o[-1], self.notes(ids, before, o, s[:, 0])
        elif through:
            self.o = self.stepper.logits(s[-1, 0, [count]])[0]
        begun = self._begin() if through else Delta()
        return begun._replace(notes=[*notes, *begun.notes])

    def notes(self, ids: Array, before: Array | None, o: Array, h: Array) -> list[Note]:
        """On tokens that follow logits `before` and were read with logits o (n, Y) and states h (L, n+1, H)."""
        assert self.wanted is not None
        top, unit = min(self.wanted.top, o.shape[1]), self.wanted.unit
        first = np.zeros_like(o[:1]) if before is None else before[np.newaxis]
        o = np.concatenate([first, o[:-1]]).astype(np.float64)  # (n, Y) from which each token was chosen
        likeliest = np.argsort(-o, axis=1, kind="stable")[:, :top]  # (n, top)
        asked = np.column_stack([ids.astype(np.int64), likeliest])  # (n, 1+top)
        logprobs = (-surprise(o[:, np.newaxis], asked)).tolist()
        active = [None] * len(ids) if unit is None else h[unit[0], 1 : len(ids) + 1, unit[1]].tolist()
        noted = [
            Note(token, own, list(zip(tokens, others, strict=True)), activation)
            for (token, *tokens), (own, *others), activation in zip(asked.tolist(), logprobs, active, strict=True)
        ]
        if before is None:
            noted[0] = noted[0]._replace(logprob=None, top=[])
        return noted

    def _begin(self) -> Delta:
        """The prompt is read; what is drawn where there is none counts as written."""
        notes = [Note(token, None, [], None) for token in self.begun] if self.wanted is not None else None
        return self.add(self.begun, notes)

    def add(self, tokens: list[int], notes: list[Note] | None) -> Delta:
        left = self.length - self.written
        part = self.transcript.feed(tokens[:left], notes[:left] if notes is not None else None)
        self.written += part.tokens
        if part.stopped:
            return self._delta(part, "stop")
        if self.written < self.length:
            return self._delta(part, None)
        rest = self.transcript.end()
        return self._delta(Part(part.text + rest.text, part.notes + rest.notes, part.tokens, False), "length")

    def _delta(self, part: Part, finish: Finish | None) -> Delta:
        return Delta(part.text, part.notes if self.wanted is not None else (), part.tokens, finish)
