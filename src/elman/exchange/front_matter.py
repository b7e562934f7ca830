"""The YAML at the top of a model card: as much of that language as it takes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence


def front_matter(facts: Mapping[str, object]) -> str:
    return f"---\n{_block(facts, '')}---\n"


def _block(value: Mapping[str, object] | Sequence[object], indent: str) -> str:
    """One line for each entry; what has entries of its own goes below its name, further in."""
    if isinstance(value, Mapping):
        return "".join(f"{indent}{name}:{_entry(entry, indent)}" for name, entry in value.items())
    # the first line of an item stands behind its dash
    return "".join(f"{indent}-{_item(entry, indent)}" for entry in value)


def _entry(value: object, indent: str) -> str:
    if isinstance(value, Mapping | list | tuple):
        return "\n" + _block(value, indent + "  ")
    return f" {_scalar(value)}\n"


def _item(value: object, indent: str) -> str:
    if isinstance(value, Mapping | list | tuple):
        return " " + _block(value, indent + "  ")[len(indent) + 2 :]
    return f" {_scalar(value)}\n"


def _scalar(value: object) -> str:
    """Numbers as they are; a text in quotes, in which JSON is YAML, with what cannot be printed left out."""
    if isinstance(value, str):
        return json.dumps("".join(c for c in value if c.isprintable()), ensure_ascii=False)
    number = json.dumps(value, allow_nan=False)
    return number if "." in number else number.replace("e", ".0e")  # 1e-7 is a text to YAML 1.1, and 1.0e-7 is none
