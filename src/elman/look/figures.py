"""Figures: functions from plain data to Plotly figures. They need the extra `look`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elman.errors import ArgumentError
from elman.look.attributions import Attribution
from elman.look.flow import GONE
from elman.look.history import GradientHistory
from elman.look.spectra import TANH_GATES, JacobianSpectra, Saturation, Spectrum
from elman.look.theme import QUIET, figure, go, level, visible
from elman.look.units import Ranking, Reading, UnitScore
from elman.maths.arrays import Array

LABELED = 48  # maximum number of tokens that label an axis; a longer axis shows numbers
DECADES = 8  # maximum number of powers of ten that the color scale covers
DASHES = ("solid", "dash", "dot", "dashdot")  # so that curves and dots differ not only in color
SYMBOLS = ("circle", "square", "diamond", "cross", "x")
MOST_ROWS = 48  # maximum number of units in a figure of one gate
MOST_DOTS = 1000  # maximum number of eigenvalues of Jacobians in a figure
ROW_CHARACTERS = 80  # maximum number of characters in a row of text
MOST_TOKENS = 1600  # maximum number of tokens in a figure of a text
FEW_ROWS = 8  # with up to this many rows of text the color bar is below: the figure is too low for it at the side
MOST_COLUMNS = 240  # maximum number of tokens in a figure with a row for each unit or gate
GATE_NAMES = {
    "i": "input",
    "f": "forget",
    "g": "candidate",
    "o": "output",
    "r": "reset",
    "z": "update",
    "n": "candidate",
}
CIRCLE = "#8a6d00"  # color of the unit circle: visible above the dots, on light and on dark
LOW_HIGH = [[0, "#d9583b"], [0.5, "rgba(128, 134, 150, 0.06)"], [1, "#3563d9"]]  # transparent in the middle


def flow_heatmap(norms: Array, tokens: Sequence[str], state: str = "h") -> Any:
    """The gradient of every loss with respect to every state as a heat map.

    Parameters
    ----------
    norms : ndarray, shape (T, T+1)
        ‖∂L[t]/∂h[k]‖ of one layer, NaN where L[t] does not depend on h[k].
    tokens : sequence of str, length T+1
        Step t reads tokens[t] and predicts tokens[t+1].
    state : str
        The name of the state: "h"; for the norms of h and c together another one, such as "s".

    Returns
    -------
    plotly.graph_objects.Figure

    Examples
    --------
    >>> from elman import LanguageModel, look
    >>> model = LanguageModel(hidden=8, steps=1).fit("the cat sat on the mat. " * 20, listeners=[])
    >>> flow = look.gradient_flow(model, "the cat")
    >>> look.flow_heatmap(flow.norms[0], "the cat").data[0].z.shape
    (6, 7)
    """
    T = len(norms)
    with np.errstate(divide="ignore"):
        z = np.log10(norms)
    known = z[np.isfinite(z)]
    top = float(known.max()) if known.size else 0.0
    bottom = max(top - DECADES, float(known.min())) if known.size else -1.0
    z = np.where(np.isnan(norms), np.nan, np.clip(z, bottom, top))  # 0 and infinity get the colors at the ends
    with np.errstate(over="ignore"):  # what is too large for float32 is shown as infinite
        shown = norms.astype(np.float32)
    at = f"{state}[%{{x}}]"
    states = ["the initial state", *(f"the state after “{visible(token)}”" for token in tokens[:T])]
    heatmap = go.Heatmap(
        z=z.astype(np.float32),
        text=[[*states[: t + 2], *[""] * (T - t - 1)] for t in range(T)],
        customdata=shown,
        coloraxis="coloraxis",
        hovertemplate=f"‖∂L[%{{y}}]/∂{at}‖ = %{{customdata:.2e}}<br>{at} is %{{text}}<extra></extra>",
        hoverongaps=False,
    )
    bar = {
        "title": {"text": "norm"},
        "tickvals": (ticks := _decades(bottom, top)),
        "ticktext": [_power(e) for e in ticks],
    }
    return figure(
        [heatmap],
        x=f"state {state}[k]: further left is longer ago",
        y="loss L[t]",
        height=560,
        coloraxis={"cmin": bottom, "cmax": max(top, bottom + 1e-6), "colorbar": bar},
        x_showgrid=False,
        y_showgrid=False,
        y_autorange="reversed",
        x_constrain="domain",
        **_labels("x", ["0", *map(visible, tokens[:T])]),
        **_labels("y", [visible(token) for token in tokens[1 : T + 1]]),
    )


def flow_by_lag(left: Mapping[str, Array], *, horizons: Mapping[str, int | None] | None = None) -> Any:
    """How much of the gradient is left at each lag, one curve for each layer or path.

    Parameters
    ----------
    left : mapping of str to ndarray, shape (T+1,)
        Curves by name, from `GradientFlow.by_lag`.
    horizons : mapping of str to int or None, optional
        The first lag of each curve at which less than 1 % is left; it is marked.

    Returns
    -------
    plotly.graph_objects.Figure

    Examples
    --------
    >>> from elman import LanguageModel, look
    >>> model = LanguageModel(hidden=8, steps=1).fit("the cat sat on the mat. " * 20, listeners=[])
    >>> flow = look.gradient_flow(model, "the cat")
    >>> look.flow_by_lag({"gradient": flow.by_lag()}).data[0].name
    'gradient'
    """
    traces = []
    for number, (name, curve) in enumerate(left.items()):
        traces.append(
            go.Scatter(
                x=np.arange(len(curve)),
                y=_positive(curve),
                name=name,
                mode="lines",
                line={"width": 3, "dash": DASHES[number % len(DASHES)]},
                hovertemplate=f"{name}: %{{x}} steps back, %{{y:.2%}} is left<extra></extra>",
            )
        )
    marks = [(name, lag) for name, lag in (horizons or {}).items() if lag is not None]
    for name, lag in marks:
        traces.append(
            go.Scatter(
                x=[lag],
                y=_positive(left[name][lag : lag + 1]),
                mode="markers+text",
                showlegend=False,
                text=[f" {lag} steps"],
                textposition="top right",
                marker={"size": 11, "symbol": "circle-open", "line": {"width": 3}},
                hovertemplate=f"{name}: the memory horizon, {lag} steps<extra></extra>",
            )
        )
    low, high = _log_range(list(left.values()))
    powers = [10.0**e for e in range(int(np.ceil(low)), int(np.floor(high)) + 1)]
    most = max(len(curve) for curve in left.values()) - 1
    return figure(
        traces,
        x="steps back",
        y="share that is left",
        levels=[level(GONE, "1 %", log=True)],
        y_type="log",
        y_range=[low, high],
        y_tickvals=powers[:: max(1, len(powers) // 8)],
        y_ticktext=[f"{100 * power:,.10g} %" for power in powers[:: max(1, len(powers) // 8)]],
        x_range=[0, min(most, max([3 * lag for _, lag in marks] + [24])) if len(marks) == len(left) else most],
        showlegend=len(left) > 1,
    )


def flow_factors(factors: Mapping[str, Array]) -> Any:
    """The factors by which each step back multiplies the gradient, and their product.

    The larger lags of a long text are left out: too few losses have a state so far back for a mean.

    Parameters
    ----------
    factors : mapping of str to ndarray, shape (T,)
        Factors by name, from `GradientFlow.factors`.

    Returns
    -------
    plotly.graph_objects.Figure

    Examples
    --------
    >>> from elman import LanguageModel, look
    >>> model = LanguageModel(hidden=8, steps=1).fit("the cat sat on the mat. " * 20, listeners=[])
    >>> flow = look.gradient_flow(model, "the cat")
    >>> figure = look.flow_factors(dict(zip(("1 − h²", "W_hh"), flow.factors())))
    >>> [curve.name for curve in figure.data]
    ['1 − h²', 'W_hh', 'both']
    """
    T = len(next(iter(factors.values())))
    shown = max(T // 2, min(T, LABELED))
    curves = {name: values[:shown] for name, values in factors.items()}
    curves["both"] = np.prod(list(curves.values()), axis=0)
    lags = np.arange(1, shown + 1)
    traces = [
        go.Scatter(
            x=lags,
            y=_positive(values),
            name=name,
            mode="lines",
            line={"width": 3 if name == "both" else 2, "dash": "solid" if name == "both" else "dash"},
            hovertemplate=f"{name}: ×%{{y:.3f}} in the step back to lag %{{x}}<extra></extra>",
        )
        for name, values in curves.items()
    ]
    return figure(
        traces, x="steps back", y="factor per step", levels=[level(1)], y_rangemode="tozero", x_rangemode="tozero"
    )


def _positive(values: Array) -> Array:
    """The values with NaN for 0, which a logarithmic axis cannot show."""
    return np.where(np.asarray(values) > 0, values, np.nan)


def _log_range(curves: Sequence[Array]) -> list[float]:
    """The exponents of ten at the lower and upper end of a logarithmic axis."""
    known = np.concatenate([curve[np.isfinite(curve) & (curve > 0)] for curve in curves] or [np.ones(1)])
    top = max(float(np.log10(known.max())) if known.size else 0.0, 0.0)
    bottom = max(float(np.log10(known.min())) if known.size else 0.0, top - 6 if top < 1 else -3.0)
    return [min(bottom, -2.3) - 0.2, top + 0.3]


def _decades(bottom: float, top: float) -> list[int]:
    low, high = int(np.ceil(bottom)), int(np.floor(top))
    return list(range(low, high + 1, max(1, (high - low) // 5))) or [low]


def _power(exponent: int) -> str:
    return f"1e{exponent}" if exponent else "1"


def _labels(axis: str, tokens: Sequence[str]) -> dict[str, Any]:
    """The options that label an axis with tokens; none if there are too many."""
    if len(tokens) > LABELED:
        return {}
    return {f"{axis}_tickvals": list(range(len(tokens))), f"{axis}_ticktext": list(tokens), f"{axis}_tickangle": 0}


def eigenvalue_plane(W_hh: Spectrum | Mapping[str, Spectrum], jacobians: JacobianSpectra | None = None) -> Any:
    """Eigenvalues in the complex plane with the unit circle: above modulus 1 a direction grows, below it shrinks.

    Parameters
    ----------
    W_hh : Spectrum, or mapping of str to Spectrum
        The spectrum of W_hh, or of the block of each gate in a gated cell, by name.
    jacobians : JacobianSpectra, optional
        Spectra of step Jacobians.

    Returns
    -------
    plotly.graph_objects.Figure

    Examples
    --------
    >>> from elman import look
    >>> look.eigenvalue_plane(look.spectrum([[0.9, 0.0], [0.0, 0.5]])).data[0].name
    'W_hh'
    """
    blocks = {"W_hh": W_hh} if isinstance(W_hh, Spectrum) else W_hh
    groups = {name: block.eigenvalues for name, block in blocks.items()}
    if jacobians is not None:
        dots = jacobians.spectra.eigenvalues.ravel()
        groups["step Jacobians"] = dots[:: -(-dots.size // MOST_DOTS)]
    traces = [
        go.Scatter(
            x=np.real(values),
            y=np.imag(values),
            name=name,
            mode="markers",
            zorder=1 if name in blocks else 0,  # weights above Jacobians
            marker={
                "size": 7 if name in blocks else 4,
                "opacity": 0.9 if name in blocks else 0.45,
                "symbol": SYMBOLS[number % len(SYMBOLS)] if name in blocks else "circle",
            },
            hovertemplate=f"{name}: %{{x:.3f}} %{{y:+.3f}}i<extra></extra>",
        )
        for number, (name, values) in enumerate(groups.items())
    ]
    far = max(1.0, *(float(np.abs(values).max()) for values in groups.values())) * 1.08
    circle = {
        "type": "circle",
        "x0": -1,
        "x1": 1,
        "y0": -1,
        "y1": 1,
        "layer": "above",
        "line": {"width": 2, "color": CIRCLE},
    }
    return figure(
        traces,
        x="real part",
        y="imaginary part",
        height=460,
        shapes=[circle],
        x_range=[-far, far],
        y_range=[-far, far],
        x_constrain="domain",
        y_constrain="domain",
        y_scaleanchor="x",
    )


def singular_values(W_hh: Spectrum | Mapping[str, Spectrum], jacobians: JacobianSpectra | None = None) -> Any:
    """Singular values, the largest first: of W_hh, and of the step Jacobians their mean and range.

    Parameters
    ----------
    W_hh : Spectrum, or mapping of str to Spectrum
        The spectrum of W_hh, or of the block of each gate in a gated cell, by name.
    jacobians : JacobianSpectra, optional
        Spectra of step Jacobians.

    Returns
    -------
    plotly.graph_objects.Figure

    Examples
    --------
    >>> from elman import look
    >>> look.singular_values(look.spectrum([[0.9, 0.0], [0.0, 0.5]])).data[0].y.tolist()
    [0.9, 0.5]
    """
    blocks = {"W_hh": W_hh} if isinstance(W_hh, Spectrum) else W_hh
    traces = [
        _line(np.arange(1, block.singular.shape[-1] + 1), block.singular, name, DASHES[number % len(DASHES)])
        for number, (name, block) in enumerate(blocks.items())
    ]
    if jacobians is not None:
        values = jacobians.spectra.singular  # (n, P·H)
        rank = np.arange(1, values.shape[-1] + 1)
        traces.append(_line(rank, values.mean(axis=0), "step Jacobians, mean"))
        for name, edge in (("highest", values.max(axis=0)), ("lowest", values.min(axis=0))):
            traces.append(
                go.Scatter(x=rank, y=edge, mode="lines", line={"width": 1, "color": QUIET}, showlegend=False,
                           hovertemplate=f"{name}: %{{y:.3f}}<extra></extra>")
            )  # fmt: skip
    return figure(traces, x="rank", y="singular value", height=460, levels=[level(1)], y_rangemode="tozero")


def lyapunov_spectrum(exponents: Mapping[str, Array]) -> Any:
    """Lyapunov exponents, the largest first.

    Parameters
    ----------
    exponents : mapping of str to ndarray
        Exponents in nats per step by the name of the layer.

    Returns
    -------
    plotly.graph_objects.Figure

    Examples
    --------
    >>> from elman import look
    >>> look.lyapunov_spectrum({"layer 0": [-0.1, -0.5]}).data[0].name
    'layer 0'
    """
    traces = [
        go.Scatter(
            x=np.arange(1, len(values) + 1),
            y=np.where(np.isfinite(values), values, np.nan),
            name=name,
            mode="lines+markers",
            line={"width": 2},
            marker={"size": 5},
            hovertemplate=f"{name}, rank %{{x}}: %{{y:.3f}} nats per step<extra></extra>",
        )
        for name, values in exponents.items()
    ]
    line = level(0, "above 0 small differences of states grow, below 0 they shrink")
    return figure(traces, x="rank", y="nats per step", levels=[line], showlegend=len(exponents) > 1)


def state_histogram(found: Mapping[str, Saturation]) -> Any:
    """A histogram of the values of the units or the gates.

    Parameters
    ----------
    found : mapping of str to Saturation
        Saturation by the name of the layer or gate.

    Returns
    -------
    plotly.graph_objects.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from elman import look
    >>> look.state_histogram({"layer 0": look.saturation(np.zeros((3, 2)))}).data[0].name
    'layer 0'
    """
    traces = []
    for number, (name, s) in enumerate(found.items()):
        shares, hover = s.counts / max(s.counts.sum(), 1), f"{name} ≈ %{{x:.2f}}: %{{y:.1%}}<extra></extra>"
        options = {"x": (s.edges[:-1] + s.edges[1:]) / 2, "y": shares, "name": name, "hovertemplate": hover}
        if len(found) == 1:
            traces.append(go.Bar(**options))
        else:  # bars would hide each other
            line = {"shape": "hvh", "width": 2, "dash": DASHES[number % len(DASHES)]}
            traces.append(go.Scatter(**options, mode="lines", line=line))
    return figure(traces, x="value", y="share", y_tickformat=".0%", bargap=0.02, showlegend=len(found) > 1)


def saturation_along(found: Mapping[str, Saturation], tokens: Sequence[str]) -> Any:
    """The share of units that are saturated at each step of a text; in a gated cell, of the values of each gate.

    Parameters
    ----------
    found : mapping of str to Saturation
        Saturation by the name of the layer or gate.
    tokens : sequence of str
        What each step reads.

    Returns
    -------
    plotly.graph_objects.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from elman import look
    >>> look.saturation_along({"layer 0": look.saturation(np.ones((3, 2)))}, "ab").data[0].y.tolist()
    [1.0, 1.0]
    """
    traces = [
        go.Scatter(
            x=np.arange(len(s.by_step)),
            y=s.by_step,
            text=[visible(token) for token in tokens[: len(s.by_step)]],
            name=name,
            mode="lines",
            line={"width": 2},
            hovertemplate=f"{name}, step %{{x}}, “%{{text}}”: %{{y:.0%}} saturated<extra></extra>",
        )
        for name, s in found.items()
    ]
    return figure(
        traces, x="step", y="share saturated", y_tickformat=".0%", y_rangemode="tozero", showlegend=len(found) > 1
    )


def gradient_norms(history: GradientHistory, *, clip_norm: float = 0.0) -> Any:
    """Gradient norms over a training run, of all parameters together and of each, with the maximum of clipping.

    Parameters
    ----------
    history : GradientHistory
        From `gradient_history`.
    clip_norm : float
        The maximum gradient norm; 0 if gradients are not clipped.

    Returns
    -------
    plotly.graph_objects.Figure

    Examples
    --------
    >>> from elman import look
    >>> history = look.gradient_history([{"step": 1, "gradient_norm": 2.0}])
    >>> look.gradient_norms(history).data[0].name
    'all'
    """
    curves = {"all": history.total, **history.parameters}
    traces = [
        go.Scatter(
            x=[step for step, _ in points],
            y=[norm for _, norm in points],
            name=name,
            mode="lines",
            line={"width": 3 if name == "all" else 1.5},
            hovertemplate=f"{name}, step %{{x}}: %{{y:.3g}}<extra></extra>",
        )
        for name, points in curves.items()
        if points
    ]
    limit = [level(clip_norm, f"clipped above {clip_norm:g}", log=True)] if clip_norm else []
    return figure(traces, x="step of training", y="gradient norm", height=420, levels=limit, y_type="log", y_dtick=1)


def _line(x: Array, y: Array, name: str, dash: str = "solid") -> Any:
    hover = f"{name}, rank %{{x}}: %{{y:.3f}}<extra></extra>"
    return go.Scatter(x=x, y=y, name=name, mode="lines", line={"width": 3, "dash": dash}, hovertemplate=hover)


def unit_along_text(reading: Reading, unit: int, layer: int = 0, *, state: str = "h") -> Any:
    """A text with each token colored by the state of a unit after it.

    Parameters
    ----------
    reading : Reading
        From `read_text`.
    unit, layer : int
        Which unit, from 0.
    state : str
        The state part: "h", or "c" of an LSTM.

    Returns
    -------
    plotly.graph_objects.Figure

    Examples
    --------
    >>> from elman import LanguageModel, look
    >>> model = LanguageModel(hidden=8, steps=1).fit("the cat sat on the mat. " * 20, listeners=[])
    >>> look.unit_along_text(look.read_text(model, "the cat"), 3).data[0].text[0][:3]
    ['t', 'h', 'e']
    """
    h = reading.state(state)[layer, :, unit]
    words = [f"{state} = {value:+.3f} after “{visible(token)}”" for value, token in zip(h, reading.tokens, strict=True)]
    far = float(np.abs(h).max()) or 1.0
    bar = {"title": {"text": f"{state} of unit {unit}"}}
    return _text(reading.tokens, h, words, {"colorscale": LOW_HIGH, "cmin": -far, "cmax": far, "colorbar": bar})


def surprise_along_text(reading: Reading) -> Any:
    """A text with each token shaded by its surprise; hovering shows the most probable tokens.

    Parameters
    ----------
    reading : Reading
        From `read_text`.

    Returns
    -------
    plotly.graph_objects.Figure

    Examples
    --------
    >>> from elman import LanguageModel, look
    >>> model = LanguageModel(hidden=8, steps=1).fit("the cat sat on the mat. " * 20, listeners=[])
    >>> look.surprise_along_text(look.read_text(model, "the cat")).data[0].type
    'heatmap'
    """
    words = []
    for token, nats, others, probabilities in zip(
        reading.tokens, reading.surprise, reading.alternatives, reading.probabilities, strict=True
    ):
        pairs = zip(others, probabilities, strict=False)
        listed = "<br>".join(f"{probability:6.1%}  {visible(other)}" for other, probability in pairs)
        hover = f"“{visible(token)}”: {nats:.2f} nats<br>most probable<br>{listed}"
        words.append(hover if others else "the first token")
    bar = {"title": {"text": "nats"}}
    known = reading.surprise[np.isfinite(reading.surprise)]
    limits = {"cmin": 0, "cmax": float(known.max(initial=1e-6))}
    return _text(reading.tokens, reading.surprise, words, {**limits, "colorbar": bar})


def units_along_text(
    reading: Reading, units: Sequence[int], layer: int = 0, *, names: Sequence[str] = (), state: str = "h"
) -> Any:
    """Some units, one row each, along the first 240 tokens of a text.

    Parameters
    ----------
    reading : Reading
        From `read_text`.
    units : sequence of int
        The indices of the units in the layer.
    layer : int
        The layer, from 0.
    names : sequence of str, optional
        Labels of the units.
    state : str
        The state part: "h", or "c" of an LSTM.

    Returns
    -------
    plotly.graph_objects.Figure

    Examples
    --------
    >>> from elman import LanguageModel, look
    >>> model = LanguageModel(hidden=8, steps=1).fit("the cat sat on the mat. " * 20, listeners=[])
    >>> look.units_along_text(look.read_text(model, "the cat"), [1, 5]).data[0].y
    ('unit 1', 'unit 5')
    """
    h = reading.state(state)[layer, :MOST_COLUMNS][:, list(units)].T  # (units, T)
    tokens = [visible(token) for token in reading.tokens[:MOST_COLUMNS]]
    far = float(np.abs(h).max()) or 1.0
    heatmap = go.Heatmap(
        z=h.astype(np.float32),
        y=list(names) or [f"unit {unit}" for unit in units],
        text=[tokens] * len(h),
        colorscale=LOW_HIGH,
        zmin=-far,
        zmax=far,
        colorbar={"title": {"text": state}, "outlinewidth": 0, "thickness": 12},
        hovertemplate=f"%{{y}} after token %{{x}}, “%{{text}}”: {state} = %{{z:.3f}}<extra></extra>",
    )
    return figure([heatmap], x="token", y="", height=140 + 24 * len(h), x_showgrid=False, y_autorange="reversed")


def best_units(ranking: Ranking) -> Any:
    """For each feature the unit that tracks it best, with its score on the second part of the text.

    "higher" says that the unit is higher where the feature is present or larger, "lower" that it is lower there.

    Parameters
    ----------
    ranking : Ranking
        From `rank_units`.

    Returns
    -------
    plotly.graph_objects.Figure

    Examples
    --------
    >>> from elman import LanguageModel, look
    >>> model = LanguageModel(hidden=8, steps=1).fit("the cat sat on the mat. " * 20, listeners=[])
    >>> ranking = look.rank_units(look.read_text(model, "the cat sat on the mat. " * 20))
    >>> len(look.best_units(ranking).data)
    2
    """
    rows = ranking.by_feature()[::-1]
    traces = []
    for measure, name in (("AUC", "AUC of yes or no features: 0.5 is chance"), ("R²", "R² of numbers: 0 is chance")):
        here = [row for row in rows if row[1] == measure]
        traces.append(
            go.Bar(
                x=[max(best.score, 0.0) for _, _, best in here],
                y=[feature for feature, _, _ in here],
                text=[_unit_name(best, ranking) for _, _, best in here],
                orientation="h",
                name=name,
                hovertemplate="%{y}: %{text}<extra></extra>",
                textposition="auto",
            )
        )
    chance = {"type": "line", "x0": 0.5, "x1": 0.5, "yref": "paper", "y0": 0, "y1": 1}
    return figure(
        traces,
        x="score on the second part of the text",
        y="",
        height=120 + 30 * len(rows),
        barmode="overlay",
        shapes=[{**chance, "line": {"color": QUIET, "dash": "dot"}}],
        x_range=[0, 1],
        y_categoryorder="array",
        y_categoryarray=[feature for feature, _, _ in rows],
    )


def _unit_name(best: UnitScore, ranking: Ranking) -> str:
    layer = f", layer {best.layer}" if ranking.scores.shape[1] > 1 else ""
    state = f" ({best.state})" if len(ranking.state_names) > 1 else ""
    return f"unit {best.unit}{state}{layer}, {'higher' if best.rises else 'lower'}: {best.score:.3f}"


def _text(tokens: Sequence[str], values: Array, words: Sequence[str], colors: dict[str, Any]) -> Any:
    """The first tokens of a text in rows, colored by their values; each line of the text begins a row."""
    shown = [visible(token) for token in tokens[:MOST_TOKENS]]
    columns = max(1, ROW_CHARACTERS // max(map(len, shown)))
    places, row, column = [], 0, 0
    for token in tokens[:MOST_TOKENS]:
        places.append((row, column))
        column += 1
        if column == columns or token == "\n":
            row, column = row + 1, 0
    height = places[-1][0] + 1
    z, letters = np.full((height, columns), np.nan), np.full((height, columns), "", object)
    hover = letters.copy()
    for place, value, letter, word in zip(places, values, shown, words, strict=False):
        z[place], letters[place], hover[place] = value, letter, word
    heatmap = go.Heatmap(
        z=z,
        text=letters.tolist(),
        customdata=hover.tolist(),
        texttemplate="%{text}",
        textfont={"family": "ui-monospace, 'DejaVu Sans Mono', monospace", "size": 12},
        hovertemplate="%{customdata}<extra></extra>",
        hoverongaps=False,
        coloraxis="coloraxis",
        xgap=0,
        ygap=2,
    )
    layout: dict[str, Any] = {}
    if height <= FEW_ROWS:  # the color bar goes below the text
        below = {"orientation": "h", "y": 0, "yanchor": "top", "x": 0.5, "len": 0.5, "nticks": 5, "thickness": 10}
        colors = {
            **colors,
            "colorbar": {**colors["colorbar"], **below, "title": {**colors["colorbar"]["title"], "side": "top"}},
        }
        layout = {"margin": {"l": 20, "r": 20, "t": 20, "b": 80}}
    return figure(
        [heatmap], x="", y="", height=110 + 22 * height, coloraxis=colors,
        x_visible=False, y_visible=False, y_autorange="reversed", **layout,
    )  # fmt: skip


def gates_along_text(gates: Mapping[str, Array], tokens: Sequence[str], *, gate: str | None = None) -> Any:
    """The gates of a layer along the first 240 tokens of a text as a heat map.

    Parameters
    ----------
    gates : mapping of str to ndarray, shape (T, H)
        From `LayerTrace.gates`.
    tokens : sequence of str, length T
        What each step reads.
    gate : str, optional
        One gate: a row for each unit, the highest mean first; of more than 48 units, 48 at even distances in it.
        Without it a row for each sigmoid gate: its mean over all units.

    Returns
    -------
    plotly.graph_objects.Figure

    Examples
    --------
    >>> from elman import LanguageModel, look
    >>> model = LanguageModel(hidden=8, steps=1, cell="lstm").fit("the cat sat on the mat. " * 20, listeners=[])
    >>> gates = look.trace(model, "the cat").layers[0].gates
    >>> look.gates_along_text(gates, "the cat").data[0].y
    ('i: input', 'f: forget', 'o: output')
    """
    if not gates:
        raise ArgumentError("gates", expected="those of a GRU or an LSTM", got="none: a vanilla cell has no gates")
    if gate is None:
        rows = {name: values.mean(axis=1) for name, values in gates.items() if name not in TANH_GATES}
        z, names = np.stack(list(rows.values())), [f"{name}: {GATE_NAMES[name]}" for name in rows]
    else:
        order = np.argsort(-gates[gate].mean(axis=0), kind="stable")
        order = order[np.unique(np.linspace(0, len(order) - 1, min(len(order), MOST_ROWS)).round().astype(int))]
        z, names = gates[gate].T[order], [f"unit {unit}" for unit in order]
    z, shown = z[:, :MOST_COLUMNS], [visible(token) for token in tokens[:MOST_COLUMNS]]
    what = "%{y}" if gate is None else f"{gate} of %{{y}}"
    heatmap = go.Heatmap(
        z=z.astype(np.float32),
        y=names,
        text=[shown] * len(z),
        coloraxis="coloraxis",
        hovertemplate=f"{what} at token %{{x}}, “%{{text}}”: %{{z:.3f}}<extra></extra>",
    )
    bar = {"title": {"text": "open" if gate is None else gate}, "tickvals": [0, 0.5, 1]}
    limits = {"cmin": -1, "cmax": 1, "colorbar": bar | {"tickvals": [-1, 0, 1]}} if gate in TANH_GATES else {}
    return figure(
        [heatmap],
        x="token",
        y="",
        height=150 + (34 if gate is None else 9) * len(z),
        coloraxis={"cmin": 0, "cmax": 1, "colorbar": bar} | limits,
        x_showgrid=False,
        y_autorange="reversed",
        **_labels("x", shown),
    )


def attribution_along_text(found: Attribution, *, prediction: int | None = None, by: str = "left_out") -> Any:
    """A sequence with each token colored by its contribution to one prediction.

    Parameters
    ----------
    found : Attribution
        From `attribution`.
    prediction : int, optional
        The prediction: 0 for a classifier or regressor, the step for a tagger. Unless given, all tags of a tagger, one
        row each.
    by : {"left_out", "gradient"}
        The method.

    Returns
    -------
    plotly.graph_objects.Figure

    Examples
    --------
    >>> from elman import SequenceClassifier, look
    >>> texts, labels = ["good film", "bad film"] * 20, ["+", "-"] * 20
    >>> model = SequenceClassifier(hidden=8, epochs=5, tokens="word").fit(texts, labels, listeners=[])
    >>> look.attribution_along_text(look.attribution(model, "good film")).data[0].text[0][:2]
    ['·good', '·film']
    """
    if prediction is None and len(found.targets) > 1:
        return _all_attributions(found, by)
    prediction = prediction or 0
    values, other = (getattr(found, name)[prediction] for name in (by, "gradient" if by == "left_out" else "left_out"))
    names = {"left_out": "left out", "gradient": "gradient × input"}
    words = [
        f"“{visible(token)}”<br>{names[by]}: {value:+.3f}<br>{names['gradient' if by == 'left_out' else 'left_out']}: "
        f"{check:+.3f}"
        for token, value, check in zip(found.tokens, values, other, strict=True)
    ]
    far = float(np.abs(values).max()) or 1.0
    bar = {"title": {"text": f"contribution to {found.targets[prediction]}"}}
    return _text(found.tokens, values, words, {"colorscale": LOW_HIGH, "cmin": -far, "cmax": far, "colorbar": bar})


def _all_attributions(found: Attribution, by: str) -> Any:
    """The contribution of each token to the tag of each step."""
    values, tokens = getattr(found, by), [visible(token) for token in found.tokens]
    far = float(np.abs(values).max()) or 1.0
    tags = [f"{t}: {tag}" for t, tag in enumerate(found.targets)]
    heatmap = go.Heatmap(
        z=values.astype(np.float32),
        y=tags,
        text=[tokens] * len(values),
        coloraxis="coloraxis",
        hovertemplate="“%{text}” contributes %{z:+.3f} to tag %{y}<extra></extra>",
    )
    bar = {"title": {"text": "contribution"}}
    return figure(
        [heatmap],
        x="token",
        y="tag",
        height=160 + 22 * len(values),
        coloraxis={"colorscale": LOW_HIGH, "cmin": -far, "cmax": far, "colorbar": bar},
        y_autorange="reversed",
        x_showgrid=False,
        **_labels("x", tokens),
    )
