"""One HTML file that works offline: style, script, Plotly and the data of all figures are inside."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from elman.look.page_marker import GENERATOR
from elman.look.theme import template


class Page:
    """Collects the parts of a page; html() returns the file."""

    def __init__(self, title: str) -> None:
        self.title = title
        self._body: list[str] = []
        self._data: dict[str, str] = {"templates": _json({name: _plain(template(name)) for name in ("light", "dark")})}

    def add(self, html: str) -> None:
        self._body.append(html)

    def figure(self, fig: Any, title: str = "", note: str = "", *, wide: bool = False) -> str:
        """The HTML of a card with a figure, for add(); `note` is HTML. A wide figure scrolls if the page is narrow."""
        plain = _plain(fig)
        plain["layout"].pop("template", None)  # the script adds the light or the dark one
        height = plain["layout"].get("height", 400)
        name = self.data(plain)
        head = f"<h3>{escape(title)}</h3>" * bool(title) + f'<p class="note">{note}</p>' * bool(note)
        width = ";min-width:860px" if wide else ""
        place = f'<div class="figure" style="height:{height}px{width}" data-from="{name}"></div>'
        return card(head + (f'<div class="scroll">{place}</div>' if wide else place))

    def data(self, value: Any) -> str:
        """Keep data for the script; returns the name under which the script finds it."""
        name = f"data-{len(self._data)}"
        self._data[name] = _json(value)
        return name

    def html(self) -> str:
        kept = "\n".join(f'<script type="application/json" id="{name}">{d}</script>' for name, d in self._data.items())
        body = "\n".join(self._body)
        return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{GENERATOR}
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{escape(self.title)}</title>
<style>
{_asset("page.css")}</style>
</head>
<body>
<main>
{body}
</main>
{kept}
<script>{_plotly()}</script>
<script>
{_asset("page.js")}</script>
</body>
</html>
"""


def card(html: str, kind: str = "") -> str:
    return f'<div class="card {kind}">{html}</div>'


def tiles(figures: Mapping[str, str]) -> str:
    """Small boxes, each with a number and its description."""
    boxes = (
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(what)}</span></div>' for what, value in figures.items()
    )
    return f'<div class="tiles">{"".join(boxes)}</div>'


def pair(left: str, right: str) -> str:
    """Two cards side by side if they fit."""
    return f'<div class="pair">{left}{right}</div>'


def layer_name(number: int) -> str:
    return f"layer {number}"


def formula(text: str) -> str:
    """A formula as plain text in the notation of the code."""
    return f'<code class="formula">{escape(text)}</code>'


def _plain(fig: Any) -> dict[str, Any]:
    """A figure or a template as plain data."""
    plain: dict[str, Any] = json.loads(fig.to_json() if hasattr(fig, "to_json") else json.dumps(fig.to_plotly_json()))
    return plain


def _json(value: Any) -> str:
    """JSON for a script element: no text can end the element, and numbers that are not finite become null."""
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c")


def _finite(value: Any) -> Any:
    """The same value with null for numbers that are not finite, which JSON cannot store."""
    if isinstance(value, dict):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@cache
def _asset(name: str) -> str:
    return (files("elman.look") / "assets" / name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    source: str = get_plotlyjs()
    return source.replace("</script", "<\\/script")
