"""POST /v1/elman/predict: one route for every task except language modeling.

    {"model": "names", "inputs": ["Rossi", "Schmidt"]}
    {"object": "prediction", "model": "names", "task": "classify", "outputs": [
        {"output": "Italian", "probabilities": {"German": 0.1, "Italian": 0.9}, "alternatives": null}, …]}

An input is what the model was trained on: a text, a list of tokens, a list of numbers or of rows of numbers; for
generate a label or a list of numbers. An output is a class, a list of tags, a number or numbers, or a text or tokens.
With `alternatives` a translation comes with up to that many outputs of the beam search, the best first, and their
scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from starlette.responses import Response

from elman.models.sampling import max_length
from elman.serve.errors import ApiError, invalid
from elman.serve.json_response import JsonResponse, dumps, to_jsonable
from elman.serve.limits import Limits
from elman.serve.registry import Registry
from elman.serve.schemas import PredictRequest
from elman.serve.worker import Worker

# largest number of steps of all sequences of a request together: each character of a text is a step; each step of an
# output counts once for each candidate of the beam
MAX_STEPS = 1 << 17
MAX_BYTES = 16 << 20  # largest size of a response
PROBABILITY_BYTES = 24  # size of a probability in JSON


class PredictRoute:
    def __init__(self, registry: Registry, limits: Limits, worker: Worker) -> None:
        self.registry, self.limits, self.worker = registry, limits, worker

    async def predict(self, body: PredictRequest) -> Response:
        """Classify, tag, regress, generate or translate."""
        self._check_inputs(body.inputs)
        served = self.registry.get(body.model)
        if served.task == "lm":
            message = f"{served.name!r} is a language model. Use /v1/completions."
            raise ApiError(400, message, code="wrong_task", param="model")
        model = (await self.registry.model(body.model)).model
        if served.task in ("generate", "translate"):
            body = body.model_copy(update={"limit": min(body.limit, max_length(model.symbols_))})
        _check_size(model, served.task, body)

        def render() -> Response:
            outputs = to_jsonable(_predict(model, served.task, body))
            return JsonResponse({"object": "prediction", "model": served.name, "task": served.task, "outputs": outputs})

        try:
            response: Response = await self.worker.run(render)
        except (ValueError, TypeError, OverflowError) as error:  # Elman's own errors are ValueErrors too
            raise ApiError(400, f"inputs: {error}", code="invalid_value", param="inputs") from None
        return response

    def _check_inputs(self, inputs: list[Any]) -> None:
        kinds = {_kind(value) for value in inputs}
        if len(kinds) != 1 or None in kinds:
            raise invalid(
                "inputs",
                "inputs of one kind: texts, lists of tokens, numbers, lists of numbers, "
                "or lists of rows, all rows of the same length",
            )
        if any(len(value) > self.limits.max_prompt for value in inputs if isinstance(value, str | list)):
            raise invalid("inputs", f"at most {self.limits.max_prompt} characters or steps each")


def _predict(model: Any, task: str, request: PredictRequest) -> list[dict[str, Any]]:
    if task in ("classify", "tag"):
        names = [str(name) for name in model.classes_.tolist()]
        rows = []
        for y_hat in model.predict_proba(request.inputs):
            best = model.classes_[np.argmax(y_hat, axis=-1)].tolist()
            probabilities = [dict(zip(names, row, strict=True)) for row in np.atleast_2d(y_hat).tolist()]
            rows.append(_output(best, probabilities if task == "tag" else probabilities[0]))
        return rows
    if task == "translate" and request.alternatives:
        width = max(request.beam, request.alternatives)
        found = model.n_best(request.inputs, n=request.alternatives, beam=width, limit=request.limit)
        return [
            _output(best[0][0], alternatives=[{"output": output, "score": score} for output, score in best])
            for best in found
        ]
    if task == "regress":
        outputs = model.predict(request.inputs).tolist()
    elif task == "generate" and request.temperature is not None:
        sampling = {"temperature": request.temperature, "seed": request.seed, "limit": request.limit}
        outputs = model.sample(request.inputs, **sampling)
    else:
        outputs = model.predict(request.inputs, beam=request.beam, limit=request.limit)
    return [_output(output) for output in outputs]


def _output(output: Any, probabilities: Any = None, alternatives: Any = None) -> dict[str, Any]:
    return {"output": output, "probabilities": probabilities, "alternatives": alternatives}


def _check_size(model: Any, task: str, request: PredictRequest) -> None:
    """Raise ApiError if the request needs too many steps, or its response too many bytes.

    The response to a short request could fill the memory.
    """
    inputs = request.inputs
    steps = sum(len(value) if isinstance(value, str | list) else 1 for value in inputs)
    size = 0
    if task in ("classify", "tag"):
        row = sum(len(dumps(str(name))) + PROBABILITY_BYTES for name in model.classes_.tolist())
        size = row * (steps if task == "tag" else len(inputs))
    elif task in ("generate", "translate"):
        steps += len(inputs) * request.limit * max(request.beam, request.alternatives)
        size = len(inputs) * request.limit * max(map(len, model.symbols_.tokens)) * (1 + request.alternatives)
    for code, what, got, most in (
        ("request_too_large", "steps of all sequences", steps, MAX_STEPS),
        ("response_too_large", "bytes of the response", size, MAX_BYTES),
    ):
        if got > most:
            do = "Send fewer or shorter inputs, or ask for a smaller limit or beam, or fewer alternatives."
            message = f"inputs: expected at most {most:,} {what}, got about {got:,}. {do}"
            raise ApiError(413, message, code=code, param="inputs")


def _kind(value: Any) -> str | None:
    if isinstance(value, str):
        return "text"
    if not isinstance(value, list):
        return "number"
    if isinstance(value[0], str):
        return "tokens"
    if not isinstance(value[0], list):
        return "numbers"
    return f"rows of {len(value[0])}" if len({len(item) for item in value}) == 1 else None
