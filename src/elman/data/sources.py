"""Which files a source means: one file, a folder of texts, a pattern, or several of these."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from glob import glob, has_magic
from pathlib import Path
from typing import TypeAlias

from elman.data.named import find_source, refuse_url
from elman.errors import DataError

PathLike: TypeAlias = str | Path
TEXT_SUFFIXES = (".txt", ".txt.gz", ".txt.zst")  # suffixes of the files that are read from a folder
PACKED = (".gz", ".zst")


def find_sources(source: PathLike | Sequence[PathLike]) -> list[Path | None]:
    """The files of a source in the given order, those of a folder or pattern sorted; None for standard input."""
    given = [source] if isinstance(source, str | Path) else list(source)
    if not given:
        raise DataError("there is no file to read", do="Name one.")
    found = [path for one in given for path in _find(one)]
    return list({path and os.path.abspath(path): path for path in found}.values())  # each once


def _find(source: PathLike) -> list[Path | None]:
    if source == "-":
        return [None]
    if has_magic(str(source)) and not os.path.lexists(source):
        files = sorted(path for path in map(Path, glob(str(source), recursive=True)) if not path.is_dir())
        if not files:
            refuse_url(str(source))
            raise DataError(f"no file matches {str(source)!r}", do="Check the pattern.")
        return [*files]
    path = find_source(source) if isinstance(source, str) else source
    if not os.path.isdir(path):
        return [path]
    texts = sorted(file for file in path.iterdir() if file.name.lower().endswith(TEXT_SUFFIXES) and not file.is_dir())
    if not texts:
        raise DataError(
            f"{str(path)!r} is a folder without texts",
            expected=f"files that end in {', '.join(TEXT_SUFFIXES)}",
            do=f"Name a file in it, or a pattern: for example '{path}/*.md'.",
        )
    return [*texts]


def common_source(paths: Sequence[Path | None]) -> str:
    """The absolute path; for several files the folder that contains all; "-" if standard input is among them."""
    known = [os.path.abspath(path) for path in paths if path is not None]
    if len(known) < len(paths):
        return "-"
    try:
        return known[0] if len(known) == 1 else os.path.commonpath(known)
    except ValueError:  # on several drives
        return os.path.dirname(known[0])


def name_of(paths: Sequence[Path | None]) -> str:
    """A short name for a source, which can be part of a file name."""
    source = common_source(paths)
    if source == "-":
        return "stdin"
    path = Path(source)
    if len(paths) == 1:
        path = path.with_suffix("") if path.suffix.lower() in PACKED else path
        path = path.with_suffix("")
    return re.sub(r"[^\w.-]+", "-", path.name).strip("-.")[:60] or "text"
