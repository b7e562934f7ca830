"""The mark by which a page of ours is known: only such a file is replaced."""

from __future__ import annotations

from pathlib import Path

from elman.files import open_regular

GENERATOR = '<meta name="generator" content="elman">'


def is_page(path: Path) -> bool:
    """Whether a file is a page of ours, which may be replaced."""
    try:
        with open_regular(path) as file:
            return GENERATOR.encode() in file.read(500)
    except OSError:
        return False
