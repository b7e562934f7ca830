"""Figures of units and of surprise along a text: pure functions from plain data to Plotly figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from elman.look.theme import QUIET, figure, go, visible
from elman.look.units import Ranking, Reading, UnitScore
from elman.maths.arrays import Array

WIDE = 80  # characters in a row of text
MOST = 1600  # tokens that a page of text shows
FEW = 240  # tokens that rows of units show
LOW_HIGH = [[0, "#d9583b"], [0.5, "rgba(128, 134, 150, 0.06)"], [1, "#3563d9"]]  # nothing in between: on light and dark


def unit_along_text(reading: Reading, unit: int, layer: int = 0) -> Any:
    """The text, each token in the color of the unit's state after it."""
    h = reading.h[layer, :, unit]
    words = [f"h = {value:+.3f} after “{visible(token)}”" for value, token in zip(h, reading.tokens, strict=True)]
    far = float(np.abs(h).max()) or 1.0
    bar = {"title": {"text": f"h of unit {unit}"}}
    return _text(reading.tokens, h, words, {"colorscale": LOW_HIGH, "cmin": -far, "cmax": far, "colorbar": bar})


def surprise_along_text(reading: Reading) -> Any:
    """The text, each token the darker the less the model expected it; what it considered instead under the pointer."""
    words = []
    for token, cost, others, chances in zip(
        reading.tokens, reading.surprise, reading.alternatives, reading.probabilities, strict=True
    ):
        listed = "<br>".join(f"{chance:6.1%}  {visible(other)}" for other, chance in zip(others, chances, strict=False))
        words.append(f"“{visible(token)}”: {cost:.2f} nats<br>considered<br>{listed}" if others else "the first token")
    bar = {"title": {"text": "nats"}}
    return _text(reading.tokens, reading.surprise, words, {"cmin": 0, "colorbar": bar})


def units_along_text(reading: Reading, units: Sequence[int], layer: int = 0, *, names: Sequence[str] = ()) -> Any:
    """Some units, a row each, over the first tokens of a text."""
    h = reading.h[layer, :FEW][:, list(units)].T  # (units, T)
    tokens = [visible(token) for token in reading.tokens[:FEW]]
    far = float(np.abs(h).max()) or 1.0
    heatmap = go.Heatmap(
        z=h.astype(np.float32),
        y=list(names) or [f"unit {unit}" for unit in units],
        text=[tokens] * len(h),
        colorscale=LOW_HIGH,
        zmin=-far,
        zmax=far,
        colorbar={"title": {"text": "h"}, "outlinewidth": 0, "thickness": 12},
        hovertemplate="%{y} after token %{x}, “%{text}”: h = %{z:.3f}<extra></extra>",
    )
    return figure([heatmap], x="token", y="", height=140 + 24 * len(h), x_showgrid=False, y_autorange="reversed")


def best_units(ranking: Ranking) -> Any:
    """For each feature the unit that tracks it best, with its score on the held-out part of the text."""
    rows = ranking.told()[::-1]
    traces = []
    for measure, name in (("AUC", "AUC, of yes or no: 0.5 is chance"), ("R²", "R², of numbers: 0 is chance")):
        here = [row for row in rows if row[1] == measure]
        traces.append(
            go.Bar(
                x=[max(best.score, 0.0) for _, _, best in here],
                y=[feature for feature, _, _ in here],
                text=[_told(best) for _, _, best in here],
                orientation="h",
                name=name,
                hovertemplate="%{y}: %{text}<extra></extra>",
                textposition="auto",
            )
        )
    chance = {"type": "line", "x0": 0.5, "x1": 0.5, "yref": "paper", "y0": 0, "y1": 1}
    return figure(
        traces,
        x="score on the part of the text that nothing was fitted to",
        y="",
        height=120 + 30 * len(rows),
        barmode="overlay",
        shapes=[{**chance, "line": {"color": QUIET, "dash": "dot"}}],
        x_range=[0, 1],
        y_categoryorder="array",
        y_categoryarray=[feature for feature, _, _ in rows],
    )


def _told(best: UnitScore) -> str:
    layer = f", layer {best.layer}" if best.layer else ""
    return f"unit {best.unit}{layer}, {'higher' if best.rises else 'lower'}: {best.score:.3f}"


def _text(tokens: Sequence[str], values: Array, words: Sequence[str], colors: dict[str, Any]) -> Any:
    """The first tokens in rows, like a page; a line of the text begins a row."""
    shown = [visible(token) for token in tokens[:MOST]]
    columns = max(1, WIDE // max(map(len, shown)))
    places, row, column = [], 0, 0
    for token in tokens[:MOST]:
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
    return figure(
        [heatmap], x="", y="", height=110 + 22 * height, coloraxis=colors,
        x_visible=False, y_visible=False, y_autorange="reversed",
    )  # fmt: skip
