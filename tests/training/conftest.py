"""Every test has a cache of its own; a small text to train on; the command in this process."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from training_tools import Here, small_text

from elman.cli import main


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "the-cache"
    monkeypatch.setenv("ELMAN_CACHE", str(folder))
    monkeypatch.setenv("ELMAN_THREADS", "1")
    return folder


@pytest.fixture(autouse=True)
def no_power_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """fsync does not wait for the disk: no test can check what it protects from. It still fails for a closed file."""
    monkeypatch.setattr("os.fsync", os.fstat)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(small_text(), encoding="utf-8")
    return path


@pytest.fixture
def elman_here(capsys: pytest.CaptureFixture[str]) -> Here:
    """As training_tools.elman, but in this process, which is faster."""

    def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main([*map(str, words)])
        assert isinstance(caught.value.code, int)
        out, err = capsys.readouterr()
        # on a machine without compiled kernels, the first test sees the notice
        lines = [line for line in err.splitlines(keepends=True) if not line.startswith("Compiling")]
        return subprocess.CompletedProcess(words, caught.value.code, out, "".join(lines))

    return run
