"""Analyses of a model, as JSON: gradient flow, spectra, units, surprise, attribution, attention, and every equation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from starlette.responses import Response

from elman.errors import DataError, VocabularyError
from elman.look.attention import attention_map
from elman.look.attributions import attribution
from elman.look.flow import GradientFlow, flow_of, memory_horizon
from elman.look.flow_verdict import verdicts
from elman.look.spectra import Spectrum, jacobian_spectra, layer_saturation, lyapunov_exponents, recurrent_spectra
from elman.look.steps import steps_data
from elman.look.traces import text_ids, trace
from elman.look.units import rank_units, read_text
from elman.maths.arrays import Array
from elman.models import LanguageModel
from elman.serve.completion_request import check_unit
from elman.serve.errors import ApiError, invalid, unknown_token
from elman.serve.json_response import JsonResponse, to_jsonable
from elman.serve.limits import Limits
from elman.serve.registry import Registry
from elman.serve.schemas import (
    STATES,
    AttentionRequest,
    AttributionRequest,
    FlowRequest,
    ReadRequest,
    StepsRequest,
    TextRequest,
    UnitsRequest,
)
from elman.serve.worker import Worker

EXPONENTS, JACOBIANS = 32, 6  # largest numbers of Lyapunov exponents and of step Jacobians of each layer
MAX_ATTENTION_STEPS = 1000  # of a source and of a target
GATE_UNITS = 64  # largest number of units of a gate that are returned
MAX_MULTIPLICATIONS = 1 << 35  # of an attribution, which reads a sequence once per step: a few seconds


class AnalysisRoutes:
    def __init__(self, registry: Registry, limits: Limits, worker: Worker) -> None:
        self.registry, self.limits, self.worker = registry, limits, worker

    async def flow(self, body: FlowRequest) -> Response:
        """How gradients flow back through a text."""
        model = await self._model(body)
        return await self._respond("text", lambda: _flow(model, body.text, body.steps))

    async def spectra(self, body: FlowRequest) -> Response:
        """Spectra, Lyapunov exponents and saturation along a text."""
        model = await self._model(body)
        return await self._respond("text", lambda: _spectra(model, body.text, body.steps))

    async def units(self, body: UnitsRequest) -> Response:
        """Units that track a readable feature of a text."""
        model = await self._model(body)
        return await self._respond("text", lambda: _units(model, body.text, body.count))

    async def read(self, body: ReadRequest) -> Response:
        """A text token by token: surprise, alternatives and the activation of a unit."""
        model = await self._model(body)
        check_unit(model.network_.stack, body.layer, STATES.index(body.state), body.unit or 0)
        return await self._respond("text", lambda: _read(model, body))

    async def attribution(self, body: AttributionRequest) -> Response:
        """The contribution of each token to the prediction of a classifier, regressor or tagger."""
        served = self.registry.get(body.model)
        if served.task not in ("classify", "regress", "tag"):
            message = f"{served.name!r} is a run for {served.task}: expected a classifier, regressor or tagger"
            raise ApiError(400, message, code="wrong_task", param="model")
        model = (await self.registry.model(body.model)).model
        steps, stack = len(body.input) if isinstance(body.input, str | list) else 1, model.fitted_.network.stack
        size = stack.layers * len(stack.directions) * stack.cell.gates * stack.hidden**2
        if steps**2 * size > MAX_MULTIPLICATIONS:
            raise invalid("input", f"at most {int((MAX_MULTIPLICATIONS / size) ** 0.5)} steps for this model")
        try:
            return await self._respond("input", lambda: _attribution(model, body.input))
        except (ValueError, TypeError) as error:  # Elman's own errors are ValueErrors too
            raise ApiError(400, f"input: {error}", code="invalid_value", param="input") from None

    async def attention(self, body: AttentionRequest) -> Response:
        """The attention weights of a translator: the source tokens for each output token."""
        served = self.registry.get(body.model)
        if served.task != "translate":
            message = f"{served.name!r} is a run for {served.task}: expected a translator"
            raise ApiError(400, message, code="wrong_task", param="model")
        model = (await self.registry.model(body.model)).model
        for name, value in (("input", body.input), ("target", body.target)):
            if isinstance(value, str | list) and len(value) > MAX_ATTENTION_STEPS:
                raise invalid(name, f"at most {MAX_ATTENTION_STEPS} steps")
        try:
            return await self._respond("input", lambda: _attention(model, body))
        except (ValueError, TypeError) as error:  # Elman's own errors are ValueErrors too
            raise ApiError(400, f"input: {error}", code="invalid_value", param="input") from None

    async def steps(self, body: StepsRequest) -> Response:
        """Every equation of a short text with its numbers; without a model those of a small random network."""
        model = None if body.model is None else (await self.registry.language_model(body.model))[0]
        return await self._respond(
            "input", lambda: steps_data(body.input, body.target, model=model, cell=body.cell, shown=body.shown)
        )

    async def _model(self, body: TextRequest) -> LanguageModel:
        if len(body.text) > self.limits.max_prompt:
            raise invalid("text", f"at most {self.limits.max_prompt} characters")
        return (await self.registry.language_model(body.model))[0]

    async def _respond(self, param: str, analyze: Callable[[], dict[str, Any]]) -> Response:
        try:
            # serialized in the worker as well: this can take long
            response: Response = await self.worker.run(lambda: JsonResponse(to_jsonable(analyze())))
            return response
        except VocabularyError as error:
            raise unknown_token(param, error) from None


def _ids(model: LanguageModel, text: str) -> Array:
    """At least two token ids; unknown words are <unk>."""
    ids = text_ids(model, text)
    if len(ids) < 2:
        raise DataError("text", expected="at least two tokens: the second is the first that can be predicted")
    return ids


def _flow(model: LanguageModel, text: str, steps: int) -> dict[str, Any]:
    """‖∂L[t]/∂s[k]‖ for every t and k, the fraction that is left at each lag, and a verdict for each layer."""
    ids = _ids(model, text)[: steps + 1]
    found = flow_of(trace(model.network_, model.parameters_, ids[:-1]), ids[1:])
    names = model.vocabulary_.tokens
    return {
        "tokens": [names[i] for i in ids],
        "losses": found.losses,
        "layers": [_flow_layer(found, layer) for layer in range(found.layers)],
        "verdicts": verdicts(found, reach=model.config_.k2),
    }


def _flow_layer(found: GradientFlow, layer: int) -> dict[str, Any]:
    activation, recurrent = found.factors(layer)
    return {
        "map": _rounded(found.norms[layer]),  # (T, T+1); null where L[t] does not depend on s[k]
        "by_lag": found.by_lag(layer),
        "paths": {path: found.by_lag(layer, path=path) for path in found.paths},  # only in a gated cell
        "activation": activation,
        "recurrent": recurrent,
        "horizon": memory_horizon(found, layer),
    }


def _spectra(model: LanguageModel, text: str, steps: int) -> dict[str, Any]:
    """Spectra of W_hh and of some step Jacobians, Lyapunov exponents, saturation, and the gates along the text."""
    ids = _ids(model, text)[:steps]
    layers = []
    for layer in trace(model.network_, model.parameters_, ids).layers:
        jacobians = jacobian_spectra(layer, count=JACOBIANS)
        layers.append(
            {
                "recurrent": {name: _spectrum(found) for name, found in recurrent_spectra(layer).items()},
                "jacobians": {"steps": jacobians.steps, **_spectrum(jacobians.spectra)},
                "lyapunov": lyapunov_exponents(layer, count=min(EXPONENTS, model.network_.stack.hidden)),
                "saturation": layer_saturation(layer),
                "gates": {name: _gate(values) for name, values in layer.gates.items()},
            }
        )
    names = model.vocabulary_.tokens
    return {"tokens": [names[i] for i in ids], "layers": layers}


def _gate(values: Array) -> dict[str, Any]:
    """The values (T, H) of a gate: the first units, and the mean of all."""
    return {"units": _rounded(values[:, :GATE_UNITS].T, 3), "mean": _rounded(values.mean(axis=1), 3)}


def _spectrum(found: Spectrum) -> dict[str, Any]:
    pairs = np.stack([found.eigenvalues.real, found.eigenvalues.imag], axis=-1)  # (…, H, 2)
    return {"radius": found.radius, "singular": _rounded(found.singular), "eigenvalues": _rounded(pairs)}


def _units(model: LanguageModel, text: str, count: int) -> dict[str, Any]:
    """For each readable feature of the text, the units that track it best."""
    ranking = rank_units(read_text(model, text, alternatives=1))
    features = [
        {"feature": name, "measure": measure, "units": ranking.best(name, count)}
        for name, measure, _ in ranking.by_feature()
    ]
    return {
        "features": features,
        "left_out": ranking.left_out,
        "fitted": ranking.fitted,
        "judged": ranking.judged,
    }


def _read(model: LanguageModel, request: ReadRequest) -> dict[str, Any]:
    """Every token of a text with its surprise, the alternatives and, if requested, the activation of a unit."""
    reading = read_text(model, request.text, alternatives=request.alternatives)
    states = reading.s[request.layer, STATES.index(request.state)]  # (T, H)
    return {
        "tokens": reading.tokens,
        "surprise": _rounded(reading.surprise),
        "alternatives": reading.alternatives,
        "probabilities": _rounded(reading.probabilities),
        "activation": None if request.unit is None else _rounded(states[:, request.unit]),
    }


def _attribution(model: Any, sequence: Any) -> dict[str, Any]:
    found = attribution(model, sequence)
    return {
        "tokens": found.tokens,
        "targets": found.targets,
        "score": _rounded(found.score),
        "gradient": _rounded(found.gradient),  # (S, T): for each of S predictions, of each token
        "left_out": _rounded(found.left_out),
        "agreement": found.agreement,
    }


def _attention(model: Any, request: AttentionRequest) -> dict[str, Any]:
    target = request.target
    found = attention_map(model, request.input, target if target is not None else model.predict([request.input])[0])
    return {"source": found.source, "target": found.target, "alpha": _rounded(found.alpha)}


def _rounded(values: Array, digits: int = 5) -> Array:
    """Round to `digits` significant digits, enough for a figure."""
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.floor(np.log10(np.abs(values, dtype=np.float64)))
    scale = 10.0 ** (digits - 1 - np.clip(np.where(np.isfinite(size), size, 0), -300, 300))
    return np.asarray(np.round(values * scale) / scale)
