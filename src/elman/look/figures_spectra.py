"""Figures of spectra, saturation and training: pure functions from plain data to Plotly figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from elman.look.history import GradientHistory
from elman.look.spectra import JacobianSpectra, Saturation, Spectrum
from elman.look.theme import QUIET, figure, go, level, visible
from elman.maths.arrays import Array

MOST_DOTS = 1000  # eigenvalues of Jacobians in a figure


def eigenvalue_plane(W_hh: Spectrum, jacobians: JacobianSpectra | None = None) -> Any:
    """Eigenvalues in the complex plane, with the unit circle: outside it a direction grows, inside it dies."""
    groups = {"W_hh": W_hh.eigenvalues}
    if jacobians is not None:
        dots = jacobians.spectra.eigenvalues.ravel()
        groups["step Jacobians"] = dots[:: -(-dots.size // MOST_DOTS)]
    traces = [
        go.Scatter(
            x=np.real(values),
            y=np.imag(values),
            name=name,
            mode="markers",
            zorder=1 if name == "W_hh" else 0,  # the few above the many
            marker={"size": 7 if name == "W_hh" else 4, "opacity": 0.9 if name == "W_hh" else 0.45},
            hovertemplate=f"{name}: %{{x:.3f}} %{{y:+.3f}}i<extra></extra>",
        )
        for name, values in groups.items()
    ]
    far = max(1.0, *(float(np.abs(values).max()) for values in groups.values())) * 1.08
    circle = {"type": "circle", "x0": -1, "x1": 1, "y0": -1, "y1": 1, "line": {"dash": "dot", "color": QUIET}}
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


def singular_values(W_hh: Spectrum, jacobians: JacobianSpectra | None = None) -> Any:
    """Singular values, the largest first: of W_hh, and of the step Jacobians their mean and what they range over."""
    rank = np.arange(1, W_hh.singular.shape[-1] + 1)
    traces = [_line(rank, W_hh.singular, "W_hh", "number %{x}: %{y:.3f}")]
    if jacobians is not None:
        values = jacobians.spectra.singular  # (n, H)
        traces.append(_line(rank, values.mean(axis=0), "step Jacobians, mean", "number %{x}: %{y:.3f}"))
        for name, edge in (("highest", values.max(axis=0)), ("lowest", values.min(axis=0))):
            traces.append(
                go.Scatter(x=rank, y=edge, mode="lines", line={"width": 1, "color": QUIET}, showlegend=False,
                           hovertemplate=f"{name}: %{{y:.3f}}<extra></extra>")
            )  # fmt: skip
    return figure(traces, x="number", y="singular value", height=460, levels=[level(1)], y_rangemode="tozero")


def lyapunov_spectrum(exponents: Mapping[str, Array]) -> Any:
    """Exponents in nats a step, the largest first, a curve a layer."""
    traces = [
        go.Scatter(
            x=np.arange(1, len(values) + 1),
            y=np.where(np.isfinite(values), values, np.nan),
            name=name,
            mode="lines+markers",
            line={"width": 2},
            marker={"size": 5},
            hovertemplate=f"{name}, number %{{x}}: %{{y:.3f}} nats a step<extra></extra>",
        )
        for name, values in exponents.items()
    ]
    line = level(0, "above: small differences grow; below: they are forgotten")
    return figure(traces, x="number", y="nats a step", levels=[line], showlegend=len(exponents) > 1)


def state_histogram(found: Mapping[str, Saturation]) -> Any:
    """What values the units take, a curve a layer."""
    traces = []
    for name, s in found.items():
        shares = s.counts / max(s.counts.sum(), 1)
        centres = (s.edges[:-1] + s.edges[1:]) / 2
        traces.append(
            go.Bar(x=centres, y=shares, name=name, hovertemplate="h ≈ %{x:.2f}: %{y:.1%}<extra></extra>", opacity=0.85)
        )
    return figure(
        traces, x="h", y="share", y_tickformat=".0%", bargap=0.02, barmode="overlay", showlegend=len(found) > 1
    )


def saturation_along(found: Mapping[str, Saturation], tokens: Sequence[str]) -> Any:
    """The share of flat units after each step of a text."""
    traces = [
        go.Scatter(
            x=np.arange(1, len(s.by_step) + 1),
            y=s.by_step,
            text=[visible(token) for token in tokens[: len(s.by_step)]],
            name=name,
            mode="lines",
            line={"width": 2},
            hovertemplate="h[%{x}], after “%{text}”: %{y:.0%} of the units<extra></extra>",
        )
        for name, s in found.items()
    ]
    return figure(
        traces, x="step", y="saturated units", y_tickformat=".0%", y_rangemode="tozero", showlegend=len(found) > 1
    )


def gradient_norms(history: GradientHistory, *, clip_norm: float = 0.0) -> Any:
    """The gradient's norm over a run, the whole and by parameter, and the longest that clipping allowed."""
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


def _line(x: Array, y: Array, name: str, hover: str) -> Any:
    return go.Scatter(
        x=x, y=y, name=name, mode="lines", line={"width": 3}, hovertemplate=f"{name}, {hover}<extra></extra>"
    )
