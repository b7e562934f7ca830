"""Models that are trained once, and a service that is started once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from serve_tools import ACCENTS, KEY, TEXT, Server

from elman.models import LanguageModel

SMALL = {"hidden": 16, "batch_size": 4, "window": 16, "warmup_steps": 0, "learning_rate": 0.02}


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of runs: char, byte, word, and a classifier."""
    from elman.models import SequenceClassifier

    folder = tmp_path_factory.mktemp("served")
    LanguageModel(**SMALL, steps=60).fit(TEXT, out=folder / "char")
    LanguageModel(tokens="byte", layers=2, **SMALL, steps=30).fit(ACCENTS).save(folder / "byte")
    LanguageModel(tokens="word", **SMALL, steps=30).fit(TEXT).save(folder / "word")
    names = ["anna", "otto", "bob", "xyz", "zyx", "xxz"] * 5
    labels = ["name", "name", "name", "noise", "noise", "noise"] * 5
    judged = {"validation_fraction": 0.2, "validate_every": 2}
    SequenceClassifier(hidden=8, epochs=3, random_state=0, **judged).fit(names, labels, out=folder / "names")
    return folder


@pytest.fixture(scope="session")
def more_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GRU and LSTM of two layers, subwords, a tagger, a translator; not in `runs`, whose kernels compile faster."""
    from elman.models import Seq2Seq, SequenceTagger

    folder = tmp_path_factory.mktemp("more")
    for cell in ("gru", "lstm"):
        LanguageModel(cell=cell, **SMALL, layers=2, steps=5).fit(TEXT).save(folder / cell)
    LanguageModel(tokens="bpe", vocabulary_size=270, **SMALL, steps=5).fit(TEXT).save(folder / "bpe")
    tags = SequenceTagger(hidden=8, epochs=3, random_state=0)
    tags.fit([["a", "cat", "sat"], ["the", "dog", "ran"]] * 8, [["D", "N", "V"]] * 16).save(folder / "tags")
    words = ["a cat sat", "the dog ran", "a dog sat", "the cat ran"] * 6
    turned = [" ".join(reversed(text.split())) for text in words]
    options = {"hidden": 16, "embedding": 8, "epochs": 12, "learning_rate": 0.02, "random_state": 0}
    Seq2Seq(**options).fit(words, turned).save(folder / "turns")
    return folder


@pytest.fixture(scope="session")
def server(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """With a key; at most 32 texts at a time."""
    folder = tmp_path_factory.mktemp("started")
    found = Server(
        *(runs / name for name in ("char", "byte", "word", "names")), "--max-sequences", 32, "--runs", folder, key=KEY
    )
    yield found
    code, _, err = found.stop()
    assert (code, err) == (0, "")


@pytest.fixture(scope="session")
def char_model(runs: Path) -> LanguageModel:
    return LanguageModel.load(runs / "char")


@pytest.fixture(scope="session")
def byte_model(runs: Path) -> LanguageModel:
    return LanguageModel.load(runs / "byte")
