"""Looks at a model while it reads a text, as plain data: how gradients flow, spectra, units, and every equation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from elman.errors import DataError, VocabularyError
from elman.look.flow import GradientFlow, flow_of, memory_horizon
from elman.look.flow_verdict import verdicts
from elman.look.spectra import Spectrum, jacobian_spectra, lyapunov_exponents, saturation, spectrum
from elman.look.steps import steps_data
from elman.look.traces import trace
from elman.look.units import rank_units, read_text
from elman.maths.arrays import Array
from elman.models import LanguageModel
from elman.serve.fields import Fields, read_fields
from elman.serve.limits import Limits
from elman.serve.plain import Json, plain
from elman.serve.problems import unknown_token
from elman.serve.registry import Registry
from elman.serve.work import Work

FLOW_STEPS, MOST_STEPS = 96, 256  # of a text through which a gradient is followed
EXPONENTS, JACOBIANS = 32, 6
SHOWN = 12  # entries of an axis in a step

Look = Callable[[LanguageModel, str, Fields], Callable[[], dict[str, Any]]]


class Looking:
    def __init__(self, registry: Registry, limits: Limits, work: Work) -> None:
        self.registry, self.limits, self.work = registry, limits, work

    def routes(self) -> list[Route]:
        looks: dict[str, Look] = {"flow": flow, "spectra": spectra, "units": units, "read": read}
        routes = [Route(f"/look/{name}", self._route(look), methods=["POST"]) for name, look in looks.items()]
        return [*routes, Route("/steps", self.steps, methods=["POST"])]

    def _route(self, look: Look) -> Callable[[Request], Awaitable[Response]]:
        async def answer(request: Request) -> Response:
            fields = await read_fields(request, self.limits.max_seconds)
            name = fields.text("model", None, 1000)
            fields.required("text")
            text = fields.text("text", None, self.limits.max_prompt)
            model, _ = await self.registry.language_model(name)
            call = look(model, text, fields)
            fields.end()
            return await self._answer("text", call)

        answer.__name__ = f"look_{look.__name__}"
        return answer

    async def steps(self, request: Request) -> Response:
        """Without a model the network is a small one with weights from a seed."""
        fields = await read_fields(request, self.limits.max_seconds)
        name = fields.text("model", None, 1000)
        fields.required("input")
        fields.required("target")
        given, target = fields.text("input", None, 1000), fields.text("target", None, 1000)
        shown = fields.whole("shown", SHOWN, 1, 64)
        fields.end()
        model = None if name is None else (await self.registry.language_model(name))[0]
        return await self._answer("input", lambda: steps_data(given, target, model=model, shown=shown))

    async def _answer(self, param: str, call: Callable[[], dict[str, Any]]) -> Response:
        try:
            answer: Response = await self.work.do(lambda: Json(plain(call())))  # put into words there: it may be long
            return answer
        except VocabularyError as error:
            raise unknown_token(param, error) from None


def _ids(model: LanguageModel, text: str) -> Array:
    """At least two tokens, the words that the model does not know read as <unk>."""
    vocabulary = model.vocabulary_
    ids: Array = vocabulary.encode(text, unknown="replace" if vocabulary.kind == "word" else "error").astype(np.int64)
    if len(ids) < 2:
        raise DataError("text", expected="at least two tokens: the second is the first that can be predicted")
    return ids


def flow(model: LanguageModel, text: str, fields: Fields) -> Callable[[], dict[str, Any]]:
    """‖∂L[t]/∂h[k]‖ for every t and k, what is left at each lag, and a verdict in words."""
    steps = fields.whole("steps", FLOW_STEPS, 1, MOST_STEPS)

    def look() -> dict[str, Any]:
        ids = _ids(model, text)[: steps + 1]
        found = flow_of(trace(model.network_, model.parameters_, ids[:-1]), ids[1:])
        names = model.vocabulary_.tokens
        return {
            "tokens": [names[i] for i in ids],
            "losses": found.losses,
            "layers": [_layer(found, layer) for layer in range(found.layers)],
            "verdicts": verdicts(found, reach=model.config_.training.k2),
        }

    return look


def _layer(found: GradientFlow, layer: int) -> dict[str, Any]:
    activation, recurrent = found.factors(layer)
    return {
        "map": _rounded(found.d_h[layer]),  # (T, T+1); null where L[t] does not depend on h[k]
        "by_lag": found.by_lag(layer),
        "activation": activation,
        "recurrent": recurrent,
        "horizon": memory_horizon(found, layer),
    }


def spectra(model: LanguageModel, text: str, fields: Fields) -> Callable[[], dict[str, Any]]:
    """Of W_hh, of some step Jacobians, the Lyapunov exponents, and where the activation is flat."""
    steps = fields.whole("steps", FLOW_STEPS, 1, MOST_STEPS)

    def look() -> dict[str, Any]:
        layers = []
        for layer in trace(model.network_, model.parameters_, _ids(model, text)[:steps]).layers:
            jacobians = jacobian_spectra(layer, count=JACOBIANS)
            layers.append(
                {
                    "W_hh": _spectrum(spectrum(layer.p["W_hh"])),
                    "jacobians": {"steps": jacobians.steps, **_spectrum(jacobians.spectra)},
                    "lyapunov": lyapunov_exponents(layer, count=min(EXPONENTS, model.network_.stack.hidden)),
                    "saturation": saturation(layer.h, activation=layer.cell.activation),
                }
            )
        return {"layers": layers}

    return look


def _spectrum(found: Spectrum) -> dict[str, Any]:
    pairs = np.stack([found.eigenvalues.real, found.eigenvalues.imag], axis=-1)  # (…, H, 2)
    return {"radius": found.radius, "singular": _rounded(found.singular), "eigenvalues": _rounded(pairs)}


def units(model: LanguageModel, text: str, fields: Fields) -> Callable[[], dict[str, Any]]:
    """For each readable feature of the text the units that track it best."""
    count = fields.whole("count", 5, 1, 50)

    def look() -> dict[str, Any]:
        ranking = rank_units(read_text(model, text, alternatives=1))
        features = [
            {"feature": name, "measure": measure, "units": ranking.best(name, count)}
            for name, measure, _ in ranking.told()
        ]
        return {
            "features": features,
            "left_out": ranking.left_out,
            "fitted": ranking.fitted,
            "judged": ranking.judged,
        }

    return look


def read(model: LanguageModel, text: str, fields: Fields) -> Callable[[], dict[str, Any]]:
    """Every token of a text with its surprise, the alternatives and, if one is asked for, the activation of a unit."""
    alternatives = fields.whole("alternatives", 5, 1, 20)
    stack = model.network_.stack
    layer = fields.whole("layer", 0, 0, stack.layers - 1)
    unit = fields.whole("unit", None, 0, stack.hidden - 1)

    def look() -> dict[str, Any]:
        reading = read_text(model, text, alternatives=alternatives)
        return {
            "tokens": reading.tokens,
            "surprise": _rounded(reading.surprise),
            "alternatives": reading.alternatives,
            "probabilities": _rounded(reading.probabilities),
            "activation": None if unit is None else _rounded(reading.h[layer, :, unit]),
        }

    return look


def _rounded(values: Array) -> Array:
    """Five digits are enough to draw with."""
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = np.floor(np.log10(np.abs(values, dtype=np.float64)))
    scale = 10.0 ** (4 - np.clip(np.where(np.isfinite(digits), digits, 0), -300, 300))
    return np.asarray(np.round(values * scale) / scale)
