"""The second half of the report: spectra, states, units, and the run that made the model."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from elman.look.figures_spectra import (
    eigenvalue_plane,
    gradient_norms,
    lyapunov_spectrum,
    saturation_along,
    singular_values,
    state_histogram,
)
from elman.look.figures_units import best_units, surprise_along_text, unit_along_text
from elman.look.flow_verdict import slope_name
from elman.look.page import Page, formula, layer_name, pair
from elman.look.report_data import Examination
from elman.maths.arrays import Array

SCALED = 300  # pixels of height
GOOD = 0.2  # of the way from chance to perfect: a unit below it tracks nothing


def spectra(page: Page, seen: Examination) -> None:
    page.add("<h2>Spectra</h2>")
    page.add(
        "<p>A step Jacobian says what a small change of one state becomes in the next. Along a direction with a "
        "singular value below 1 a change dies out, above 1 it grows. Thin lines: the highest and the lowest of "
        "all steps.</p>"
    )
    page.add(formula(f"∂h[t+1]/∂h[t]  =  W_hh @ {slope_name(seen.flow.activation).replace('h', 'h[t+1]')}"))
    for number, layer in reversed(list(enumerate(seen.spectra))):
        W_hh, steps = layer.W_hh, layer.jacobians.spectra
        more = f", {layer_name(number)}" * (len(seen.spectra) > 1)
        radii = f"The largest modulus is {float(W_hh.radius):.2f} for W_hh, {_of_steps(steps.radius)}."
        largest = f"The largest is {W_hh.singular[0]:.2f} for W_hh, {_of_steps(steps.singular[:, 0])}."
        page.add(
            pair(
                page.figure(eigenvalue_plane(W_hh, layer.jacobians), "Eigenvalues" + more, radii),
                page.figure(singular_values(W_hh, layer.jacobians), "Singular values" + more, largest),
            )
        )
    exponents = {layer_name(number): layer.lyapunov for number, layer in enumerate(seen.spectra)}
    top = max(float(values[0]) for values in exponents.values())
    note = (
        f"The largest is {top:+.3f} nats a step: two states that differ a little "
        f"{'come together' if top < 0 else 'drift apart'}, ×{np.exp(top):.2f} a step."
    )
    page.add(page.figure(lyapunov_spectrum(exponents), "Lyapunov exponents on this text", note))


def _of_steps(values: Array) -> str:
    return f"{values.mean():.2f} for a Jacobian in the mean, {values.max():.2f} at most"


def states(page: Page, seen: Examination) -> None:
    found = {layer_name(number): layer.saturation for number, layer in enumerate(seen.spectra)}
    page.add("<h2>The states</h2>")
    page.add(
        "<p>A unit whose slope is below a tenth of what it is at 0 is saturated: it holds its value, and lets hardly "
        "any gradient pass.</p>"
    )
    histogram = page.figure(state_histogram(found), "What values the units take")
    page.add(pair(histogram, page.figure(saturation_along(found, seen.tokens), "Saturated units along the text")))


def units(page: Page, seen: Examination) -> None:
    reading, ranking = seen.reading, seen.ranking
    page.add("<h2>Surprise</h2>")
    page.add(
        f"<p>The stronger the color, the less the model expected the {seen.token}. Point at one to see what it "
        "considered instead.</p>"
    )
    page.add(page.figure(_text(surprise_along_text(reading)), wide=True))
    page.add("<h2>Units</h2>")
    if ranking is None:
        page.add("<p>The text is too short to say what units track: some thousand characters are enough.</p>")
        return
    page.add(
        f"<p>Which unit tracks what. Each was fitted and chosen on the first {ranking.fitted:,} tokens of the text "
        f"and judged on the {ranking.judged:,} after them.</p>"
    )
    page.add(page.figure(best_units(ranking), "The best unit for each feature"))
    feature, measure, best = ranking.told()[0]
    if (2 * best.score - 1 if measure == "AUC" else best.score) > GOOD:
        title = f"Unit {best.unit}" + f" of {layer_name(best.layer)}" * (len(seen.spectra) > 1)
        told = f"{escape(feature)}: {measure} {best.score:.3f}."
        note = f"{told} Each {seen.token} has the color of the unit's state after it."
        page.add(
            page.figure(_text(unit_along_text(reading, best.unit, best.layer), diverging=True), title, note, wide=True)
        )


def training(page: Page, seen: Examination) -> None:
    if seen.history is None or not seen.history.total:
        return
    page.add("<h2>The training run</h2>")
    note = "Before clipping." + " This run did not record them by parameter." * (not seen.history.parameters)
    page.add(page.figure(gradient_norms(seen.history, clip_norm=seen.clipping.clip_norm), "Gradient norms", note))


def _text(fig: Any, *, diverging: bool = False) -> Any:
    """A few rows of text have no room for a scale beside them; what lies around 0 is to have the page's own color."""
    fig.update_layout(meta={"diverging": diverging})
    if fig.layout.height < SCALED:
        fig.update_layout(coloraxis_showscale=False)
    return fig
