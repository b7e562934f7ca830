"""The cache of encoded texts: entries are reused, written completely or not at all, and deleted when old."""

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elman.data import cache as cache_module
from elman.data import open_corpus
from elman.data.encoding import TextEncoder
from elman.data.vocabulary import CharVocabulary
from elman.errors import DataError

TEXT = "It is a truth — universally acknowledged — that it is a truth.\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "truth.txt"
    path.write_bytes(TEXT.encode())
    return path


@pytest.fixture
def encodings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with every encoding of a text."""
    done: list[str] = []
    real = TextEncoder.write
    monkeypatch.setattr(TextEncoder, "write", lambda self, out: done.append(self.shown) or real(self, out))
    return done


def test_a_text_is_encoded_once_and_again_when_anything_changes(file: Path, encodings: list[str]) -> None:
    first, second = open_corpus(file), open_corpus(file)
    assert len(encodings) == 1
    for field in ("vocabulary", "name", "source", "sha256", "characters", "unknown", "notes"):
        assert getattr(first, field) == getattr(second, field)
    assert np.array_equal(first.ids, second.ids)
    assert not second.ids.flags.writeable

    changes = [
        {"keep_boilerplate": True},
        {"encoding": "latin-1"},
        {"tokens": "byte"},
        {"tokens": "word"},
        {"tokens": "word", "min_count": 1},
        {"tokens": "word", "vocabulary_size": 3},
        {"tokens": "word", "unknown": "skip"},
        {"vocabulary": CharVocabulary(TEXT + "ß")},
    ]
    for number, change in enumerate(changes, 2):
        open_corpus(file, **change)  # type: ignore[arg-type]
        assert len(encodings) == number
    file.write_bytes(b"another text")
    changed = open_corpus(file)
    assert changed.vocabulary.decode(changed.ids) == "another text"
    copy = file.with_name("copy.txt")
    copy.write_bytes(b"another text")
    count = len(encodings)
    assert open_corpus(copy).name == "copy"
    assert len(encodings) == count  # the key depends on the text, not on its name


@pytest.mark.parametrize("damage", ["cut ids", "no ids", "cut facts", "foreign facts"])
def test_a_damaged_cache_entry_is_rewritten(file: Path, cache: Path, encodings: list[str], damage: str) -> None:
    open_corpus(file)
    (ids,) = cache.glob("encoded/*.ids")
    facts = ids.with_suffix(".json")
    if damage == "cut ids":
        ids.write_bytes(ids.read_bytes()[:-1])
    elif damage == "no ids":
        ids.unlink()
    else:
        facts.write_text("{" if damage == "cut facts" else "[1]")
    assert open_corpus(file).vocabulary.decode(open_corpus(file).ids) == TEXT
    assert len(encodings) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"notes": None},
        {"notes": [1]},
        {"count": -1},
        {"count": 10**30},
        {"count": "9"},
        {"characters": -1},
        {"unknown": "none"},
        {"dtype": "float64"},
        {"dtype": "O"},
        {"vocabulary": {"kind": "char", "tokens": "ab"}},
        {"sha256": "0" * 64},
        *({"without": name} for name in ("notes", "count", "dtype", "vocabulary", "characters", "unknown", "sha256")),
    ],
    ids=str,
)
def test_an_entry_with_invalid_metadata_is_rewritten(
    file: Path, cache: Path, encodings: list[str], change: dict[str, Any]
) -> None:
    open_corpus(file)
    (facts,) = cache.glob("encoded/*.json")
    known = json.loads(facts.read_bytes()) | change
    known.pop(change.get("without"), None)
    facts.write_text(json.dumps(known))
    again = open_corpus(file)
    assert again.vocabulary.decode(again.ids) == TEXT
    assert len(encodings) == 2


def test_ids_that_were_changed_on_disk_are_rewritten(file: Path, cache: Path, encodings: list[str]) -> None:
    open_corpus(file)
    (ids,) = cache.glob("encoded/*.ids")
    ids.write_bytes(ids.read_bytes()[::-1])
    again = open_corpus(file)
    assert again.vocabulary.decode(again.ids) == TEXT
    assert len(encodings) == 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs links and pipes")
def test_an_entry_that_is_a_link_or_a_pipe_is_rewritten(file: Path, cache: Path, encodings: list[str]) -> None:
    open_corpus(file)
    (ids,) = cache.glob("encoded/*.ids")
    ids.unlink()
    ids.symlink_to("/dev/zero")
    open_corpus(file)
    facts = ids.with_suffix(".json")
    facts.unlink()
    os.mkfifo(facts)
    open_corpus(file)
    assert len(encodings) == 3
    assert facts.is_file()
    assert not ids.is_symlink()


def test_a_process_survives_ids_that_another_one_truncates(file: Path, cache: Path) -> None:
    read = open_corpus(file)
    (ids,) = cache.glob("encoded/*.ids")
    os.truncate(ids, 0)  # a mapped file would end this process with SIGBUS
    assert read.vocabulary.decode(read.ids) == TEXT


def test_large_ids_are_mapped(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "MAX_READ", 10)
    for _ in range(2):
        read = open_corpus(file)
        assert isinstance(read.ids, np.memmap)
        assert read.vocabulary.decode(read.ids) == TEXT


def test_an_interrupted_encoding_leaves_nothing(file: Path, cache: Path) -> None:
    def stop(what: str, done: int, total: int) -> None:
        if what == "encoding":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_corpus(file, progress=stop)
    assert list(cache.glob("encoded/*")) == []


def test_without_a_cache_there_is_a_temporary_file(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encodings: list[str]
) -> None:
    monkeypatch.setenv("ELMAN_CACHE", str(file / "no-folder"))  # below a file: not even root can write there
    read = open_corpus(file)
    assert read.vocabulary.decode(read.ids) == TEXT
    assert len(encodings) == 1
    monkeypatch.setattr(cache_module.tempfile, "TemporaryFile", tmp_path.open)
    with pytest.raises(DataError, match="set ELMAN_CACHE"):
        open_corpus(file)


def test_entries_unused_for_a_month_are_deleted(file: Path, cache: Path) -> None:
    def age(path: Path, days: float) -> None:
        os.utime(path, (time.time() - days * 86400,) * 2)

    open_corpus(file)
    old = list(cache.glob("encoded/*"))
    assert len(old) == 2
    for path in old:
        age(path, 29)
    open_corpus(file, tokens="byte")
    assert all(path.exists() for path in old)
    open_corpus(file)  # used, so it counts as new
    assert all(time.time() - path.stat().st_mtime < 3600 for path in old)
    for path in old:
        age(path, 31)
    open_corpus(file, tokens="word")
    assert not any(path.exists() for path in old)


def test_a_cache_that_only_others_may_write_to_is_used(
    file: Path, monkeypatch: pytest.MonkeyPatch, encodings: list[str]
) -> None:
    def denied(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted")

    open_corpus(file)
    monkeypatch.setattr(cache_module.os, "utime", denied)
    open_corpus(file)
    assert len(encodings) == 1
