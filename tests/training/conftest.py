"""Every test has a cache of its own; a small text to train on."""

from __future__ import annotations

from pathlib import Path

import pytest
from training_tools import small_text


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "the-cache"
    monkeypatch.setenv("ELMAN_CACHE", str(folder))
    monkeypatch.setenv("ELMAN_THREADS", "1")
    return folder


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(small_text(), encoding="utf-8")
    return path
