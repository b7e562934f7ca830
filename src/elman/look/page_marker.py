"""The marker of pages that Elman wrote: other files are never overwritten."""

from __future__ import annotations

from pathlib import Path

from elman.files import open_regular

GENERATOR = '<meta name="generator" content="elman">'


def is_page(path: Path) -> bool:
    """Whether Elman wrote this file, so that it may be overwritten."""
    try:
        with open_regular(path) as file:
            return GENERATOR.encode() in file.read(500)
    except OSError:
        return False
