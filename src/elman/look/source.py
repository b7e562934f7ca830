"""Finds lines of the source that are quoted elsewhere, by a marker at the end of their comment.

    a_h = h @ W_hh  # (B, G·H) [a_h]        is the line "cell_forward a_h": function and marker

Such a reference stays valid when the line moves or changes. `elman steps`, the documentation and the tables of mutants
use it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from elman.errors import ElmanError

MARKER = re.compile(r"  #.*(?<=\s)\[(\w+)\]$")


class Marked(NamedTuple):
    """A statement, the head of one with a body such as a loop, or a row of a table."""

    first: int  # line, counted from 1
    last: int
    code: str  # without comments, in one line


def find_line(path: Path, name: str) -> Marked:
    """The line with this name, "function marker"; a method is "Class.method", a table has the name of its variable."""
    found = marked_lines(path).get(name)
    if found is None:
        raise ElmanError(f"the line {name!r}", expected=f"a line of {path} with this marker", got="none")
    return found


@cache
def marked_lines(path: Path) -> dict[str, Marked]:
    """All marked lines of a file by name."""
    text = path.read_text(encoding="utf-8")
    lines, found = text.splitlines(), {}
    for home, first, last in _pieces(ast.parse(text), ""):
        piece = lines[first - 1 : last]
        for marker in (match[1] for line in piece if (match := MARKER.search(line))):
            name = f"{home} {marker}"
            if name in found:
                raise ElmanError(f"the marker {name!r} of {path}", expected="once", got="twice")
            found[name] = Marked(first, last, _code(piece))
    return found


def _pieces(node: ast.AST, prefix: str) -> Iterator[tuple[str, int, int]]:
    """Everything that can have a marker: the name of its function or table, its first and its last line."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield from _pieces(child, f"{prefix}.{child.name}" if prefix else child.name)
        elif isinstance(child, ast.stmt | ast.ExceptHandler) and hasattr(child, "body"):
            head = [part.end_lineno for part in ast.iter_child_nodes(child) if isinstance(part, ast.expr)]
            yield prefix, child.lineno, max([child.lineno, *filter(None, head)])
            yield from _pieces(child, prefix)
        elif not prefix and isinstance(child, ast.Assign) and isinstance(child.value, ast.Dict):
            for key, value in zip(child.value.keys, child.value.values, strict=True):
                yield ast.unparse(child.targets[0]), (key or value).lineno, value.end_lineno or value.lineno
        elif isinstance(child, ast.stmt):
            yield prefix, child.lineno, child.end_lineno or child.lineno


def _code(lines: list[str]) -> str:
    joined = " ".join(re.split(r"(?:^|  )#", line)[0].strip() for line in lines)
    return re.sub(r",? (?=[)\]}])", "", re.sub(r"(?<=[(\[{]) ", "", joined))
