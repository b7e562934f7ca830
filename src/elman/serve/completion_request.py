"""Turns a completion request into jobs of the engine."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from elman.models.sampling import Sampling
from elman.network import Stack
from elman.serve.detokenizer import Detokenizer
from elman.serve.errors import ApiError, invalid
from elman.serve.limits import Limits
from elman.serve.schemas import STATES, CompletionRequest
from elman.serve.sequence_job import Delta, LogprobOptions, SequenceJob
from elman.serve.stepper import Stepper

MAX_LOGPROBS = 1 << 19  # log-probabilities in one response: about 14 MB


class CompletionParams:
    """A completion request that was checked against the limits of the service, and its fields against each other."""

    def __init__(self, request: CompletionRequest, limits: Limits) -> None:
        self.request, self.limits = request, limits
        self.prompts = _prompts(request.prompt)
        texts = len(self.prompts) * request.n
        if texts > limits.max_sequences:
            message = f"The number of prompts times n: expected at most {limits.max_sequences} texts, got {texts}. "
            message += "Send fewer prompts or a smaller n."
            raise ApiError(400, message, code="too_many_texts", param="n")
        if request.max_tokens > limits.max_tokens:
            raise invalid("max_tokens", f"at most {limits.max_tokens}")
        if request.best_of not in (None, request.n):
            raise invalid(
                "best_of", "the value of n: Elman does not choose the best of several texts", code="unsupported_value"
            )
        if request.stream_options is not None and not request.stream:
            raise invalid("stream_options", "stream: true as well")
        if request.unit is not None and request.logprobs is None:
            raise invalid("unit", "logprobs as well: activations are returned with them")
        self.include_usage = request.stream_options is not None and request.stream_options.include_usage
        self.seed = random.getrandbits(62) if request.seed is None else request.seed
        self.stop = (request.stop,) if isinstance(request.stop, str) else tuple(request.stop or ())
        self.sampling = Sampling(request.temperature, request.top_k, request.top_p)
        self.logprobs: LogprobOptions | None = None
        if request.logprobs is not None:
            unit = None if request.unit is None else (request.layer, STATES.index(request.state), request.unit)
            self.logprobs = LogprobOptions(request.logprobs, request.echo, unit)

    def encode(self, prompt: str | list[int], stepper: Stepper) -> tuple[Any, str]:
        """The token ids of a prompt, and the text that they stand for, which is returned with `echo`."""
        vocabulary, unknown = stepper.vocabulary, self.request.unknown
        if isinstance(prompt, str):
            if unknown == "replace" and vocabulary.kind == "char":
                raise invalid("unknown", "error or skip: a vocabulary of characters has no <unk>")
            ids = vocabulary.encode(prompt, unknown=unknown)
            text = prompt if unknown == "error" else vocabulary.decode(ids)
        else:
            if not all(0 <= i < len(vocabulary) for i in prompt):
                raise invalid("prompt", f"token ids from 0 to {len(vocabulary) - 1}")
            ids, text = np.array(prompt, np.int64), vocabulary.decode(prompt)
        if len(ids) > self.limits.max_prompt:
            raise invalid("prompt", f"at most {self.limits.max_prompt} tokens", code="context_length_exceeded")
        return ids, text

    def count_logprobs(self, prompt: int) -> int:
        """The largest number of log-probabilities in the response for a prompt of this number of tokens."""
        if self.logprobs is None:
            return 0
        tokens = (prompt if self.request.echo else 0) + self.request.max_tokens
        return self.request.n * tokens * (1 + self.logprobs.top)

    def new_job(
        self, ids: Any, index: int, stepper: Stepper, on_delta: Callable[[Delta], None], deadline: float
    ) -> SequenceJob:
        """The job of sample `index` of a prompt.

        Its text is what follows the prompt in sample `index` of LanguageModel.sample_many with the same prompt, seed
        and options.
        """
        rng = np.random.default_rng([self.seed, index])
        initial: list[int] = []
        logprobs = self.logprobs
        if not len(ids):
            first, initial = stepper.text_sampler.prompt("", rng)
            ids = np.array(first)
            logprobs = replace(logprobs, prompt=False) if logprobs is not None else None  # the client gave no prompt
        elif stepper.vocabulary.end is not None:
            ids = np.array([stepper.vocabulary.end, *ids])
        if logprobs is not None and logprobs.unit is not None:
            check_unit(stepper.network.stack, *logprobs.unit)
        detokenizer = Detokenizer(stepper.vocabulary, self.stop)
        max_tokens = self.request.max_tokens
        return SequenceJob(
            stepper, ids, initial, self.sampling, rng, max_tokens, detokenizer, on_delta, logprobs, deadline
        )


def _prompts(prompt: str | list[str] | list[int] | list[list[int]]) -> list[str | list[int]]:
    if isinstance(prompt, str):
        return [prompt]
    if isinstance(prompt[0], int):
        return [prompt]
    return list(prompt)


def check_unit(stack: Stack, layer: int, part: int, unit: int) -> None:
    if layer >= stack.layers:
        raise invalid("layer", f"a layer from 0 to {stack.layers - 1}")
    if unit >= stack.hidden:
        raise invalid("unit", f"a unit from 0 to {stack.hidden - 1}")
    if part >= stack.cell.parts:
        raise invalid("state", f"h: a {stack.cell.name} has no cell state c")


def too_many_logprobs() -> ApiError:
    message = f"texts × tokens × (1 + logprobs): expected at most {MAX_LOGPROBS:,} log-probabilities in one response. "
    message += "Ask for fewer texts, tokens or logprobs."
    return ApiError(400, message, code="too_many_logprobs", param="logprobs")
