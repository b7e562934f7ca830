"""A model and a text, looked at from all sides: plain data, from which the report and any other page is made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from elman.data import Vocabulary
from elman.data.words import words_of
from elman.errors import DataError
from elman.look.flow import GradientFlow, Progress, flow_of
from elman.look.flow_verdict import Verdict, verdicts
from elman.look.gradient_clipping import ClippedSteps, Clipping, clipped_steps, clipping
from elman.look.history import GradientHistory, gradient_history
from elman.look.spectra import (
    JacobianSpectra,
    Saturation,
    Spectrum,
    jacobian_spectra,
    lyapunov_exponents,
    saturation,
    spectrum,
)
from elman.look.traces import trace
from elman.look.units import Ranking, Reading, rank_units, read_text
from elman.maths.arrays import Array
from elman.models import LanguageModel

FLOW_STEPS = 256  # of a text that are followed: the matrix has half as many entries as the square of it
EXPONENTS = 64  # of each layer, the largest ones
READ_TOKENS = 100_000  # of a text, in which units are looked at …
READ_STATES = 25_600_000  # … fewer, where a network has so many of them that there are more states than this


@dataclass(frozen=True, eq=False)
class LayerSpectra:
    W_hh: Spectrum
    jacobians: JacobianSpectra
    lyapunov: Array  # the largest exponents, nats a step
    saturation: Saturation


@dataclass(frozen=True, eq=False)
class Examination:
    name: str  # of the run
    facts: dict[str, str]  # what the model is, in words
    tokens: tuple[str, ...]  # (T+1,) of the text: step t reads tokens[t] and predicts tokens[t+1]
    token: str  # what people call one: letter, byte or word
    unread: int  # tokens of the text beyond these
    flow: GradientFlow
    verdicts: list[Verdict]  # one a layer, from the lowest
    spectra: list[LayerSpectra]
    clipping: Clipping
    history: GradientHistory | None  # None without a run
    clipped: ClippedSteps | None
    reading: Reading  # the whole text, or its first READ_TOKENS
    ranking: Ranking | None  # None for a text that is too short


def examine(
    model: LanguageModel,
    ids: Array,
    *,
    text: str | None = None,  # what the ids stand for, if they do not say it: unknown words do not
    steps: int = FLOW_STEPS,
    progress: Progress | None = None,
) -> Examination:
    """Look at how the model reads a text, from a state of zeros: at most so many steps for all but the units."""
    writer = model.writer
    network, p, config = writer.network, writer.parameters, model.config_
    if len(ids) < 2:
        raise DataError(
            "the text",
            expected="at least two tokens: the second is the first that can be predicted",
            got=len(ids) or "none",
            do="Give it a sentence or two.",
        )
    used = np.asarray(ids[: steps + 1], np.int64)
    x, y = used[:-1], used[1:]
    states = trace(network, p, x)
    flow = flow_of(states, y, progress=progress)
    layers = []
    for layer in states.layers:
        layers.append(
            LayerSpectra(
                spectrum(layer.p["W_hh"]),
                jacobian_spectra(layer, progress=progress),
                lyapunov_exponents(layer, count=min(EXPONENTS, network.stack.hidden), progress=progress),
                saturation(layer.h, activation=layer.cell.activation),
            )
        )
    if progress:
        progress("looking at the units", 0, 1)
    most = min(READ_TOKENS, READ_STATES // (network.stack.layers * network.stack.hidden))
    reading = read_text(model, _to_read(writer.vocabulary, ids, text, most))
    try:
        ranking = rank_units(reading)
    except DataError:
        ranking = None
    if progress:
        progress("looking at the units", 1, 1)
    window, clip = config.training.window, config.training.clip_norm
    rows = model.run_.metrics() if model.run_ else None
    return Examination(
        name=model.run_.path.resolve().name if model.run_ else "model",
        facts={
            "network": f"{network.stack.layers} × {network.stack.hidden} {config.network.activation} units",
            "parameters": f"{p.buffer.size:,}",
            "tokens": f"{len(writer.vocabulary)} {config.data.tokens} tokens",
            "reach in training": f"{config.training.k2} steps",
        },
        tokens=tuple(writer.vocabulary.tokens[i] for i in used),
        token={"char": "letter", "byte": "byte", "word": "word"}[writer.vocabulary.kind],
        unread=len(ids) - len(used),
        flow=flow,
        verdicts=verdicts(flow, reach=config.training.k2),
        spectra=layers,
        clipping=clipping(network, p, x[:window], y[:window], clip_norm=clip),
        history=None if rows is None else gradient_history(rows),
        clipped=None if rows is None else clipped_steps(rows, clip_norm=clip),
        reading=reading,
        ranking=ranking,
    )


def _to_read(vocabulary: Vocabulary, ids: Array, text: str | None, most: int) -> str | Array:
    """The first ids; or the words that they are the ids of, which say more than <unk>."""
    if text is not None and vocabulary.kind == "word":
        words = [word for some in words_of([text]) for word in some]
        if np.array_equal(vocabulary.encode(text, unknown="replace"), ids):
            return "".join(words[:most])
    return ids[:most]
