"""A verdict on a gradient flow: whether it vanishes or explodes, after how many steps, and why; also in words."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from elman.look.flow import GONE, GradientFlow, memory_horizon
from elman.maths.activations import ActivationLike
from elman.maths.arrays import Array

Kind = Literal["vanishes", "healthy", "explodes", "silent"]
Cause = Literal["activation", "recurrent", "carry"]
GROWN = 1 / GONE  # times the gradient at lag 0: more than this counts as an explosion
STEADY = 0.02  # a factor per step that differs from 1 by less than this has little effect

SLOPES = {"tanh": "1 − h²", "sigmoid": "h(1 − h)", "relu": "h > 0", "identity": "1"}
FLAT = {  # why an activation shrinks a gradient
    "tanh": "tanh saturation",
    "sigmoid": "the sigmoid, whose slope is at most 1/4",
    "relu": "inactive ReLU units",
}
CARRIES = {  # the gates on the path that does not go through W_hh, and the path in words, ending with its factor
    "lstm": ("the forget gates", "along the cell state c, f"),
    "gru": ("the update gates", "on the direct path from h[t+1] to h[t], z"),
}


@dataclass(frozen=True)
class Verdict:
    """What happens to the gradient of one layer, and why.

    Attributes
    ----------
    layer : int
        From 0.
    kind : {"vanishes", "healthy", "explodes", "silent"}
        "silent": there is no gradient.
    lag : int or None
        The lag at which it has vanished or exploded; None if it does neither, or if the states themselves overflow.
    horizon : int or None
        The first lag at which less than 1 % is left; None if there is none in the text.
    followed : int
        The number of steps back over which the factors are means.
    factor : float
        The factor by which a step back multiplies the norm of the gradient, on average.
    activation, recurrent : float
        In a vanilla cell the two parts of this factor: the derivative of the activation, and W_hh. In a gated cell
        `recurrent` is the factor of the path through h and W_hh, `activation` that of the derivatives of its gates.
    carry : float or None
        In a gated cell the factor of the other path: of the forget gate along c, or of the update gate.
    cause : {"activation", "recurrent", "carry"} or None
        The main cause of vanishing or explosion.
    step : int or None
        k of the state s[k] at which the main cause has the largest effect, over the losses of the next `followed`
        steps; later states, which have fewer losses after them, are left out.
    words : str
        All of this in words.
    """

    layer: int
    kind: Kind
    lag: int | None
    horizon: int | None
    followed: int
    factor: float
    activation: float
    recurrent: float
    carry: float | None
    cause: Cause | None
    step: int | None
    words: str

    def __str__(self) -> str:
        return self.words


def verdict(flow: GradientFlow, layer: int = -1, *, reach: int | None = None) -> Verdict:
    """The verdict on the gradient of one layer.

    If its mean norm falls below 1 % of that at lag 0 within `reach` steps back, it vanishes; if it rises above 100
    times that, it explodes; the first of the two counts. It also explodes if the states overflow. If it is 0 already at
    lag 0, it is silent; otherwise it is healthy.

    Parameters
    ----------
    flow : GradientFlow
        From `gradient_flow`.
    layer : int
        The layer; -1 is the last.
    reach : int, optional
        The number of steps back over which the gradient is judged, such as bptt_steps; the whole text unless given.

    Returns
    -------
    Verdict
        ``str()`` of it is the verdict in words.

    Examples
    --------
    >>> from elman import LanguageModel, look
    >>> model = LanguageModel(hidden=8, steps=1).fit("the cat sat on the mat. " * 20, listeners=[])
    >>> look.verdict(look.gradient_flow(model, "the cat sat on")).kind
    'healthy'
    """
    layer %= flow.layers
    reach = min(reach or flow.steps, flow.steps)
    left = flow.by_lag(layer)[: reach + 1]
    if not 0 < left[0] < np.inf:
        return _nothing_to_follow(layer, flow)
    kind, lag = _crossing(left)
    followed = lag or reach
    activation, recurrent = (_mean_factor(factors[:followed]) for factors in flow.factors(layer))
    carry = None
    if flow.paths:
        carry, recurrent = (_rate(flow.paths[path][layer], followed) for path in ("carry", "recurrent"))
    factor = float(left[followed] ** (1 / followed)) if np.isfinite(left[followed]) else activation * recurrent
    cause: Cause | None = None
    if kind in ("vanishes", "explodes"):
        cause = _cause(kind, activation, recurrent, carry)
    step = _step(flow, layer, cause, followed, kind) if cause else None
    horizon = memory_horizon(flow, layer)
    found = Verdict(layer, kind, lag, horizon, followed, factor, activation, recurrent, carry, cause, step, "")
    return replace(found, words=_words(found, flow, reach))


def verdicts(flow: GradientFlow, *, reach: int | None = None) -> list[Verdict]:
    """One verdict for each layer, from the lowest.

    Parameters
    ----------
    flow : GradientFlow
        From `gradient_flow`.
    reach : int, optional
        The number of steps back over which the gradient is judged; the whole text unless given.

    Returns
    -------
    list of Verdict
        One for each layer.

    Examples
    --------
    >>> from elman import LanguageModel, look
    >>> model = LanguageModel(hidden=8, layers=2, steps=1).fit("the cat sat on the mat. " * 20, listeners=[])
    >>> [v.layer for v in look.verdicts(look.gradient_flow(model, "the cat sat on"))]
    [0, 1]
    """
    return [verdict(flow, layer, reach=reach) for layer in range(flow.layers)]


def slope_name(activation: ActivationLike) -> str:
    """The derivative of an activation, written in terms of h."""
    return SLOPES.get(activation, "f′") if isinstance(activation, str) else "f′"


def _crossing(left: Array) -> tuple[Kind, int | None]:
    """Which of the two bounds is crossed first, and at what lag."""
    over = (left < GONE) | (left > GROWN)
    if not over.any():
        return "healthy", None
    lag = int(np.argmax(over))
    return ("vanishes" if left[lag] < GONE else "explodes"), lag


def _cause(kind: Kind, activation: float, recurrent: float, carry: float | None) -> Cause:
    if carry is not None:  # the gradients of both paths are added: the larger one dominates
        return "carry" if carry > recurrent else "recurrent"
    smaller: Cause = "activation" if activation < recurrent else "recurrent"
    larger: Cause = "activation" if activation > recurrent else "recurrent"
    return smaller if kind == "vanishes" else larger


def _mean_factor(factors: Array) -> float:
    """The geometric mean."""
    factors = factors[np.isfinite(factors)]
    with np.errstate(divide="ignore"):
        return float(np.exp(np.log(factors).mean())) if len(factors) else 1.0


def _rate(norms: Array, followed: int) -> float:
    """The factor per step of one path, from lag 1 on: at lag 0 the gradient is on h, not yet on the path.

    If only one step is followed, it is the factor of that step, from lag 0.
    """
    start = 1 if followed > 1 else 0
    after, before = norms.diagonal(1 - followed), norms.diagonal(1 - start)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = float((after.sum() / before[-len(after) :].sum()) ** (1 / (followed - start)))
    return rate if np.isfinite(rate) else 0.0


def _step(flow: GradientFlow, layer: int, cause: Cause, followed: int, kind: Kind) -> int | None:
    """k of the state s[k] with the smallest factor, or the largest, over the losses of the next `followed` steps."""
    if flow.paths:
        before = flow.paths[cause][layer]
        after = np.concatenate([np.full((flow.steps, 1), np.nan), before[:, :-1]], axis=1)
    elif cause == "activation":
        before, after = flow.norms[layer], flow.d_a[layer]
    else:
        before, after = flow.d_a[layer], flow.d_h_back[layer]
    t, k = np.indices(before.shape)
    last = max(flow.steps + 1 - followed, 1)  # later states have fewer losses after them
    near = (k >= 1) & (k <= min(last, flow.steps)) & (k <= t + 1) & (t + 1 - k < followed)
    sums = [np.where(near, norms, 0.0).sum(axis=0)[1:] for norms in (before, after)]  # (T,) for k = 1..T
    with np.errstate(invalid="ignore", divide="ignore"):
        factors = sums[1] / sums[0]
    factors[~np.isfinite(factors)] = np.nan
    if np.isnan(factors).all():
        return None
    return 1 + int(np.nanargmin(factors) if kind == "vanishes" else np.nanargmax(factors))


def _nothing_to_follow(layer: int, flow: GradientFlow) -> Verdict:
    kind: Kind = "silent"
    words = "There is no gradient to follow: every loss of this text, or its gradient on this layer, is 0."
    if not np.isfinite(flow.losses).all():
        kind, words = "explodes", "The states themselves explode: they overflow before the text ends."
    return Verdict(layer, kind, None, None, flow.steps, np.nan, np.nan, np.nan, None, None, None, words)


def _words(v: Verdict, flow: GradientFlow, reach: int) -> str:
    if v.kind == "healthy":
        left = flow.by_lag(v.layer)[: reach + 1]
        last = int(np.flatnonzero(np.isfinite(left))[-1])  # NaN where losses are exactly 0
        end = ", as far as this text goes," if reach == flow.steps else ""
        lasts = f"{_steps(last)} back{end} {_share(left[last])} of it is left"
        if v.horizon is not None:
            lasts += f"; {_steps(v.horizon)} back less than 1 % is left"
        return f"The gradient is healthy: {lasts}. {_capital(_both(v, flow))}."
    assert v.lag is not None
    what = {
        "vanishes": f"vanishes: {_steps(v.lag)} back less than 1 % of it is left",
        "explodes": f"explodes: {_steps(v.lag)} back it is more than 100 times as large",
    }[v.kind]
    return f"The gradient {what} (×{v.factor:.2f} per step). Main cause: {_main_cause(v, flow)}. {_other(v, flow)}."


def _both(v: Verdict, flow: GradientFlow) -> str:
    if v.carry is None:
        slope = f"the slope of the activation, {slope_name(flow.activation)},"
        return f"{slope} multiplies it by {v.activation:.2f} per step, W_hh by {v.recurrent:.2f}"
    path = CARRIES[flow.cell.name][1]
    return f"{path} multiplies it by {v.carry:.2f} per step; the path through h and W_hh by {v.recurrent:.2f}"


def _main_cause(v: Verdict, flow: GradientFlow) -> str:
    does = "multiplies the gradient by"
    if v.cause == "carry":
        gates, path = CARRIES[flow.cell.name]
        return f"{gates}; {path} {does} {v.carry:.2f} per step"
    if v.cause == "recurrent":
        path = "W_hh" if v.carry is None else "the path through h and W_hh"
        return f"the recurrent weights; {path} {does} {v.recurrent:.2f} per step"
    name = flow.activation if isinstance(flow.activation, str) else ""
    shrinks = FLAT.get(name, "a flat activation")
    why = shrinks if v.kind == "vanishes" else "a steep activation"
    return f"{why}; {slope_name(flow.activation)} {does} {v.activation:.2f} per step"


def _other(v: Verdict, flow: GradientFlow) -> str:
    """What the factor or path that is not the main cause does."""
    if v.carry is not None:
        if v.cause == "recurrent":
            return _capital(f"{CARRIES[flow.cell.name][1]} multiplies it by {v.carry:.2f} per step")
        return f"The path through h and W_hh multiplies it by {v.recurrent:.2f} per step"
    slope = f"The slope of the activation, {slope_name(flow.activation)},"
    name, factor = ("W_hh", v.recurrent) if v.cause == "activation" else (slope, v.activation)
    if abs(factor - 1) < STEADY:
        does = "has little effect"
    else:
        does = "compensates for some of it" if (factor > 1) == (v.kind == "vanishes") else "adds to it"
    return f"{name} (×{factor:.2f} per step) {does}"


def _capital(words: str) -> str:
    return words[0].upper() + words[1:]


def _steps(count: int) -> str:
    return f"{count} step{'s' * (count != 1)}"


def _share(left: float) -> str:
    return f"{left:.0%}" if left < 2 else f"{left:.1f} times as much"
