"""The marker of pages that Elman wrote: other files are never overwritten."""

from __future__ import annotations

from pathlib import Path

from elman.errors import ArgumentError, option
from elman.files import open_regular

GENERATOR = '<meta name="generator" content="elman">'


def is_page(path: Path) -> bool:
    """Whether Elman wrote this file, so that it may be overwritten."""
    try:
        with open_regular(path) as file:
            return GENERATOR.encode() in file.read(500)
    except OSError:
        return False


def check_replaceable(out: Path, what: str, *, force: bool) -> None:
    """Raise ArgumentError if `out` exists, unless it is a page that Elman wrote and force is set."""
    if out.exists() and not is_page(out):
        raise ArgumentError(f"{out} exists and is not {what}", do=f"Choose another {option('out')}.")
    if out.exists() and not force:
        raise ArgumentError(
            f"{out} exists already", do=f"Choose another {option('out')}; {option('force', True)} replaces it."
        )
