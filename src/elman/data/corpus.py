"""A text as token ids: encoded once, as a stream, into a memory-mapped file.

Byte tokens are the bytes of the file, unchanged: not decoded, line ends as they are, nothing removed. For characters
and words the text is decoded, line ends become `\\n`, and Project Gutenberg's header and footer go.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, TypeVar, cast

import numpy as np

from elman.data import cache
from elman.data.checks import at_least_one, one_of
from elman.data.gutenberg import Boilerplate
from elman.data.named import find_source
from elman.data.reading import FileSource, Progress, Source, TextSource, codec_name
from elman.data.vocabulary import UNKNOWN, ByteVocabulary, CharVocabulary, Encoded, Unknown, Vocabulary
from elman.data.vocabulary_json import vocabulary_from_json
from elman.data.words import WordVocabulary
from elman.errors import DataError, RangeError
from elman.maths.arrays import Array

FORMAT = 1  # of cache entries: raise it when the same text would give other ids or facts
KINDS = ("char", "byte", "word")
Chunk = TypeVar("Chunk", str, bytes)


@dataclass(frozen=True, eq=False)
class Split:
    """Three stretches of a text, in its order; what is not wanted is empty."""

    train: Array
    validation: Array
    test: Array


@dataclass(frozen=True, eq=False)
class Corpus:
    """A text as token ids, and where it came from."""

    ids: Array  # (N,), read-only where it is a file
    vocabulary: Vocabulary
    name: str  # short, fit for a file name
    source: str  # an absolute path, "-" for standard input, "" for a text in memory
    sha256: str  # of the bytes as they came
    characters: int  # that the ids stand for; what was skipped does not count
    unknown: int  # tokens skipped, or read as <unk>
    notes: tuple[str, ...]  # sentences for the user

    def split(self, validation: float = 0.1, test: float = 0.0) -> Split:
        """The shares from the end of the text: training, then validation, then test, so that nothing leaks."""
        for name, share in (("validation", validation), ("test", test)):
            if not 0 <= share < 1:
                raise RangeError(f"the share of {name}", expected="0 or more and less than 1", got=share)
        n = len(self.ids)
        tested = n - round(test * n)
        trained = tested - round(validation * n)
        if trained < 1:
            raise RangeError(
                "the shares of validation and test",
                expected="something left for training",
                got=f"{validation} and {test} of {n} tokens",
            )
        return Split(self.ids[:trained], self.ids[trained:tested], self.ids[tested:])


@dataclass(frozen=True)
class _Recipe:
    """How a text becomes ids."""

    tokens: str
    encoding: str
    keep_boilerplate: bool
    vocabulary: Vocabulary | None
    max_words: int
    min_count: int
    unknown: str

    def checked(self) -> _Recipe:
        kind = self.vocabulary.kind if self.vocabulary else one_of("tokens", self.tokens, KINDS)
        unknown = one_of("unknown", self.unknown, UNKNOWN)
        if kind == "word" and unknown == "error":
            unknown = "replace"  # the frequency cut leaves rare words to <unk>: that is its purpose, no error
        at_least_one("max_words", self.max_words)
        at_least_one("min_count", self.min_count)
        return replace(self, tokens=kind, encoding=codec_name(self.encoding), unknown=unknown)

    def key(self, sha256: str) -> str:
        """Of the cache: whatever the ids depend on, the meaning of \\w in this Python included."""
        vocabulary = self.vocabulary and self.vocabulary.to_json()
        options = (self.tokens, self.encoding, self.keep_boilerplate, self.max_words, self.min_count, self.unknown)
        everything = json.dumps([FORMAT, unicodedata.unidata_version, sha256, vocabulary, options])
        return hashlib.sha256(everything.encode()).hexdigest()[:32]


def open_corpus(
    source: str | Path,
    *,
    tokens: str = "char",
    encoding: str = "utf-8",
    keep_boilerplate: bool = False,
    vocabulary: Vocabulary | None = None,
    max_words: int = 20_000,
    min_count: int = 2,
    unknown: str = "error",
    progress: Progress | None = None,
) -> Corpus:
    """A file as token ids; memory does not grow with it.

    A Path is a file; a str is a path, the name of a corpus, or "-" for standard input. With a vocabulary, which then
    decides the kind of tokens, the text is read with it; else with one of its own. Words that are not in the vocabulary
    become <unk> unless unknown is "skip". The result is kept in the cache, and found there the next time.
    """
    recipe = _Recipe(tokens, encoding, keep_boilerplate, vocabulary, max_words, min_count, unknown).checked()
    path = None if source == "-" else find_source(source) if isinstance(source, str) else source
    with FileSource(path, progress) as file:
        sha256 = file.sha256()
        key = recipe.key(sha256)
        ids, facts = cache.load(key) or cache.store(key, lambda out: _encode(file, recipe, out))
    if path is None:
        return _corpus(ids, facts, "stdin", "-", sha256)
    name = re.sub(r"[^\w.-]+", "-", path.stem).strip("-.")[:60] or "text"
    return _corpus(ids, facts, name, os.path.abspath(path), sha256)


def corpus_from_text(
    text: str,
    *,
    tokens: str = "char",
    keep_boilerplate: bool = False,
    vocabulary: Vocabulary | None = None,
    max_words: int = 20_000,
    min_count: int = 2,
    unknown: str = "error",
) -> Corpus:
    """The same for a text in memory, whose bytes are UTF-8."""
    recipe = _Recipe(tokens, "utf-8", keep_boilerplate, vocabulary, max_words, min_count, unknown).checked()
    source, out = TextSource(text), io.BytesIO()
    facts = _encode(source, recipe, out)
    return _corpus(np.frombuffer(out.getvalue(), facts["dtype"]), facts, "text", "", source.sha256())


def _corpus(ids: Array, facts: cache.Facts, name: str, source: str, sha256: str) -> Corpus:
    return Corpus(
        ids=ids,
        vocabulary=vocabulary_from_json(facts["vocabulary"]),
        name=name,
        source=source,
        sha256=sha256,
        characters=facts["characters"],
        unknown=facts["unknown"],
        notes=tuple(facts["notes"]),
    )


def _encode(source: Source, recipe: _Recipe, out: BinaryIO) -> cache.Facts:
    """Writes the ids of the whole source; returns all else that there is to know."""
    boilerplate = Boilerplate()

    def text(what: str) -> Iterator[str]:
        chunks = source.text(what, recipe.encoding)
        return _some(chunks if recipe.keep_boilerplate else boilerplate.remove(chunks), source)

    if recipe.tokens == "byte":
        vocabulary: Vocabulary = ByteVocabulary()
        parts: Iterator[Encoded] = map(ByteVocabulary.encode_bytes, _some(source.raw("encoding"), source))
    else:
        vocabulary = recipe.vocabulary or _new_vocabulary(recipe, text("reading"))
        parts = vocabulary.encode_chunks(text("encoding"), cast(Unknown, recipe.unknown))
    count = unknown = characters = 0
    for part in parts:
        out.write(part.ids.data)
        count += len(part.ids)
        unknown += part.unknown
        characters += part.characters
    if count == 0:
        raise DataError(f"{source.shown} has nothing that the vocabulary of {len(vocabulary)} tokens holds")
    notes = (boilerplate.note(), _unknown_note(recipe, count, unknown))
    return {
        "dtype": vocabulary.dtype.name,
        "count": count,
        "vocabulary": vocabulary.to_json(),
        "characters": characters,
        "unknown": unknown,
        "notes": [note for note in notes if note],
    }


def _new_vocabulary(recipe: _Recipe, text: Iterator[str]) -> Vocabulary:
    if recipe.tokens == "char":
        return CharVocabulary.of(text)
    words = WordVocabulary.of(text, recipe.max_words, recipe.min_count)
    if len(words) == 1:
        raise DataError(f"no word of the text is seen {recipe.min_count} times", do="Take a lower --min-count.")
    return words


def _some(chunks: Iterator[Chunk], source: Source) -> Iterator[Chunk]:
    """The chunks that hold anything; an error if none does."""
    empty = True
    for chunk in chunks:
        if chunk:
            empty = False
            yield chunk
    if empty:
        raise DataError(f"{source.shown} has no text", do="An empty file, or nothing but boilerplate: check the file.")


def _unknown_note(recipe: _Recipe, count: int, unknown: int) -> str | None:
    if not unknown:
        return None
    if recipe.unknown == "skip":
        what = "words" if recipe.tokens == "word" else "characters"
        return f"{unknown:,} of {count + unknown:,} {what} were skipped: the vocabulary does not hold them."
    return f"{unknown:,} of {count:,} words ({unknown / count:.1%}) are not in the vocabulary and were read as <unk>."
