"""What a gradient flow means, in plain words: it vanishes, is healthy or explodes; after how many steps; and why."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from elman.look.flow import GONE, GradientFlow, memory_horizon
from elman.maths.activations import ActivationLike
from elman.maths.arrays import Array

Kind = Literal["vanishes", "healthy", "explodes", "silent"]
Factor = Literal["activation", "recurrent"]
GROWN = 1 / GONE  # times the gradient at lag 0: more than this is an explosion
STEADY = 0.02  # a factor a step within this of 1 changes little

SLOPES = {"tanh": "diag(1 − h²)", "sigmoid": "diag(h(1 − h))", "relu": "diag(h > 0)", "identity": "diag(1)"}


@dataclass(frozen=True)
class Verdict:
    layer: int  # from 0
    kind: Kind
    lag: int | None  # steps back at which it has vanished or exploded
    horizon: int | None  # steps back until 1 % is left; None if that never happens in the text
    followed: int  # steps back over which it was followed
    factor: float  # that a step back multiplies the gradient's norm by, on average
    activation: float  # the part of it that is diag(f')
    recurrent: float  # the part of it that is W_hh
    responsible: Factor | None
    step: int | None  # k of the h[k] at which the responsible factor did most, over all losses
    words: str  # all of this, for people

    def __str__(self) -> str:
        return self.words


def verdict(flow: GradientFlow, layer: int = -1, *, reach: int | None = None) -> Verdict:
    """Judge one layer. reach: how far back a gradient is wanted, in training k2; unless given, as far as the text goes.

    Below 1 % of its size at lag 0 within the reach it vanishes, above 100 times it explodes, otherwise it is healthy.
    """
    layer %= flow.layers
    reach = min(reach or flow.steps, flow.steps)
    left = flow.by_lag(layer)[: reach + 1]
    if not 0 < left[0] < np.inf:
        return _nothing_to_follow(layer, flow)
    kind, lag = _crossing(left)
    followed = lag or reach
    activation, recurrent = (_mean_factor(factors[:followed]) for factors in flow.factors(layer))
    factor = float(left[followed] ** (1 / followed)) if np.isfinite(left[followed]) else activation * recurrent
    responsible: Factor | None = None
    if kind == "vanishes":
        responsible = "activation" if activation < recurrent else "recurrent"
    elif kind == "explodes":
        responsible = "activation" if activation > recurrent else "recurrent"
    step = _step(flow, layer, responsible, followed, kind) if responsible else None
    horizon = memory_horizon(flow, layer)
    facts = Verdict(layer, kind, lag, horizon, followed, factor, activation, recurrent, responsible, step, "")
    return replace(facts, words=_words(facts, flow, reach))


def verdicts(flow: GradientFlow, *, reach: int | None = None) -> list[Verdict]:
    """One for each layer, from the lowest."""
    return [verdict(flow, layer, reach=reach) for layer in range(flow.layers)]


def slope_name(activation: ActivationLike) -> str:
    """diag(f') of an activation, written in h."""
    return SLOPES.get(activation, "diag(f′)") if isinstance(activation, str) else "diag(f′)"


def _crossing(left: Array) -> tuple[Kind, int | None]:
    """Which of the two bounds is passed first, and at what lag."""
    over = (left < GONE) | (left > GROWN)
    if not over.any():
        return "healthy", None
    lag = int(np.argmax(over))
    return ("vanishes" if left[lag] < GONE else "explodes"), lag


def _mean_factor(factors: Array) -> float:
    """The geometric mean."""
    factors = factors[np.isfinite(factors)]
    with np.errstate(divide="ignore"):
        return float(np.exp(np.log(factors).mean())) if len(factors) else 1.0


def _step(flow: GradientFlow, layer: int, responsible: Factor, followed: int, kind: Kind) -> int | None:
    """The state h[k] at which the factor was smallest, or largest, for the losses up to so many steps away."""
    before, after = (flow.d_h, flow.d_a) if responsible == "activation" else (flow.d_a, flow.d_h_back)
    t, k = np.indices(flow.d_h[layer].shape)
    last = max(flow.steps + 1 - followed, 1)  # the last state that as many losses reach as any other
    near = (k >= 1) & (k <= min(last, flow.steps)) & (k <= t + 1) & (t + 1 - k < followed)
    sums = [np.where(near, norms[layer], 0.0).sum(axis=0)[1:] for norms in (before, after)]  # (T,) for k = 1..T
    with np.errstate(invalid="ignore", divide="ignore"):
        factors = sums[1] / sums[0]
    factors[~np.isfinite(factors)] = np.nan
    if np.isnan(factors).all():
        return None
    return 1 + int(np.nanargmin(factors) if kind == "vanishes" else np.nanargmax(factors))


def _nothing_to_follow(layer: int, flow: GradientFlow) -> Verdict:
    kind: Kind = "silent"
    words = "There is no gradient to follow: every loss of this text is 0, or its gradient on this layer is."
    if not np.isfinite(flow.losses).all():
        kind, words = "explodes", "The states themselves explode: they outgrow all numbers before the text ends."
    return Verdict(layer, kind, None, None, flow.steps, np.nan, np.nan, np.nan, None, None, words)


def _words(v: Verdict, flow: GradientFlow, reach: int) -> str:
    names = {"activation": slope_name(flow.activation), "recurrent": "the spectrum of W_hh"}
    factors = {"activation": v.activation, "recurrent": v.recurrent}
    if v.responsible is None:
        if v.horizon is None:
            left = flow.by_lag(v.layer)[: reach + 1]
            last = int(np.flatnonzero(np.isfinite(left))[-1])  # a loss that is exactly 0 tells nothing
            lasts = f"{_steps(last)} back, as far as this text shows, {_share(left[last])} of it arrives"
        else:
            lasts = f"it lasts for the {_steps(reach)} that are wanted; less than 1 % is left {_steps(v.horizon)} back"
        both = " and ".join(f"{name} (×{factors[factor]:.2f} a step)" for factor, name in names.items())
        return f"The gradient is healthy: {lasts}. {_capital(both)} keep it in balance."
    assert v.lag is not None
    what = {
        "vanishes": f"vanishes: {_steps(v.lag)} back less than 1 % of it is left",
        "explodes": f"explodes: {_steps(v.lag)} back it is more than 100 times as large",
    }[v.kind]
    other: Factor = "recurrent" if v.responsible == "activation" else "activation"
    if abs(factors[other] - 1) < STEADY:
        does = "does little"
    else:
        does = "makes up for some of it" if (factors[other] > 1) == (v.kind == "vanishes") else "adds to it"
    return (
        f"The gradient {what} (×{v.factor:.2f} a step). "
        f"Responsible is {names[v.responsible]}, ×{factors[v.responsible]:.2f} a step: {_why(v, flow.activation)}. "
        f"{_capital(names[other])}, ×{factors[other]:.2f}, {does}."
    )


def _why(v: Verdict, activation: ActivationLike) -> str:
    if v.responsible == "recurrent":
        return f"on average it {'shortens' if v.kind == 'vanishes' else 'lengthens'} what passes through it"
    flat = {
        "tanh": "the units are away from 0, where tanh is flat",
        "sigmoid": "a sigmoid is nowhere steeper than 1/4",
        "relu": "units that are off let nothing pass",
    }
    known = flat.get(activation) if isinstance(activation, str) and v.kind == "vanishes" else None
    return known or f"the activation is too {'flat' if v.kind == 'vanishes' else 'steep'}"


def _capital(words: str) -> str:
    return words if words.startswith("diag") else words[0].upper() + words[1:]


def _steps(count: int) -> str:
    return f"{count} step{'s' * (count != 1)}"


def _share(left: float) -> str:
    return f"{left:.0%}" if left < 2 else f"{left:.1f} times as much"
