"""POST /v1/elman/predict: one form for every task that is not writing.

    {"model": "names", "inputs": ["Rossi", "Schmidt"]}
    {"object": "prediction", "model": "names", "task": "classify", "outputs": [
        {"output": "Italian", "probabilities": {"German": 0.1, "Italian": 0.9}}, …]}

An input is what the model was trained on: a text, a list of tokens, a list of numbers or of rows of numbers; to
generate, a label or a list of numbers. An output is a class, a list of tags, a number or numbers, or a text or tokens.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from elman.models.generator_sample import limit_of
from elman.serve.fields import Fields, read_fields
from elman.serve.limits import Limits
from elman.serve.plain import Json, dumps, plain
from elman.serve.problems import ApiError
from elman.serve.registry import Loaded, Registry
from elman.serve.work import Work

MOST_INPUTS, WIDEST_BEAM, LONGEST = 256, 32, 1000
MOST_STEPS = 1 << 17  # of all sequences of a request, those that are written counted once for each candidate
MOST_BYTES = 16 << 20  # of an answer
NUMBER = 24  # bytes of a probability in JSON


class Options(NamedTuple):
    beam: int  # generate, translate: the likeliest sequence that so many candidates find
    temperature: float | None  # generate: draw one instead
    seed: int
    limit: int  # tokens of what is written


def predict_route(registry: Registry, limits: Limits, work: Work) -> Callable[[Request], Awaitable[Response]]:
    async def predict(request: Request) -> Response:
        fields = await read_fields(request, limits.max_seconds)
        name = fields.text("model", None, 1000)
        inputs = _inputs(fields, limits)
        options = Options(
            fields.whole("beam", 1, 1, WIDEST_BEAM),
            fields.number("temperature", None, 0, 2),
            fields.whole("seed", 0, 0, 2**63 - 1),
            fields.whole("limit", LONGEST, 1, LONGEST),
        )
        fields.end()
        served = registry.get(name)
        if served.task == "lm":
            message = f"{served.name!r} is a language model. See /v1/completions."
            raise ApiError(400, message, code="wrong_task", param="model")
        loaded = await registry.model(name)
        if served.task in ("generate", "translate"):
            options = options._replace(limit=min(options.limit, limit_of(loaded.model.symbols_)))
        _check_size(loaded.model, served.task, inputs, options)

        def told() -> Response:
            outputs = plain(_predict(loaded, served.task, inputs, options))
            return Json({"object": "prediction", "model": served.name, "task": served.task, "outputs": outputs})

        try:
            answer: Response = await work.do(told)
        except (ValueError, TypeError, OverflowError) as error:  # ours are ValueErrors too
            raise ApiError(400, f"inputs: {error}", code="invalid_value", param="inputs") from None
        return answer

    return predict


def _predict(loaded: Loaded, task: str, inputs: list[Any], options: Options) -> list[dict[str, Any]]:
    model = loaded.model
    if task in ("classify", "tag"):
        names = [str(name) for name in model.classes_.tolist()]
        told = []
        for y_hat in model.predict_proba(inputs):
            best = model.classes_[np.argmax(y_hat, axis=-1)].tolist()
            shares = [dict(zip(names, row, strict=True)) for row in np.atleast_2d(y_hat).tolist()]
            told.append({"output": best, "probabilities": shares if task == "tag" else shares[0]})
        return told
    if task == "regress":
        outputs = model.predict(inputs).tolist()
    elif task == "generate" and options.temperature is not None:
        outputs = model.sample(inputs, temperature=options.temperature, seed=options.seed, limit=options.limit)
    else:
        outputs = model.predict(inputs, beam=options.beam, limit=options.limit)
    return [{"output": output, "probabilities": None} for output in outputs]


def _check_size(model: Any, task: str, inputs: list[Any], options: Options) -> None:
    """Before any work: a short request can ask for an answer that fills the memory."""
    steps = sum(len(value) if isinstance(value, str | list) else 1 for value in inputs)
    size = 0
    if task in ("classify", "tag"):
        row = sum(len(dumps(str(name))) + NUMBER for name in model.classes_.tolist())
        size = row * (steps if task == "tag" else len(inputs))
    elif task in ("generate", "translate"):
        steps += len(inputs) * options.limit * options.beam
        size = len(inputs) * options.limit * max(map(len, model.symbols_.tokens))
    for what, got, most in (("steps of all sequences", steps, MOST_STEPS), ("bytes of the answer", size, MOST_BYTES)):
        if got > most:
            do = "Send fewer or shorter inputs, or ask for a smaller limit or beam."
            message = f"inputs: expected at most {most:,} {what}, got about {got:,}. {do}"
            raise ApiError(413, message, code="answer_too_large", param="inputs")


def _inputs(fields: Fields, limits: Limits) -> list[Any]:
    fields.required("inputs")
    inputs = fields.take("inputs")
    if not isinstance(inputs, list) or not 1 <= len(inputs) <= MOST_INPUTS:
        fields.refuse("inputs", f"a list of 1 to {MOST_INPUTS}")
    kinds = {_kind(value) for value in inputs}
    if len(kinds) != 1 or None in kinds:
        fields.refuse("inputs", "texts, lists of tokens, numbers, lists of numbers or lists of rows, all of one kind")
    if any(len(value) > limits.max_prompt for value in inputs if isinstance(value, str | list)):
        fields.refuse("inputs", f"sequences of at most {limits.max_prompt} steps")
    return inputs


def _kind(value: Any) -> str | None:
    if isinstance(value, str):
        return "text"
    if _is_number(value):
        return "number"
    if not isinstance(value, list) or not value:
        return None
    if all(isinstance(item, str) for item in value):
        return "tokens"
    if all(_is_number(item) for item in value):
        return "numbers"
    rows = all(isinstance(item, list) and item and all(map(_is_number, item)) for item in value)
    return f"rows of {len(value[0])}" if rows and len({len(item) for item in value}) == 1 else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**53
