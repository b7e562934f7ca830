"""The report of an examination: one HTML file that opens offline, light and dark."""

from __future__ import annotations

from html import escape

import numpy as np

from elman.look.figures import flow_by_lag, flow_factors, flow_heatmap
from elman.look.flow_verdict import Verdict, slope_name
from elman.look.page import Page, card, formula, layer_name, pair, tiles
from elman.look.report_data import Examination
from elman.look.report_more import spectra, states, training, units
from elman.look.theme import visible

EXCERPT = 60  # characters of the text in the title


def report_html(seen: Examination) -> str:
    """The whole page."""
    page = Page(f"{seen.name}: a look inside")
    for part in (_head, _verdicts, _reach, _flow, spectra, states, units, training):
        part(page, seen)
    page.add(
        "<footer>Made by Elman. Everything is in this file: it opens without a network and sends nothing.</footer>"
    )
    return page.html()


def _head(page: Page, seen: Examination) -> None:
    text = "".join(seen.tokens).strip()
    start = text if len(text) <= EXCERPT else text[:EXCERPT].rsplit(" ", 1)[0] + " …"
    facts = "".join(f"<li>{escape(name)}: {escape(fact)}</li>" for name, fact in seen.facts.items())
    page.add(
        f'<header><div><p class="eyebrow">A look inside {escape(seen.name)}</p><h1>“{escape(start)}”</h1>'
        f'<ul class="facts">{facts}</ul></div><button class="theme" type="button">Dark</button></header>'
    )
    if seen.unread:
        page.add(f'<p class="note">The first {seen.flow.steps} steps of the text are followed; {seen.unread:,} tokens '
                 "after them are not.</p>")  # fmt: skip


def _verdicts(page: Page, seen: Examination) -> None:
    for v in reversed(seen.verdicts):
        horizon = "–" if v.horizon is None else str(v.horizon)
        unit = "steps: the memory horizon" if v.horizon is not None else "the 1 % mark is never reached in this text"
        name = f" · {layer_name(v.layer)}" if len(seen.verdicts) > 1 else ""
        where = f'<p class="note">{escape(place(v, seen.tokens))}</p>' if v.step else ""
        page.add(card(
            f'<div><div class="number">{horizon}</div><div class="unit">{unit}</div></div>'
            f'<div><span class="badge">{v.kind}{name}</span><p>{escape(v.words)}</p>{where}</div>', f"verdict {v.kind}"
        ))  # fmt: skip
    v, layer = seen.verdicts[-1], seen.spectra[-1]
    more = f" ({layer_name(v.layer)})" * (len(seen.verdicts) > 1)
    page.add(tiles({
        f"is what a step back multiplies the gradient by{more}": f"×{v.factor:.2f}",
        f"of it is {slope_name(seen.flow.activation)}{more}": f"×{v.activation:.2f}",
        f"of it is W_hh{more}": f"×{v.recurrent:.2f}",
        f"nats a step: the largest Lyapunov exponent{more}": f"{float(layer.lyapunov[0]):+.2f}",
        f"of all units are saturated{more}": f"{100 * layer.saturation.share:.0f} %",
        "nats a token: the loss on this text": f"{float(seen.flow.losses.mean()):.2f}",
    }))  # fmt: skip


def place(v: Verdict, tokens: tuple[str, ...]) -> str:
    """Where in the text the responsible factor did most, in words."""
    if v.step is None:
        return ""
    before = "".join(tokens[max(v.step - 12, 0) : v.step])
    return f"It acts most at h[{v.step}], after “{'…' * (v.step > 12)}{visible(before)}”."


def _reach(page: Page, seen: Examination) -> None:
    """The text, in which each letter shows how far back its loss reaches."""
    d_h = np.nan_to_num(seen.flow.d_h[-1], posinf=np.finfo(np.float64).max)
    most = np.maximum(d_h.max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    rows = (1000 * (d_h / most)).round(1)  # divided first: 1000 times the largest number is none
    name = page.data({
        "reach": [row[: t + 2].tolist() for t, row in enumerate(rows)],
        "losses": [round(float(loss), 4) for loss in seen.flow.losses],
    })  # fmt: skip
    letters = "".join(f'<span data-token="{escape(visible(token))}">{escape(token)}</span>' for token in seen.tokens)
    last = len(seen.tokens) - 1
    page.add(f"<h2>How far back does a {seen.token} look?</h2>")
    page.add(
        f"<p>Point at a {seen.token}, or move the slider. Those before it from which it can still learn light up: the "
        "stronger, the more of its gradient arrives there.</p>"
    )
    page.add(
        f'<div class="card reach" data-from="{name}"><div class="text">{letters}</div>'
        f'<input type="range" min="1" max="{last}" value="{max(last * 2 // 3, 1)}" aria-label="{seen.token}">'
        "<output></output></div>"
    )


def _flow(page: Page, seen: Examination) -> None:
    flow, slope = seen.flow, slope_name(seen.flow.activation)
    page.add("<h2>Gradient flow</h2>")
    page.add("<p>Training changes a state only as far as a loss can feel it. One step back in time, the gradient of a "
             "loss is multiplied by two things: the slopes of the units, and the recurrent weights.</p>")  # fmt: skip
    page.add(formula(f"∂L[t]/∂h[k-1]  =  ∂L[t]/∂h[k] @ {slope.replace('h', 'h[k]')} @ W_hh.T"))
    if flow.layers > 1:
        page.add("<p>To this a layer adds what the layer above it hands down.</p>")
    for layer in reversed(range(flow.layers)):
        title = "The norm of ∂L[t]/∂h[k]" + f", {layer_name(layer)}" * (flow.layers > 1)
        note = "A row is a loss. Its own state is at the right end of the row; going left is going back in time."
        page.add(page.figure(flow_heatmap(flow.d_h[layer], seen.tokens), title, note))
    names = {layer_name(v.layer) if flow.layers > 1 else "gradient": v for v in reversed(seen.verdicts)}
    left = {name: flow.by_lag(v.layer) for name, v in names.items()}
    curves = page.figure(
        flow_by_lag(left, horizons={name: v.horizon for name, v in names.items()}),
        "What is left of it",
        "The mean over all losses, against lag 0. What is below 1 % teaches nothing.",
    )
    factors = page.figure(
        flow_factors(*flow.factors(-1), slope=slope),
        "What multiplies it" + f", {layer_name(flow.layers - 1)}" * (flow.layers > 1),
        f"{slope} and W_hh, each step back.",
    )
    page.add(pair(curves, factors))
    page.add(_clipping(seen))


def _clipping(seen: Examination) -> str:
    c, done = seen.clipping, seen.clipped
    if not c.clip_norm:
        return card("<h3>Clipping</h3><p>This run lets every gradient pass as it is.</p>")
    does = f"multiplies it by {c.scale:.2f}" if c.scale < 1 else "leaves it alone"
    words = [
        f"The gradient of this text's first window has norm {c.norm:.2f}; the longest allowed is {c.clip_norm:g}, so "
        f"clipping {does}."
    ]
    if done is not None and done.steps:
        to = f", to {done.scale:.2f} of their length on average" if done.clipped else ""
        words.append(
            f"In training, where a gradient is the mean over many lanes of text, {done.clipped} of {done.steps} logged "
            f"steps were clipped{to}."
        )
    words.append("Clipping scales every lag alike: it tames an explosion, and cures no vanishing.")
    return card(f"<h3>What clipping did</h3><p>{' '.join(words)}</p>")
