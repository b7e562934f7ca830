"""Readable features of a text that a hidden unit might track: one value per character, or per token.

The value at a character is what is known once it has been read: "inside quotation marks" holds from the opening mark to
the character before the closing one. Two features look one character ahead, because the model predicts what comes next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from elman.data import BPEVocabulary, Vocabulary
from elman.data.words import words_of
from elman.maths.arrays import Array

VOWELS = frozenset("aeiouyAEIOUY")
UNKNOWN = " word"  # stands for <unk>, whose own characters are not part of the text
OPENING, CLOSING = "“«„", "”»"


class Characters:
    """A text as arrays, with helpers that several features use."""

    def __init__(self, text: str) -> None:
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), "<u4")
        different, self._kinds = np.unique(codes, return_inverse=True)
        self._different = [chr(code) for code in different]
        self.index = np.arange(len(codes))  # (C,)

    def are(self, test: Callable[[str], bool]) -> Array:
        """Whether the test holds for each character; each different character is tested once."""
        return np.array([test(c) for c in self._different], bool)[self._kinds]

    def last(self, mark: Array) -> Array:
        """The position of the last mark at or before each character; -1 if there was none."""
        return np.maximum.accumulate(np.where(mark, self.index, -1))

    def since(self, mark: Array) -> Array:
        """The distance in characters to the last mark, or to the place before the text if there was none."""
        return np.asarray(self.index - self.last(mark))

    def count_since(self, mark: Array, reset: Array) -> Array:
        """The number of marks after the last reset."""
        count = np.concatenate([[0], np.cumsum(mark)])
        return np.asarray(count[1:] - count[self.last(reset) + 1])

    def between(self, opening: str, closing: str) -> Array:
        """From an opening mark to the character before a closing one, within a paragraph."""
        ended = np.maximum(self.last(self.are(closing.__contains__)), self.last(self.blank_line))
        return self.last(self.are(opening.__contains__)) > ended

    def paired(self, mark: str) -> Array:
        """The same for a mark that both opens and closes: from an odd one to the character before the next."""
        return np.asarray(self.count_since(self.are(mark.__eq__), self.blank_line) % 2 == 1)

    @cached_property
    def line_break(self) -> Array:
        return self.are("\n".__eq__)

    @cached_property
    def blank_line(self) -> Array:
        """The end of a paragraph, which also ends a quotation that was left open."""
        return self.line_break & before(self.line_break)

    @cached_property
    def letter(self) -> Array:
        return self.are(str.isalpha)

    @cached_property
    def sentence_end(self) -> Array:
        return self.are(".!?".__contains__) | self.blank_line


def before(mark: Array) -> Array:
    return np.concatenate([[False], mark[:-1]])


def after(mark: Array) -> Array:
    return np.concatenate([mark[1:], [False]])


@dataclass(frozen=True)
class Feature:
    """A feature: yes or no, or a number."""

    name: str
    values: Callable[[Characters], Array]  # one for each character
    number: bool = False
    # the value of a word or subword: of its last character, or whether any character has it; None: it is not computed
    words: Literal["last", "any"] | None = None


FEATURES = (
    Feature("inside quotation marks", lambda c: c.paired('"') | c.between(OPENING, CLOSING), words="last"),
    Feature("inside parentheses", lambda c: c.between("([", ")]"), words="last"),
    Feature("inside underscores", lambda c: c.paired("_"), words="last"),
    Feature("at the start of a line", lambda c: c.line_break, words="last"),
    Feature("after the end of a sentence", lambda c: c.last(c.sentence_end) > c.last(c.letter), words="last"),
    Feature("punctuation", lambda c: c.are(lambda s: not s.isalnum() and not s.isspace()), words="last"),
    Feature("a digit", lambda c: c.are(str.isdigit), words="any"),
    Feature("a capital", lambda c: c.are(str.isupper), words="any"),
    Feature("after a capital", lambda c: before(c.are(str.isupper))),
    Feature("a vowel", lambda c: c.are(VOWELS.__contains__)),
    Feature("inside a word", lambda c: c.letter),
    Feature("a space comes next", lambda c: after(c.are(" ".__eq__))),
    Feature("a line break comes next", lambda c: after(c.line_break), words="last"),
    Feature("position in the line", lambda c: c.since(c.line_break), number=True, words="last"),
    Feature("letters of the word so far", lambda c: c.since(~c.letter), number=True, words="last"),
    Feature(
        "words of the sentence so far",
        lambda c: c.count_since(c.letter & ~before(c.letter), c.sentence_end),
        number=True,
        words="last",
    ),
)


def features_of(text: str | Array, vocabulary: Vocabulary) -> dict[Feature, Array]:
    """The features of a text, or of ids, that fit this vocabulary, each with one value per token."""
    if isinstance(text, str) and vocabulary.end is not None:
        text = vocabulary.read(text, whole=True)
    text, tokens = _cut(text, vocabulary)
    characters = Characters(text)
    if vocabulary.kind == "word":
        ends = np.cumsum([len(word) for word in tokens])  # (T,)
        starts = np.append(0, ends[:-1])
        values = {f: f.values(characters) for f in FEATURES if f.words is not None}
        return {f: np.maximum.reduceat(v, starts) if f.words == "any" else v[ends - 1] for f, v in values.items()}
    if isinstance(vocabulary, BPEVocabulary):  # a token may begin or end inside of a character
        sizes = [len(c.encode("utf-8", "surrogateescape")) for c in text]
        at = np.repeat(np.arange(len(text)), sizes)  # the character that each byte belongs to
        ends = np.cumsum([len(token) for token in tokens])  # (T,)
        starts = np.append(0, ends[:-1])
        values = {f: f.values(characters)[at] for f in FEATURES if f.words is not None}
        return {f: np.maximum.reduceat(v, starts) if f.words == "any" else v[ends - 1] for f, v in values.items()}
    found = {feature: feature.values(characters) for feature in FEATURES}
    if vocabulary.kind == "byte":  # each byte of a character has its value
        sizes = [len(token) for token in tokens]
        return {feature: np.repeat(values, sizes) for feature, values in found.items()}
    return found


def _cut(text: str | Array, vocabulary: Vocabulary) -> tuple[str, list[str] | list[bytes]]:
    """The text and its pieces: words, subwords as bytes, or the bytes of each character; none for character tokens.

    The end of a sequence is read as the end of a line.
    """
    if isinstance(vocabulary, BPEVocabulary):
        pieces = [vocabulary.pieces[i] or b"\n" for i in (vocabulary.encode(text) if isinstance(text, str) else text)]
        return b"".join(pieces).decode("utf-8", "surrogateescape"), pieces
    if isinstance(text, str):
        if vocabulary.kind == "word":
            return text, [word for words in words_of([text]) for word in words]
        return text, [c.encode("utf-8", "surrogatepass") for c in text] if vocabulary.kind == "byte" else []
    if vocabulary.kind == "word":
        words = ["\n" if i == vocabulary.end else vocabulary.tokens[i] if i else UNKNOWN for i in text]
        return "".join(words), words
    if vocabulary.kind == "byte":  # a byte that is not UTF-8 becomes one character
        text = b"".join(vocabulary.pieces[i] or b"\n" for i in text).decode("utf-8", "surrogateescape")
        return text, [c.encode("utf-8", "surrogateescape") for c in text]
    return "".join("\n" if i == vocabulary.end else vocabulary.tokens[i] for i in text), []
