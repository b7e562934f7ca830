"""An older commit of Elman as a contender."""

from __future__ import annotations

import io
import subprocess
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent


class UnknownCommit(ValueError):
    """There is no such commit, or no repository."""


def files_of(commit: str) -> Path:
    """The files of a commit in .bench/HASH. They run with the packages of .venv-bench: only Elman's source differs."""
    try:
        name = _git("rev-parse", "--verify", "--short=12", f"{commit}^{{commit}}").decode().strip()
    except (OSError, subprocess.CalledProcessError) as error:
        raise UnknownCommit(f"expected a commit of this git repository, got {commit!r}; see git log") from error
    folder = ROOT / ".bench" / name
    if not folder.exists():
        folder.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
            zipfile.ZipFile(io.BytesIO(_git("archive", "--format=zip", name))).extractall(f"{unfinished}/files")
            Path(unfinished, "files").rename(folder)
    return folder


def _git(*words: str) -> bytes:
    return subprocess.run(["git", "-C", ROOT, *words], check=True, capture_output=True).stdout
