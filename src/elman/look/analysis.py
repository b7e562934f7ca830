"""All analyses of a model along a text, as plain data, from which the report is made."""

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
    layer_saturation,
    lyapunov_exponents,
    recurrent_spectra,
)
from elman.look.traces import STEPS, inputs_and_targets, text_ids, trace
from elman.look.units import Ranking, Reading, rank_units, read_text
from elman.maths.arrays import Array
from elman.models import LanguageModel

EXPONENTS = 64  # maximum number of Lyapunov exponents of each layer
READ_TOKENS = 100_000  # maximum number of tokens for the surprise and the ranking of units
READ_STATES = 25_600_000  # maximum number of entries of all states after these tokens


@dataclass(frozen=True, eq=False, repr=False)
class LayerAnalysis:
    """One layer along a text.

    Attributes
    ----------
    recurrent : dict of str to Spectrum
        The spectrum of W_hh, or of the block of each gate in a gated cell.
    jacobians : JacobianSpectra
        Spectra of some step Jacobians.
    lyapunov : ndarray, shape (n,)
        The n = min(64, H) largest Lyapunov exponents, in nats per step.
    saturation : dict of str to Saturation
        The saturation of h, or of each gate.
    gates : dict of str to ndarray, shape (T, H)
        The gates by name; empty in a vanilla cell.
    """

    recurrent: dict[str, Spectrum]
    jacobians: JacobianSpectra
    lyapunov: Array
    saturation: dict[str, Saturation]
    gates: dict[str, Array]

    def __repr__(self) -> str:
        return f"<LayerAnalysis: {', '.join(self.recurrent)}, largest Lyapunov exponent {self.lyapunov[0]:+.2f}>"


@dataclass(frozen=True, eq=False, repr=False)
class Analysis:
    """All analyses of a model along a text: the result of `examine`, and the content of a report.

    Attributes
    ----------
    name : str
        The name of the run.
    facts : dict of str to str
        A description of the model: network, parameters, tokens, BPTT steps.
    tokens : tuple of str, length T+1
        The analyzed tokens: step t reads tokens[t] and predicts tokens[t+1].
    token : str
        The kind of token: letter, byte, word or subword.
    unread : int
        The number of tokens of the text after the analyzed ones.
    flow : GradientFlow
        How far back gradients reach.
    verdicts : list of Verdict
        One for each layer, from the lowest, judged over the BPTT steps of the training.
    layers : list of LayerAnalysis
        Spectra, exponents, saturation and gates of each layer.
    clipping : Clipping
        The effect of gradient clipping on the first window of this text.
    history, clipped : GradientHistory and ClippedSteps, or None
        Gradient norms and clipping in the training run, if there is one.
    reading : Reading
        The whole text, or its first 100,000 tokens, with surprise and states; fewer tokens
        if the states of all layers have more than 256 entries.
    ranking : Ranking or None
        How well units track features; None if the text is too short.
    """

    name: str
    facts: dict[str, str]
    tokens: tuple[str, ...]
    token: str
    unread: int
    flow: GradientFlow
    verdicts: list[Verdict]
    layers: list[LayerAnalysis]
    clipping: Clipping
    history: GradientHistory | None
    clipped: ClippedSteps | None
    reading: Reading
    ranking: Ranking | None

    def __repr__(self) -> str:
        verdict = self.verdicts[-1]
        horizon = "beyond this text" if verdict.horizon is None else f"{verdict.horizon} steps"
        loss = f"{float(self.flow.losses.mean()):.2f} nats per token"
        return f"<Analysis of {self.name}: {self.flow.steps} steps, {loss}, gradient {verdict.kind}, horizon {horizon}>"


def examine(
    model: LanguageModel,
    text: str | Array,
    *,
    words: str | None = None,
    steps: int = STEPS,
    progress: Progress | None = None,
) -> Analysis:
    """Analyze how a model reads a text: gradient flow, spectra, gates, saturation, units and surprise.

    Parameters
    ----------
    model : LanguageModel
        A fitted model.
    text : str or ndarray of ids
        The text, read from a state of zeros. An unknown word is read as <unk>.
    words : str, optional
        If `text` is ids: the text that they encode, with the words that are <unk> in the ids.
    steps : int
        The maximum number of steps that are analyzed. Units and surprise have their own maximum: 100,000 tokens, fewer
        if the states of all layers have more than 256 entries.
    progress : callable, optional
        Called with the name of the task, the number of parts that are done, and the number of all parts.

    Returns
    -------
    Analysis
        Plain data.

    Examples
    --------
    >>> from elman import LanguageModel, look
    >>> model = LanguageModel(hidden=8, steps=1).fit("the cat sat on the mat. " * 20, listeners=[])
    >>> look.examine(model, "the cat sat on the mat").flow.steps
    21
    """
    text_sampler = model.text_sampler
    network, p, config = text_sampler.network, text_sampler.parameters, model.config_
    ids = text_ids(model, text)
    x, y = inputs_and_targets(model, ids, steps)
    used = np.append(x, y[-1])
    states = trace(network, p, x)
    flow = flow_of(states, y, progress=progress)
    layers = [
        LayerAnalysis(
            recurrent_spectra(layer),
            jacobian_spectra(layer, progress=progress),
            lyapunov_exponents(layer, count=min(EXPONENTS, network.stack.hidden), progress=progress),
            layer_saturation(layer),
            layer.gates,
        )
        for layer in states.layers
    ]
    if progress:
        progress("ranking units", 0, 1)
    per_token = network.stack.layers * network.stack.cell.parts * network.stack.hidden
    most = min(READ_TOKENS, READ_STATES // per_token)
    full_text = text if isinstance(text, str) else words
    reading = read_text(model, _to_read(text_sampler.vocabulary, ids, full_text, most))
    try:
        ranking = rank_units(reading)
    except DataError:
        ranking = None
    if progress:
        progress("ranking units", 1, 1)
    window, clip = config.window, config.clip_norm
    rows = model.run_.metrics() if model.run_ else None
    kind = network.stack.cell.name if network.stack.cell.gates > 1 else config.activation
    return Analysis(
        name=model.run_.path.resolve().name if model.run_ else "model",
        facts={
            "network": f"{network.stack.layers} × {network.stack.hidden} {kind} units",
            "parameters": f"{p.buffer.size:,}",
            "tokens": f"{len(text_sampler.vocabulary)} {config.tokens} tokens",
            "BPTT steps in training": f"{config.k2}",
        },
        tokens=tuple(text_sampler.vocabulary.tokens[i] for i in used),
        token={"char": "letter", "byte": "byte", "word": "word", "bpe": "subword"}[text_sampler.vocabulary.kind],
        unread=len(ids) - len(used),
        flow=flow,
        verdicts=verdicts(flow, reach=config.k2),
        layers=layers,
        clipping=clipping(network, p, x[:window], y[:window], clip_norm=clip),
        history=None if rows is None else gradient_history(rows),
        clipped=None if rows is None else clipped_steps(rows, clip_norm=clip),
        reading=reading,
        ranking=ranking,
    )


def _to_read(vocabulary: Vocabulary, ids: Array, text: str | None, most: int) -> str | Array:
    """The first `most` tokens: words if `text` has these ids, because <unk> does not say which word it is; else ids.

    A sequence that is cut ends there.
    """
    if text is not None and vocabulary.kind == "word":
        words = [word for chunk in words_of([text]) for word in chunk]
        if np.array_equal(vocabulary.read(text, whole=True), ids):
            return "".join(words[:most])
    if vocabulary.end is None or len(ids) <= most:
        return ids[:most]
    return np.append(ids[: most - 1], vocabulary.end)
