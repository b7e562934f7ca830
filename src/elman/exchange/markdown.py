"""Markdown that shows a text as it is, whatever is in it."""

from __future__ import annotations

import re
from collections.abc import Mapping


def plain(text: str) -> str:
    """Nothing in it that Markdown or HTML would take for its own."""
    return re.sub(r"([\\`*_\[\]<>|#&])", r"\\\1", "".join(c for c in text if c.isprintable()))


def fenced(text: str, kind: str) -> str:
    """A block of code; what cannot be printed is replaced, except ends of lines and tabs."""
    shown = "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
    fence = "`" * (1 + max(map(len, re.findall("`+", f"{shown} ``"))))  # longer than any in it, three at least
    return f"{fence}{kind}\n{shown}\n{fence}"


def table(facts: Mapping[str, object]) -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {plain(str(value))} |" for name, value in facts.items())])
