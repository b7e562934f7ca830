"""The marker of pages that Elman wrote: `elman look` and `elman steps` overwrite no file without it."""

from __future__ import annotations

from pathlib import Path

from elman.errors import ArgumentError, option
from elman.files import open_regular

GENERATOR = '<meta name="generator" content="elman">'


def is_page(path: Path) -> bool:
    """Whether this file has the marker, so that it may be overwritten."""
    try:
        with open_regular(path) as file:
            return GENERATOR.encode() in file.read(500)
    except OSError:
        return False


def check_replaceable(out: Path, what: str, *, force: bool) -> None:
    """Raise ArgumentError if `out` exists, unless it has the marker and `force` is true."""
    if out.exists() and not is_page(out):
        raise ArgumentError(f"{out} exists and is not {what}", do=f"Choose another {option('out')}.")
    if out.exists() and not force:
        raise ArgumentError(
            f"{out} exists already", do=f"Choose another {option('out')}; {option('force', True)} replaces it."
        )
