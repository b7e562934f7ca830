"""Every test has a cache of its own and no copies of corpora."""

from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("patient", deadline=None)  # no deadline: the machine may be busy
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "the-cache"
    monkeypatch.setenv("ELMAN_CACHE", str(folder))
    monkeypatch.delenv("ELMAN_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return folder
