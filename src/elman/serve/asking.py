"""A request for completions: what would change the meaning of a text and is not supported is refused, not ignored."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from elman.data.vocabulary import UNKNOWN
from elman.models.sampling import Sampling
from elman.serve.fields import Fields
from elman.serve.limits import Limits
from elman.serve.problems import ApiError
from elman.serve.stepper import Stepper
from elman.serve.transcript import Transcript
from elman.serve.writing import Wanted, Writing

MOST_STOPS, MOST_TOP, LARGEST_SEED = 4, 20, 2**63 - 1
MOST_LOGPROBS = 1 << 19  # numbers in an answer: some 14 MB

Prompt = str | list[int]


@dataclass(frozen=True)
class Ask:
    model: str | None
    prompts: list[Prompt]
    n: int
    max_tokens: int
    how: Sampling
    stop: tuple[str, ...]
    seed: int
    wanted: Wanted | None
    echo: bool
    stream: bool
    usage: bool  # a last chunk with the counts
    unknown: str


def read_ask(fields: Fields, limits: Limits) -> Ask:
    prompts = _prompts(fields)
    n = fields.whole("n", 1, 1, 128)
    if len(prompts) * n > limits.max_sequences:
        raise ApiError(
            400,
            f"{len(prompts)} prompts × n = {n}: expected at most {limits.max_sequences} texts in a request",
            code="too_many_texts",
            param="n",
        )
    echo, stream = fields.flag("echo"), fields.flag("stream")
    best_of = fields.whole("best_of", n, 1, 128)
    if best_of != n:
        fields.refuse("best_of", "n: Elman does not choose among texts", code="unsupported_value")
    for name, harmless in (("presence_penalty", 0), ("frequency_penalty", 0), ("suffix", ""), ("logit_bias", {})):
        fields.only(name, harmless)
    fields.text("user", None, 10_000)
    ask = Ask(
        model=fields.text("model", None, 1000),
        prompts=prompts,
        n=n,
        max_tokens=fields.whole("max_tokens", 16, 0, limits.max_tokens),
        how=Sampling(
            temperature=fields.number("temperature", 1.0, 0, 2),
            top_k=fields.whole("top_k", None, 1, 2**31),
            top_p=fields.number("top_p", None, 0, 1, above=True),
        ),
        stop=_stops(fields),
        seed=fields.whole("seed", random.getrandbits(62), 0, LARGEST_SEED),
        wanted=_wanted(fields, echo),
        echo=echo,
        stream=stream,
        usage=_usage(fields, stream),
        unknown=fields.one_of("unknown", "error", UNKNOWN),
    )
    fields.end()
    return ask


def _prompts(fields: Fields) -> list[Prompt]:
    """A text, texts, ids, or lists of ids."""
    value = fields.take("prompt")
    if value is None:
        return [""]
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and value:
        if all(isinstance(item, str) for item in value):
            return value
        if _are_ids(value):
            return [[int(i) for i in value]]
        if all(isinstance(item, list) and item and _are_ids(item) for item in value):
            return [[int(i) for i in item] for item in value]
    return fields.refuse("prompt", "a text, a list of texts, a list of token ids, or a list of such lists; none empty")


def _are_ids(values: list[Any]) -> bool:
    return all(type(i) is int or (type(i) is float and i.is_integer()) for i in values)


def _stops(fields: Fields) -> tuple[str, ...]:
    value = fields.take("stop")
    if value is None:
        return ()
    stops = [value] if isinstance(value, str) else value
    fits = isinstance(stops, list) and len(stops) <= MOST_STOPS
    if not fits or not all(isinstance(stop, str) and 0 < len(stop) <= 1000 for stop in stops):
        fields.refuse("stop", f"a text that is not empty, or a list of up to {MOST_STOPS}")
    return tuple(stops)


def _wanted(fields: Fields, echo: bool) -> Wanted | None:
    top = fields.whole("logprobs", None, 0, MOST_TOP)
    unit, layer = fields.whole("unit", None, 0, 2**31), fields.whole("layer", 0, 0, 2**31)
    if top is None:
        if unit is not None:
            fields.refuse("unit", "logprobs beside it: activations come with them")
        return None
    return Wanted(top, echo, None if unit is None else (layer, unit))


def _usage(fields: Fields, stream: bool) -> bool:
    value = fields.take("stream_options")
    if value is None:
        return False
    if not stream:
        fields.refuse("stream_options", "stream: true beside it")
    if not isinstance(value, dict):
        fields.refuse("stream_options", "an object")
    options = Fields(value)
    usage = options.flag("include_usage")
    options.flag("include_obfuscation")  # padding against eavesdroppers, which Elman does not add
    options.end()
    return usage


def encode(prompt: Prompt, stepper: Stepper, ask: Ask, limits: Limits) -> tuple[Any, str]:
    """The ids of a prompt, and its text for an echo."""
    vocabulary = stepper.vocabulary
    if isinstance(prompt, str):
        if len(prompt) > 8 * limits.max_prompt:  # it cannot fit: do not even look
            raise _too_long(limits)
        if ask.unknown == "replace" and vocabulary.kind == "char":
            message = "unknown: expected error or skip: characters have no <unk>"
            raise ApiError(400, message, code="invalid_value", param="unknown")
        ids = vocabulary.encode(prompt, unknown=ask.unknown)  # type: ignore[arg-type]
        text = prompt
    else:
        if not all(0 <= i < len(vocabulary) for i in prompt):
            message = f"prompt: expected token ids from 0 to {len(vocabulary) - 1}"
            raise ApiError(400, message, code="invalid_value", param="prompt")
        ids, text = np.array(prompt, np.int64), vocabulary.decode(prompt)
    if len(ids) > limits.max_prompt:
        raise _too_long(limits)
    return ids, text


def count_logprobs(ask: Ask, prompt: int) -> int:
    """How many may be told of the texts that follow a prompt of so many tokens."""
    if ask.wanted is None:
        return 0
    return ask.n * ((prompt if ask.echo else 0) + ask.max_tokens) * (1 + ask.wanted.top)


def too_many_logprobs() -> ApiError:
    message = f"texts × tokens × (1 + logprobs): expected at most {MOST_LOGPROBS:,} in a request"
    return ApiError(400, message, code="too_many_logprobs", param="logprobs")


def _too_long(limits: Limits) -> ApiError:
    message = f"prompt: expected at most {limits.max_prompt} tokens"
    return ApiError(400, message, code="context_length_exceeded", param="prompt")


def new_writing(ids: Any, index: int, stepper: Stepper, ask: Ask, receive: Any, deadline: float) -> Writing:
    """Text `index` of those that the seed gives: as Writer.stream begins it."""
    rng = np.random.default_rng([ask.seed, index])
    begun: list[int] = []
    wanted = ask.wanted
    if not len(ids):
        first, begun = stepper.writer.prompt("", rng)
        ids = np.array(first)
        wanted = replace(wanted, prompt=False) if wanted is not None else None  # nobody sees what is read first
    if wanted is not None and wanted.unit is not None:
        (layer, unit), stack = wanted.unit, stepper.network.stack
        if layer >= stack.layers or unit >= stack.hidden:
            size = f"{stack.layers} × {stack.hidden}"
            raise ApiError(400, f"unit: the network has {size} units", code="invalid_value", param="unit")
    transcript = Transcript(stepper.vocabulary, ask.stop)
    return Writing(stepper, ids, begun, ask.how, rng, ask.max_tokens, transcript, receive, wanted, deadline)
