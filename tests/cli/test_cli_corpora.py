"""Several files as one text, from the command line: trained on, resumed, and refused when one of them changed."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from pathlib import Path

import pytest
from cli_text import TEXT as LINES

TEXT = LINES.replace("\n", "\n\n")  # paragraphs: lines alone might be examples for a classifier
SMALL = ["--hidden", 8, "--batch-size", 4, "--window", 16, "--out", "run"]


@pytest.fixture
def books(alone):
    Path("books").mkdir()
    Path("books/a.txt").write_text(TEXT)
    Path("books/b.txt.gz").write_bytes(gzip.compress(TEXT.upper().encode()))
    Path("books/notes.md").write_text("# not a book")
    return Path("books")


@pytest.mark.parametrize("source", [["books"], ["books/*.txt*"], ["books/a.txt", "books/b.txt.gz"]])
def test_a_run_on_several_files_can_be_resumed(elman, books, source):
    status, out, err = elman("train", *source, *SMALL, "--steps", 3)
    assert (status, err) == (0, "")
    assert f"books: {2 * len(TEXT):,} characters" in out
    corpus = json.loads(Path("run/config.json").read_text())["data"]
    assert corpus["source"] == str(books.absolute())
    assert corpus["files"] == [str(books.absolute() / name) for name in ("a.txt", "b.txt.gz")]
    Path("books/c.txt").write_text("a book that came later")
    assert elman("train", "--resume", "run", "--steps", 5).status == 0
    assert not Path("run/data.safetensors").exists()


@pytest.mark.parametrize(("spoil", "message"), [
    (lambda: Path("books/a.txt").write_text("another"), "The text of run has changed"),
    (lambda: Path("books/a.txt").unlink(), r"there is no file .*books/a\.txt"),
    (lambda: Path("books/a.txt").write_bytes("déjà".encode("latin-1")), "The text of run has changed"),
    (lambda: os.truncate("books/b.txt.gz", 30), r"b\.txt\.gz' is truncated"),
])  # fmt: skip
def test_a_run_whose_files_changed_is_not_resumed(elman, books, spoil, message):
    import re

    elman("train", books, *SMALL, "--steps", 3)
    before = Path("run/model.safetensors").read_bytes()
    spoil()
    status, _, err = elman("train", "--resume", "run", "--steps", 5)
    assert status == 2
    assert re.search(message, err), err
    assert Path("run/model.safetensors").read_bytes() == before


@pytest.mark.parametrize("files", [3, [], [3], {"a": 1}, "books"])
def test_a_damaged_list_of_files_is_refused(elman, books, files):
    elman("train", books, *SMALL, "--steps", 3)
    config = json.loads(Path("run/config.json").read_text())
    config["data"]["files"] = files
    Path("run/config.json").write_text(json.dumps(config))
    status, _, err = elman("train", "--resume", "run", "--steps", 5)
    assert status == 2
    assert "config.json is damaged" in err


def test_compressed_and_plain_files_are_the_same_text(elman, books):
    elman("train", books, *SMALL, "--steps", 3)
    Path("books/b.txt").write_text(TEXT.upper())
    assert elman("train", "books/a.txt", "books/b.txt", *SMALL[:-1], "plain", "--steps", 3).status == 0
    run, plain = (Path(name, "model.safetensors").read_bytes() for name in ("run", "plain"))
    assert run == plain
    assert elman("eval", "run", "books/*.txt").status == 0


def test_a_long_validation_part_is_validated_in_part_and_this_is_printed(elman, books, monkeypatch):
    from elman.models import runs

    monkeypatch.setattr(runs, "MAX_VALIDATION_TOKENS", 100)
    out = elman("train", books, *SMALL, "--steps", 3).out
    assert re.search(r"Training validates on the first 100 of these \d+ characters; elman eval reads all\.", out)
    shutil.rmtree("run")
    monkeypatch.setattr(runs, "MAX_VALIDATION_TOKENS", 10_000)
    assert "Training validates on the first" not in elman("train", books, *SMALL, "--steps", 3).out
