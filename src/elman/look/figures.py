"""Figures of gradient flow: pure functions from plain data to Plotly figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elman.look.flow import GONE
from elman.look.theme import figure, go, level, visible
from elman.maths.arrays import Array

LABELLED = 48  # tokens; a longer axis shows numbers instead
DECADES = 8  # of ten that the colors tell apart


def flow_heatmap(d_h: Array, tokens: Sequence[str]) -> Any:
    """‖∂L[t]/∂h[k]‖: (T, T+1), NaN where there is nothing; step t reads tokens[t] and predicts tokens[t+1]."""
    T = len(d_h)
    with np.errstate(divide="ignore"):
        z = np.log10(d_h)
    known = z[np.isfinite(z)]
    top = float(known.max()) if known.size else 0.0
    bottom = max(top - DECADES, float(known.min())) if known.size else -1.0
    z = np.where(np.isnan(d_h), np.nan, np.clip(z, bottom, top))  # 0 and infinity get the last colors
    with np.errstate(over="ignore"):  # what is too large for float32 is shown as infinite
        norms = d_h.astype(np.float32)
    read = ["the start", *(f"“{visible(token)}”" for token in tokens[:T])]
    heatmap = go.Heatmap(
        z=z.astype(np.float32),
        text=[[*read[: t + 2], *[""] * (T - t - 1)] for t in range(T)],
        customdata=norms,
        coloraxis="coloraxis",
        hovertemplate="‖∂L[%{y}]/∂h[%{x}]‖ = %{customdata:.2e}<br>h[%{x}] is the state after %{text}<extra></extra>",
        hoverongaps=False,
    )
    bar = {
        "title": {"text": "norm"},
        "tickvals": (ticks := _decades(bottom, top)),
        "ticktext": [_power(e) for e in ticks],
    }
    return figure(
        [heatmap],
        x="state h[k]: the further left, the longer ago",
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
    """How much of the gradient is left at each lag, a curve a layer; a mark where less than 1 % is left."""
    traces = []
    for name, curve in left.items():
        traces.append(
            go.Scatter(
                x=np.arange(len(curve)),
                y=_positive(curve),
                name=name,
                mode="lines",
                line={"width": 3},
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
        y="what is left of it",
        levels=[level(GONE, "1 %", log=True)],
        y_type="log",
        y_range=[low, high],
        y_tickvals=powers[:: max(1, len(powers) // 8)],
        y_ticktext=[f"{100 * power:,.10g} %" for power in powers[:: max(1, len(powers) // 8)]],
        x_range=[0, min(most, max([3 * lag for _, lag in marks] + [24])) if len(marks) == len(left) else most],
        showlegend=len(left) > 1,
    )


def flow_factors(activation: Array, recurrent: Array, *, slope: str = "diag(1 − h²)") -> Any:
    """What each step back multiplies the gradient by: the activation's slopes, W_hh, and both.

    Of a longer text the last half is left out: too few losses reach so far back for a mean.
    """
    shown = max(len(activation) // 2, min(len(activation), LABELLED))
    activation, recurrent = activation[:shown], recurrent[:shown]
    both = {slope: activation, "W_hh": recurrent, "both": activation * recurrent}
    lags = np.arange(1, len(activation) + 1)
    traces = [
        go.Scatter(
            x=lags,
            y=_positive(factors),
            name=name,
            mode="lines",
            line={"width": 3 if name == "both" else 2, "dash": "solid" if name == "both" else "dash"},
            hovertemplate=f"{name}: ×%{{y:.3f}} in the step back to lag %{{x}}<extra></extra>",
        )
        for name, factors in both.items()
    ]
    return figure(
        traces, x="steps back", y="factor a step", levels=[level(1)], y_rangemode="tozero", x_rangemode="tozero"
    )


def _positive(values: Array) -> Array:
    """A logarithmic axis has no 0."""
    return np.where(np.asarray(values) > 0, values, np.nan)


def _log_range(curves: Sequence[Array]) -> list[float]:
    """The powers of ten from the largest down, no more of them than an eye needs."""
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
    """The tokens themselves along an axis, where there is room for them."""
    if len(tokens) > LABELLED:
        return {}
    return {f"{axis}_tickvals": list(range(len(tokens))), f"{axis}_ticktext": list(tokens), f"{axis}_tickangle": 0}
