"""Functions that turn published files into the examples of named corpora.

A recipe takes the bytes of a download and returns the lines of a file that `elman train` reads: text and label, token
and tag, or source and target, with a tab between them. Where the published order puts similar examples side by side,
they are shuffled with a fixed seed, so that the result is always the same and has a known hash.
"""

from __future__ import annotations

import io
import random
import re
import zipfile
from collections.abc import Iterator, Sequence

REVIEWS = ("amazon_cells_labelled.txt", "imdb_labelled.txt", "yelp_labelled.txt")
SENTIMENTS = {"0": "negative", "1": "positive"}
SHORT_SENTENCES = 40_000  # the first lines of the file, which is sorted by length
TRANSLATIONS = 25_000  # examples of the corpus
PRONUNCIATIONS = 30_000  # examples of the corpus


def sentiment(download: bytes) -> Iterator[str]:
    """Sentences of three kinds of reviews, each with positive or negative, from a zip file."""
    rows = []
    for name in REVIEWS:
        for line in _member(download, name).split("\n"):
            if line.strip():
                sentence, _, label = line.rpartition("\t")
                rows.append(f"{re.sub(' +', ' ', sentence).strip()}\t{SENTIMENTS[label.strip()]}")
    return iter(_shuffled(rows))


def english_french(download: bytes) -> Iterator[str]:
    """Short English sentences and their French translations, from the data of PyTorch's tutorial on translation."""
    rows = _member(download, "eng-fra.txt").split("\n")[:SHORT_SENTENCES]
    return iter(_shuffled(rows)[:TRANSLATIONS])


def pronunciation(download: bytes) -> Iterator[str]:
    """Words of the letters a to z and their phonemes, from the CMU Pronouncing Dictionary."""
    rows = []
    for line in download.decode("utf-8").split("\n"):
        word, _, phonemes = line.partition("#")[0].strip().partition(" ")  # a comment follows #
        if re.fullmatch("[a-z]+", word):  # second pronunciations are written word(2)
            rows.append(f"{word}\t{phonemes}")
    return iter(_shuffled(rows)[:PRONUNCIATIONS])


def questions(download: bytes) -> Iterator[str]:
    """Questions and which of six kinds of answer they ask for, from TREC's lines of KIND:subkind question."""
    for line in download.replace(b"\xf0", b" ").decode("ascii").split("\n"):  # 0xf0 occurs once, in place of a space
        if line.strip():
            kind, _, question = line.strip().partition(" ")
            yield f"{question}\t{kind.partition(':')[0]}"


def part_of_speech(download: bytes) -> Iterator[str]:
    """Words and their universal part-of-speech tags, with a blank line after each sentence, from a CoNLL-U file."""
    for line in download.decode("utf-8").rstrip("\n").split("\n"):
        columns = line.split("\t")
        if not line:
            yield ""
        elif columns[0].isdigit():  # neither a comment nor the range of a contraction (4-5) nor an empty node (8.1)
            yield f"{columns[1]}\t{columns[3]}"
    yield ""


def _member(archive: bytes, name: str) -> str:
    """A text in a zip file, in whatever folder it is."""
    with zipfile.ZipFile(io.BytesIO(archive)) as files:
        paths = [path for path in files.namelist() if path.rpartition("/")[2] == name]
        return files.read(paths[0]).decode("utf-8")


def _shuffled(rows: Sequence[str]) -> list[str]:
    rows = list(rows)
    random.Random(0).shuffle(rows)
    return rows
