"""One text to generate: its prompt, sampling settings, progress, and the log-probabilities of its tokens."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from elman.maths.arrays import Array
from elman.maths.loss import surprise
from elman.models.sampling import Sampling
from elman.serve.detokenizer import Detokenizer, Part
from elman.serve.stepper import Stepper

FinishReason = Literal["length", "stop", "timeout", "error"]


class TokenInfo(NamedTuple):
    """A token with the model's prediction of it."""

    token: int
    logprob: float | None  # None for the first token, which has no prediction
    top: list[tuple[int, float]]  # the most probable tokens with their log-probabilities
    activation: float | None  # of a unit, after the token


class Delta(NamedTuple):
    """New text and tokens for the client. Tokens of the prompt come as infos only; ChoiceBuilder adds their text."""

    text: str = ""
    infos: Sequence[TokenInfo] = ()
    tokens: int = 0  # number of new tokens, without those of the prompt
    finish: FinishReason | None = None


@dataclass(frozen=True)
class LogprobOptions:
    """Which log-probabilities and activations are returned with each token."""

    top: int = 0  # number of most probable tokens
    prompt: bool = False  # for the tokens of the prompt too
    unit: tuple[int, int, int] | None = None  # layer, state part (0 is h, 1 is c) and unit to return


@dataclass(eq=False)
class SequenceJob:
    stepper: Stepper
    prompt: Array  # token ids to read first, at least one
    initial: list[int]  # those tokens of the prompt that belong to the generated text
    sampling: Sampling
    rng: np.random.Generator
    max_tokens: int
    detokenizer: Detokenizer
    on_delta: Callable[[Delta], None]
    logprobs: LogprobOptions | None = None
    deadline: float = float("inf")  # of time.monotonic
    tokens_read: int = 0  # of the prompt
    tokens_generated: int = 0
    cancelled: bool = False
    o: Array | None = None  # logits (Y,) after the last token that was read; until the prompt ends only with logprobs

    def __post_init__(self) -> None:
        self.state = self.stepper.zero_state  # (L, P, 1, H), while the prompt is read

    @property
    def expired(self) -> bool:
        return time.monotonic() > self.deadline

    def advance_prompt(self, s: Array, count: int) -> Delta:
        """Take the states (L, P, T+1, H) of the next `count` tokens of the prompt; later states are padding."""
        begins = self.tokens_read == 0 and self.prompt[0] == self.stepper.vocabulary.end
        ids, before = self.prompt[self.tokens_read : self.tokens_read + count], self.o
        self.tokens_read += count
        self.state = s[:, :, [count]]
        complete, infos = self.tokens_read == len(self.prompt), []
        if self.logprobs is not None and self.logprobs.prompt:
            o = self.stepper.logits(s[-1, 0, 1 : count + 1])  # (count, Y)
            self.o, infos = o[-1], self.token_infos(ids, before, o, s)[int(begins) :]  # <end> is not the client's
        elif complete:
            self.o = self.stepper.logits(s[-1, 0, [count]])[0]
        if not complete:
            return Delta(infos=infos)
        first = [TokenInfo(token, None, [], None) for token in self.initial] if self.logprobs is not None else None
        delta = self.append(self.initial, first)
        return delta._replace(infos=[*infos, *delta.infos])

    def token_infos(self, ids: Array, before: Array | None, o: Array, s: Array) -> list[TokenInfo]:
        """The infos of n tokens, from the logits before the first, those after each, o (n, Y), and s (L, P, n+1, H)."""
        assert self.logprobs is not None
        top, unit = min(self.logprobs.top, o.shape[1]), self.logprobs.unit
        first = np.zeros_like(o[:1]) if before is None else before[np.newaxis]
        o = np.concatenate([first, o[:-1]]).astype(np.float64)  # (n, Y), which predict each token
        most_probable = np.argsort(-o, axis=1, kind="stable")[:, :top]  # (n, top)
        tokens = np.column_stack([ids.astype(np.int64), most_probable])  # (n, 1+top)
        logprobs = (-surprise(o[:, np.newaxis], tokens)).tolist()
        active = [None] * len(ids) if unit is None else s[unit[0], unit[1], 1 : len(ids) + 1, unit[2]].tolist()
        infos = [
            TokenInfo(token, own, list(zip(others, other_logprobs, strict=True)), activation)
            for (token, *others), (own, *other_logprobs), activation in zip(
                tokens.tolist(), logprobs, active, strict=True
            )
        ]
        if before is None:
            infos[0] = infos[0]._replace(logprob=None, top=[])
        return infos

    def append(self, tokens: list[int], infos: list[TokenInfo] | None) -> Delta:
        """Add generated tokens, up to max_tokens or to the <end> of a sequence."""
        end, tokens = self.stepper.vocabulary.end, tokens[: self.max_tokens - self.tokens_generated]
        ended = end is not None and end in tokens
        tokens = tokens[: tokens.index(end)] if end is not None and ended else tokens
        part = self.detokenizer.feed(tokens, infos[: len(tokens)] if infos is not None else None)
        self.tokens_generated += part.tokens
        if part.stopped:
            return self._delta(part, "stop")
        if self.tokens_generated < self.max_tokens and not ended:
            return self._delta(part, None)
        rest = self.detokenizer.end()
        whole = Part(part.text + rest.text, part.infos + rest.infos, part.tokens, False)
        return self._delta(whole, "stop" if ended else "length")

    def _delta(self, part: Part, finish: FinishReason | None) -> Delta:
        return Delta(part.text, part.infos if self.logprobs is not None else (), part.tokens, finish)
