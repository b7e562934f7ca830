"""The report of an analysis: one HTML file that opens offline, light or dark; a notebook displays it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from elman.look.analysis import Analysis, examine
from elman.look.attributions import Attribution, attribution
from elman.look.figures import (
    MOST_ROWS,
    attribution_along_text,
    best_units,
    eigenvalue_plane,
    flow_by_lag,
    flow_factors,
    flow_heatmap,
    gates_along_text,
    gradient_norms,
    lyapunov_spectrum,
    saturation_along,
    singular_values,
    state_histogram,
    surprise_along_text,
    unit_along_text,
)
from elman.look.flow import Progress
from elman.look.flow_verdict import Verdict, slope_name
from elman.look.page import Page, card, formula, layer_name, pair, tiles
from elman.look.theme import visible
from elman.look.traces import CARRY_GATES, STEPS
from elman.maths.arrays import Array
from elman.maths.cells import Cell
from elman.models import LanguageModel
from elman.models.predictors import Predictor
from elman.training.storage import write_file

FOOTER = "<footer>Made by Elman. This file is self-contained: it opens offline and sends nothing.</footer>"
EXCERPT = 60  # characters of the text in the title
GOOD = 0.2  # 0 is chance, 1 is perfect; the text is not colored by a unit with a lower score
JACOBIANS = {  # of a step, by cell
    "gru": "∂h[t+1]/∂h[t]  =  diag(z) + (the part through the gates and W_hh)",
    "lstm": "∂c[t+1]/∂c[t]  =  diag(f)\nderivatives with respect to h[t]: through the gates and W_hh",
}
PATHS = {"gru": ("directly, by z", "through W_hh"), "lstm": ("along c, by f", "through h and W_hh")}


@dataclass(frozen=True, eq=False, repr=False)
class Report:
    """A report on a model and a text; a notebook displays it.

    Attributes
    ----------
    analysis : Analysis or Attribution
        Its content: an Analysis of a language model, an Attribution of another model.
    name : str
        The name of the model, for the title if `analysis` is an Attribution; an Analysis has its own.
    """

    analysis: Analysis | Attribution
    name: str = "model"

    def __repr__(self) -> str:
        return repr(self.analysis).replace("<Analysis of", "<Report on", 1).replace("<Attribution", "<Report", 1)

    def _repr_html_(self) -> str:
        page = escape(self.html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:820px;border:0" title="report"></iframe>'

    def html(self) -> str:
        """The whole page as HTML, self-contained."""
        seen = self.analysis
        if isinstance(seen, Attribution):
            page = Page(f"{self.name}: report")
            _attribution(page, seen, self.name)
            page.add(FOOTER)
            return page.html()
        page = Page(f"{seen.name}: report")
        parts: tuple[Callable[[Page, Analysis], None], ...]
        parts = (_head, _verdicts, _reach, _flow, _gates, _spectra, _states, _surprise, _units, _training)
        for part in parts:
            part(page, seen)
        page.add(FOOTER)
        return page.html()

    def save(self, path: str | Path) -> None:
        """Write the page to a file.

        Parameters
        ----------
        path : str or Path
            The file.
        """
        write_file(Path(path), self.html().encode())


def report(
    model: LanguageModel | Predictor, text: Any, *, steps: int = STEPS, progress: Progress | None = None
) -> Report:
    """Analyze how a model reads a text, as a page: a notebook displays it, ``save(path)`` writes it.

    Parameters
    ----------
    model : LanguageModel, SequenceClassifier, SequenceRegressor or SequenceTagger
        A fitted model.
    text : str, ndarray of ids, or a sequence as in training
        The text or sequence to analyze.
    steps : int
        The maximum number of steps that are analyzed, for a language model; units and surprise have their own
        maximum (see `examine`).
    progress : callable, optional
        Called with the name of the task, the number of parts that are done, and the number of all parts.

    Returns
    -------
    Report
        Its attribute `analysis` is the data.

    Examples
    --------
    >>> from elman import LanguageModel, look
    >>> model = LanguageModel(hidden=8, steps=1).fit("the cat sat on the mat. " * 20, listeners=[])
    >>> look.report(model, "the cat sat on").html().startswith("<!DOCTYPE html>")
    True
    """
    if isinstance(model, Predictor):
        run = model.run_
        return Report(attribution(model, text), "model" if run is None else run.path.resolve().name)
    return Report(examine(model, text, steps=steps, progress=progress))


def _attribution(page: Page, seen: Attribution, name: str) -> None:
    """The contribution of each token to the prediction."""
    text = " ".join(token.strip() for token in seen.tokens) if max(map(len, seen.tokens)) > 1 else "".join(seen.tokens)
    start = text if len(text) <= EXCERPT else text[:EXCERPT].rsplit(" ", 1)[0] + " …"
    page.add(
        f'<header><div><p class="eyebrow">Report on {escape(name)}</p><h1>“{escape(start)}”</h1></div>'
        '<button class="theme" type="button">Dark</button></header>'
    )
    several = len(seen.targets) > 1
    title = f"Tokens that contribute most to the {'first tag' if several else 'prediction'}"
    page.add(card(f"<h3>{title}</h3><p>{escape(seen.words)}.</p>"))
    if seen.score_name == "log-odds":
        effect, score = "Blue tokens support the prediction, orange ones oppose it.", "its log-odds are, in nats,"
    else:
        effect, score = "Blue tokens increase the predicted value, orange ones decrease it.", "it is"
    page.add(
        f"<p>{effect} <b>Left out</b>: how much lower {score} without the token. <b>Gradient × input</b>: the "
        "first-order estimate of the same. If the two disagree, the first is more reliable.</p>"
    )
    for by, title in (("left_out", "Left out"), ("gradient", "Gradient × input")):
        fig = attribution_along_text(seen, by=by)
        fig.update_layout(meta={"diverging": True})
        page.add(page.figure(fig, title, wide=True))


def _head(page: Page, seen: Analysis) -> None:
    text = "".join(seen.tokens).strip()
    start = text if len(text) <= EXCERPT else text[:EXCERPT].rsplit(" ", 1)[0] + " …"
    facts = "".join(f"<li>{escape(name)}: {escape(fact)}</li>" for name, fact in seen.facts.items())
    page.add(
        f'<header><div><p class="eyebrow">Report on {escape(seen.name)}</p><h1>“{escape(start)}”</h1>'
        f'<ul class="facts">{facts}</ul></div><button class="theme" type="button">Dark</button></header>'
    )
    if seen.unread:
        page.add(
            f'<p class="note">Gradients, spectra, gates and saturation are those of the first {seen.flow.steps} steps '
            f"of the text, after which {seen.unread:,} tokens follow.</p>"
        )


def _verdicts(page: Page, seen: Analysis) -> None:
    for v in reversed(seen.verdicts):
        horizon, unit = "–", "the gradient stays above 1 % in this text"
        if v.horizon is not None:
            horizon, unit = str(v.horizon), "steps: the memory horizon"
        elif np.isnan(v.factor):
            unit = "there is no gradient" if v.kind == "silent" else "the states overflow"
        name = f" · {layer_name(v.layer)}" if len(seen.verdicts) > 1 else ""
        where = f'<p class="note">{escape(place(v, seen))}</p>' if v.step else ""
        page.add(card(
            f'<div><div class="number">{horizon}</div><div class="unit">{unit}</div></div>'
            f'<div><span class="badge">{v.kind}{name}</span><p>{escape(v.words)}</p>{where}</div>', f"verdict {v.kind}"
        ))  # fmt: skip
    v, layer = seen.verdicts[-1], seen.layers[-1]
    more = f" ({layer_name(v.layer)})" * (len(seen.verdicts) > 1)
    factors = {} if np.isnan(v.factor) else {f"per step: the factor of the gradient's norm{more}": f"×{v.factor:.2f}"}
    if factors and v.carry is None:
        slope = slope_name(seen.flow.activation)
        factors[f"per step: the slope of the activation, {slope}{more}"] = f"×{v.activation:.2f}"
        factors[f"per step: W_hh{more}"] = f"×{v.recurrent:.2f}"
    elif factors:
        carry, through = PATHS[seen.flow.cell.name]
        factors[f"per step on the path {carry}{more}"] = f"×{v.carry:.2f}"
        factors[f"per step on the path {through}{more}"] = f"×{v.recurrent:.2f}"
    saturated = float(np.mean([found.share for found in layer.saturation.values()]))
    what = "gates" if seen.flow.cell.gates > 1 else "units"
    page.add(tiles({
        **factors,
        f"nats per step: the largest Lyapunov exponent{more}": f"{float(layer.lyapunov[0]):+.2f}",
        f"of the {what} are saturated{more}": f"{100 * saturated:.0f} %",
        "nats per token: the loss on this text": f"{float(seen.flow.losses.mean()):.2f}",
    }))  # fmt: skip


def _state(cell: Cell) -> str:
    """The name of the state: s stands for h and c together."""
    return "s" if cell.parts > 1 else "h"


def place(v: Verdict, seen: Analysis) -> str:
    """The place in the text where the main cause has the largest effect, in words."""
    if v.step is None:
        return ""
    before = "…" * (v.step > 12) + visible("".join(seen.tokens[max(v.step - 12, 0) : v.step]))
    return f"The effect is largest at state {_state(seen.flow.cell)}[{v.step}], after “{before}”."


def _reach(page: Page, seen: Analysis) -> None:
    """The text with a slider: how far back the gradient of the loss of each token reaches."""
    norms = np.nan_to_num(seen.flow.norms[-1], posinf=np.finfo(np.float64).max)
    most = np.maximum(norms.max(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    rows = (1000 * (norms / most)).round(1)  # divided first: 1000 times the largest number would overflow
    name = page.data({
        "reach": [row[: t + 2].tolist() for t, row in enumerate(rows)],
        "losses": [round(float(loss), 4) for loss in seen.flow.losses],
    })  # fmt: skip
    letters = "".join(f'<span data-token="{escape(visible(token))}">{escape(token)}</span>' for token in seen.tokens)
    last = len(seen.tokens) - 1
    page.add(f"<h2>How far back does the gradient of one {seen.token}'s loss reach?</h2>")
    page.add(
        f"<p>Point at a {seen.token}, or move the slider. The stronger the color of an earlier {seen.token}, the "
        "larger the gradient on the state after it.</p>"
    )
    page.add(
        f'<div class="card reach" data-from="{name}"><div class="text">{letters}</div>'
        f'<input type="range" min="1" max="{last}" value="{max(last * 2 // 3, 1)}" aria-label="{seen.token}">'
        "<output></output></div>"
    )


def _flow(page: Page, seen: Analysis) -> None:
    flow, cell = seen.flow, seen.flow.cell
    page.add("<h2>Gradient flow</h2>")
    if cell.gates == 1:
        slope = slope_name(flow.activation)
        page.add(
            "<p>A loss can teach the network about an earlier step only if its gradient reaches that step. One step "
            "back in time multiplies it by two factors: the slopes of the units, and the recurrent weights.</p>"
        )
        page.add(formula(f"∂L[t]/∂h[k-1]  =  ∂L[t]/∂h[k] @ diag({slope.replace('h', 'h[k]')}) @ W_hh.T"))
    else:
        carry, through = PATHS[cell.name]
        page.add(
            "<p>A loss can teach the network about an earlier step only if its gradient reaches that step. In a gated "
            f"cell it has two paths back: {carry}, and {through}.</p>"
        )
        page.add(formula(BACK[cell.name]))
    if flow.layers > 1:
        page.add("<p>A lower layer also gets gradients from the layer above it.</p>")
    state = _state(cell)
    for layer in reversed(range(flow.layers)):
        title = f"The norm of ∂L[t]/∂{state}[k]" + f", {layer_name(layer)}" * (flow.layers > 1)
        note = "A row is a loss. At its right end is the state from which it is computed; further left is longer ago."
        if cell.parts > 1:
            note += " s is h and c together."
        page.add(page.figure(flow_heatmap(flow.norms[layer], seen.tokens, state), title, note))
    names = {layer_name(v.layer) if flow.layers > 1 else "gradient": v for v in reversed(seen.verdicts)}
    left = {name: flow.by_lag(v.layer) for name, v in names.items()}
    curves = page.figure(
        flow_by_lag(left, horizons={name: v.horizon for name, v in names.items()}),
        "How much is left",
        "The mean over all losses, relative to lag 0. The network learns hardly anything from less than 1 %.",
    )
    more = f", {layer_name(flow.layers - 1)}" * (flow.layers > 1)
    if cell.gates == 1:
        activation, recurrent = flow.factors(-1)
        factors = page.figure(
            flow_factors({slope_name(flow.activation): activation, "W_hh": recurrent}),
            "The two factors" + more,
            f"{slope_name(flow.activation)} and W_hh, at each step back.",
        )
    else:
        paths = dict(zip(PATHS[cell.name], ("carry", "recurrent"), strict=True))
        factors = page.figure(
            flow_by_lag({"all paths": flow.by_lag(-1), **{n: flow.by_lag(-1, path=p) for n, p in paths.items()}}),
            "The two paths" + more,
            "The gradient along each path only, and along all paths, including those that mix both.",
        )
    page.add(pair(curves, factors))
    page.add(_clipping(seen))


BACK = {  # one step back in time, by cell
    "gru": "∂L[t]/∂h[k-1]  =  ∂L[t]/∂h[k] ⊙ z  +  ∂L[t]/∂a_h @ W_hh.T",
    "lstm": "∂L[t]/∂c[k-1]  =  ∂L[t]/∂c[k] ⊙ f\n∂L[t]/∂h[k-1]  =  ∂L[t]/∂a @ W_hh.T",
}


def _clipping(seen: Analysis) -> str:
    c, done = seen.clipping, seen.clipped
    if not c.clip_norm:
        return card("<h3>Gradient clipping</h3><p>This run does not clip gradients by their norm.</p>")
    does = f"multiplies it by {c.scale:.2f}" if c.scale < 1 else "leaves it unchanged"
    words = [
        f"The gradient of the first window of this text has norm {c.norm:.2f}; the maximum is {c.clip_norm:g}, so "
        f"clipping {does}."
    ]
    if done is not None and done.steps:
        to = f", to {done.scale:.2f} of their norm on average" if done.clipped else ""
        words.append(
            f"In training, where a gradient is the mean over a batch, {done.clipped} of {done.steps} logged "
            f"steps were clipped{to}."
        )
    words.append("Clipping scales all lags alike: it limits explosions, and does not help against vanishing.")
    return card(f"<h3>Gradient clipping</h3><p>{' '.join(words)}</p>")


def _gates(page: Page, seen: Analysis) -> None:
    """The gates along the text, as heat maps."""
    cell = seen.flow.cell
    if cell.gates == 1:
        return
    carry = CARRY_GATES[cell.name]
    page.add("<h2>Gates along the text</h2>")
    page.add(
        f"<p>A gate at 1 is open, at 0 closed. Where {carry} stays near 1, the state and its gradient are kept; "
        "where it closes, the network forgets.</p>"
    )
    for number, layer in reversed(list(enumerate(seen.layers))):
        more = f", {layer_name(number)}" * (len(seen.layers) > 1)
        mean = float(layer.gates[carry].mean())
        page.add(
            page.figure(
                gates_along_text(layer.gates, seen.tokens),
                "Mean over all units" + more,
                f"{carry} is {mean:.2f} on average.",
            )
        )
        units = layer.gates[carry].shape[1]
        rows, note = "a row for each unit", "The most open units first."
        if units > MOST_ROWS:
            rows = f"{MOST_ROWS} of {units} units"
            note = "From the most open unit to the least open one, at even distances in this order."
        drawn = gates_along_text(layer.gates, seen.tokens, gate=carry)
        page.add(page.figure(drawn, f"Gate {carry}, {rows}{more}", note))


def _spectra(page: Page, seen: Analysis) -> None:
    cell, several = seen.flow.cell, len(seen.layers) > 1
    page.add("<h2>Spectra</h2>")
    page.add(
        "<p>A step Jacobian says how a small change of one state changes the next. Along a direction with a "
        "singular value below 1 a change shrinks, above 1 it grows. The figures show Jacobians of "
        f"{len(seen.layers[0].jacobians.steps)} steps, spread over the text; thin lines are their highest and lowest "
        "values.</p>"
    )
    slope = slope_name(seen.flow.activation).replace("h", "h[t+1]")
    page.add(formula(JACOBIANS.get(cell.name, f"∂h[t+1]/∂h[t]  =  W_hh @ diag({slope})")))
    for number, layer in reversed(list(enumerate(seen.layers))):
        blocks, steps = layer.recurrent, layer.jacobians.spectra
        more = f", {layer_name(number)}" * several
        radii = ", ".join(f"{float(block.radius):.2f} for {name}" for name, block in blocks.items())
        norms = ", ".join(f"{block.singular[0]:.2f} for {name}" for name, block in blocks.items())
        radius_note = f"The largest modulus is {radii}, {_of_steps(steps.radius)}. The circle has radius 1."
        norm_note = f"The largest is {norms}, {_of_steps(steps.singular[:, 0])}."
        page.add(
            pair(
                page.figure(eigenvalue_plane(blocks, layer.jacobians), "Eigenvalues" + more, radius_note),
                page.figure(singular_values(blocks, layer.jacobians), "Singular values" + more, norm_note),
            )
        )
    exponents = {layer_name(number): layer.lyapunov for number, layer in enumerate(seen.layers)}
    top = max(float(values[0]) for values in exponents.values())
    note = (
        f"The largest is {top:+.3f} nats per step: two states that differ a little "
        f"{'converge' if top < 0 else 'diverge'}, ×{np.exp(top):.2f} per step."
    )
    page.add(page.figure(lyapunov_spectrum(exponents), "Lyapunov exponents on this text", note))


def _of_steps(values: Array) -> str:
    return f"{values.mean():.2f} for a step Jacobian on average, {values.max():.2f} at most"


def _states(page: Page, seen: Analysis) -> None:
    gated = seen.flow.cell.gates > 1
    found = {
        (layer_name(number) if name == "h" else name + f", {layer_name(number)}" * (len(seen.layers) > 1)): saturation
        for number, layer in enumerate(seen.layers)
        for name, saturation in layer.saturation.items()
    }
    what = "gate" if gated else "unit"
    page.add(f"<h2>{'Gates and saturation' if gated else 'States and saturation'}</h2>")
    page.add(
        f"<p>A {what} whose slope is below a tenth of the slope at 0 is saturated: its value hardly changes, and it "
        "lets hardly any gradient through.</p>"
    )
    histogram = page.figure(state_histogram(found), f"Values of the {what}s")
    page.add(pair(histogram, page.figure(saturation_along(found, seen.tokens), f"Saturated {what}s along the text")))


def _surprise(page: Page, seen: Analysis) -> None:
    page.add("<h2>Surprise</h2>")
    page.add(
        f"<p>The stronger the color, the less the model expected the {seen.token}. Point at one to see which "
        "were most probable.</p>"
    )
    page.add(page.figure(surprise_along_text(seen.reading), wide=True))


def _units(page: Page, seen: Analysis) -> None:
    reading, ranking = seen.reading, seen.ranking
    page.add("<h2>Units</h2>")
    if ranking is None:
        page.add("<p>The text is too short to rank units: a few thousand characters are enough.</p>")
        return
    page.add(
        f"<p>Which unit tracks which feature of the text. Each unit was fitted and chosen on the first "
        f"{ranking.fitted:,} tokens of the text, and scored on the {ranking.judged:,} after them. Higher: the unit is "
        "higher where the feature is present or larger; lower: it is lower there.</p>"
    )
    page.add(page.figure(best_units(ranking), "The best unit for each feature"))
    feature, measure, best = ranking.by_feature()[0]
    if (2 * best.score - 1 if measure == "AUC" else best.score) > GOOD:
        title = f"Unit {best.unit}" + f" of {layer_name(best.layer)}" * (len(seen.layers) > 1)
        title += f", {best.state}" * (len(reading.state_names) > 1)
        score = f"{escape(feature)}: {measure} {best.score:.3f}."
        note = f"{score} Each {seen.token} has the color of the unit's state after it."
        fig = unit_along_text(reading, best.unit, best.layer, state=best.state)
        fig.update_layout(meta={"diverging": True})  # around 0 it takes the color of the page
        page.add(page.figure(fig, title, note, wide=True))


def _training(page: Page, seen: Analysis) -> None:
    if seen.history is None or not seen.history.total:
        return
    page.add("<h2>The training run</h2>")
    note = "Before clipping by norm." + " This run did not record them by parameter." * (not seen.history.parameters)
    page.add(page.figure(gradient_norms(seen.history, clip_norm=seen.clipping.clip_norm), "Gradient norms", note))
