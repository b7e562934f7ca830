"""A separate cache for every test, and models that are trained once."""

from __future__ import annotations

from pathlib import Path

import pytest
from models_writers import VOCABULARIES, random_writer

from elman.models import LanguageModel
from elman.models.sampling import TextSampler

ENGLISH = "The cat sat on the mat, and the dog sat on the log. Who sat on the cat?\n" * 40 + "A zebra did it.\n"
ACCENTS = "Voilà: l'été à Škofja Loka, «привет» — 日本語, naïve café 🙂.\n" * 40
SMALL = {"hidden": 16, "batch_size": 4, "window": 16, "steps": 30, "warmup_steps": 0, "learning_rate": 0.02}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "the-cache"
    monkeypatch.setenv("ELMAN_CACHE", str(folder))
    monkeypatch.delenv("ELMAN_DATA", raising=False)
    monkeypatch.setenv("ELMAN_KERNELS", "reference")  # a process with a new cache would compile for 15 seconds
    return folder


@pytest.fixture(params=VOCABULARIES)
def writer(request: pytest.FixtureRequest) -> TextSampler:
    return random_writer(VOCABULARIES[request.param], layers=2)


@pytest.fixture
def letters() -> TextSampler:
    return random_writer(VOCABULARIES["char"])


@pytest.fixture(scope="session")
def char_model() -> LanguageModel:
    return LanguageModel(**SMALL).fit(ENGLISH)


@pytest.fixture(scope="session")
def byte_model() -> LanguageModel:
    return LanguageModel(tokens="byte", **SMALL).fit(ACCENTS)


@pytest.fixture(scope="session")
def word_model() -> LanguageModel:
    return LanguageModel(tokens="word", **SMALL).fit(ENGLISH)


@pytest.fixture(params=["char", "byte", "word"])
def model(request: pytest.FixtureRequest) -> LanguageModel:
    return request.getfixturevalue(f"{request.param}_model")
