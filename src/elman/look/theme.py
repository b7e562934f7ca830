"""Plotly (extra: look), and the style of all figures: one template for light pages, one for dark ones.

Figures use the colors of the template, so that a page can switch between light and dark by changing the template only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from elman.errors import MissingExtraError

try:
    import plotly.graph_objects as go
except ImportError:
    raise MissingExtraError("Figures need plotly", do="Install it: pip install 'elman[look]'") from None

__all__ = ["COLORS", "FONT", "QUIET", "figure", "go", "level", "template", "visible"]

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'DejaVu Sans', sans-serif"
QUIET = "rgba(128, 134, 150, 0.75)"  # color of guide lines, visible on light and on dark

#            background text       grid                        curves                        color scale
COLORS = {
    "light": ("#ffffff", "#283044", "rgba(40, 48, 68, 0.10)",
              ["#3563d9", "#d9583b", "#7c4dc4", "#b17a10", "#23896b", "#64708a", "#0f86a5", "#b0427f"],
              ["#f3f5fa", "#d3e2f8", "#8fb8ee", "#3f77d4", "#24418f", "#131f4a"]),
    "dark": ("#171b26", "#d5dbea", "rgba(213, 219, 234, 0.12)",
             ["#86a8ff", "#ff8f70", "#bf9fff", "#ecbb5f", "#5ccfa6", "#9ba7bf", "#5cc5e3", "#f08cc0"],
             ["#1c2230", "#22345e", "#2f5cae", "#5b97ec", "#a8d3ff", "#fff4cf"]),
}  # fmt: skip


class Figure(go.Figure):  # type: ignore[misc]
    """A figure that is visible in an exported notebook: Plotly's script is part of the first output."""

    def _ipython_display_(self) -> None:
        import plotly.io as pio
        from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

        notebook = pio.renderers["notebook"]
        if not _LOADED:
            notebook.activate()
            _LOADED.append(True)
        plain = self.to_dict()
        bundle = {**pio.renderers["plotly_mimetype"].to_mimebundle(plain), **notebook.to_mimebundle(plain)}
        display(bundle, raw=True)  # type: ignore[no-untyped-call,unused-ignore]


_LOADED: list[bool] = []  # not empty once Plotly's script is in an output


def template(name: str) -> Any:
    """The template "light" or "dark"."""
    paper, ink, grid, colorway, scale = COLORS[name]
    axis = {"gridcolor": grid, "linecolor": grid, "zerolinecolor": grid, "tickcolor": grid, "automargin": True}
    steps = [[i / (len(scale) - 1), color] for i, color in enumerate(scale)]
    return go.layout.Template(
        layout={
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"family": FONT, "size": 13, "color": ink},
            "colorway": colorway,
            "colorscale": {"sequential": steps, "diverging": [[0, "#cf5638"], [0.5, paper], [1, "#3563d9"]]},
            "coloraxis": {"colorscale": steps, "colorbar": {"outlinewidth": 0, "thickness": 12, "ticklen": 4}},
            "xaxis": axis,
            "yaxis": axis,
            "hoverlabel": {"bgcolor": paper, "bordercolor": grid, "font": {"family": FONT, "color": ink}},
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom"},
            "margin": {"l": 60, "r": 20, "t": 40, "b": 50},
            "hovermode": "closest",
        }
    )


def figure(
    traces: list[Any], *, x: str, y: str, height: int = 360, levels: Sequence[dict[str, Any]] = (), **layout: Any
) -> Any:
    """A figure with titled axes and the light template. Options of Plotly's axes are named x_… and y_…."""
    axes: dict[str, dict[str, Any]] = {"x": {"title": {"text": x}}, "y": {"title": {"text": y}}}
    for name in [name for name in layout if name[:2] in ("x_", "y_")]:
        axes[name[0]][name[2:]] = layout.pop(name)
    if levels:
        layout["shapes"] = [*layout.get("shapes", []), *(line["shape"] for line in levels)]
        layout["annotations"] = [line["words"] for line in levels if line["words"]["text"]]
    return Figure(
        traces, {"template": template("light"), "height": height, "xaxis": axes["x"], "yaxis": axes["y"], **layout}
    )


def level(y: float, text: str = "", *, log: bool = False) -> dict[str, Any]:
    """A dotted horizontal line at height y with a label, for the argument `levels` of `figure`."""
    line = {"dash": "dot", "color": QUIET}
    shape = {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line}
    height = math.log10(y) if log else y  # on a log axis plotly wants the exponent for labels, but not for shapes
    place = {"xref": "paper", "x": 1, "xanchor": "right", "y": height, "yanchor": "bottom"}
    return {"shape": shape, "words": {**place, "text": text, "showarrow": False, "font": {"color": QUIET, "size": 12}}}


def visible(token: str) -> str:
    """A token with visible marks for white space and for an empty token, in characters that common fonts have."""
    return token.replace(" ", "·").replace("\n", "¶").replace("\t", "→").replace("\r", "«") or "∅"
