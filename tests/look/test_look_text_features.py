"""Readable features of a text: by example, and against a reader who goes character by character."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elman.data import ByteVocabulary, CharVocabulary, WordVocabulary
from elman.look.text_features import FEATURES, features_of

TEXTS = st.text(st.sampled_from('ab Cé1"“”()[]._,\n!'), min_size=1, max_size=60)


def values(text, name, vocabulary=None):
    found = features_of(text, vocabulary or CharVocabulary(text))
    return {feature.name: v for feature, v in found.items()}[name]


@pytest.mark.parametrize(("name", "text", "expected"), [
    ("inside quotation marks", 'I "see" it.', "..xxxx....."),
    ("inside quotation marks", "I “see” it.", "..xxxx....."),
    ("inside quotation marks", '"a\n\nb" c', "xxx..xxx"),  # a paragraph's end ends it, and the next mark opens
    ("inside parentheses", "f(x) [y]", ".xx..xx."),
    ("inside parentheses", "1) a (b", ".....xx"),  # what was never opened closes nothing
    ("inside underscores", "a _b_ c", "..xx..."),
    ("at the start of a line", "a\nb", ".x."),
    ("after the end of a sentence", 'a. "B', ".xxx."),
    ("punctuation", "a, b!", ".x..x"),
    ("a digit", "a 12", "..xx"),
    ("a capital", "Ab É", "x..x"),
    ("after a capital", "Ab Cd", ".x..x"),
    ("a vowel", "Oboe", "x.xx"),
    ("inside a word", "ab c", "xx.x"),
    ("a space comes next", "ab c", ".x.."),
    ("a line break comes next", "ab\nc", ".x.."),
    ("position in the line", "ab\ncd", "12012"),
    ("letters of the word so far", "abc d", "12301"),
    ("words of the sentence so far", "Ab cd. Ef", "111220011"),
])  # fmt: skip
def test_what_a_feature_is(name, text, expected):
    found = values(text, name)
    told = expected if expected[0].isdigit() else [c == "x" for c in expected]
    assert [int(v) for v in found] == [int(c) for c in told]


def reader(text):
    """The same, one character after the other."""
    quoted = curly = bracket = emphasis = False
    line = word = words = 0
    for i, c in enumerate(text):
        blank = text[max(i - 1, 0) : i + 1] == "\n\n"
        if blank:
            quoted = curly = bracket = emphasis = False
        quoted ^= c == '"'
        emphasis ^= c == "_"
        curly = (curly or c == "“") and c != "”"
        bracket = (bracket or c in "([") and c not in ")]"
        line = 0 if c == "\n" else line + 1
        words += c.isalpha() and not word
        word = word + 1 if c.isalpha() else 0
        if c in ".!?" or blank:
            words = 0
        yield quoted or curly, bracket, emphasis, line, word, words


@given(TEXTS)
def test_features_are_those_of_a_reader(text):
    names = ("inside quotation marks", "inside parentheses", "inside underscores", "position in the line",
             "letters of the word so far", "words of the sentence so far")  # fmt: skip
    found = np.stack([values(text, name) for name in names], axis=1)
    np.testing.assert_array_equal(found, list(reader(text)))


@given(TEXTS)
def test_every_byte_of_a_character_has_its_value(text):
    sizes = [len(c.encode()) for c in text]
    for (feature, chars), bytes_ in zip(
        features_of(text, CharVocabulary(text)).items(), features_of(text, ByteVocabulary()).values(), strict=True
    ):
        np.testing.assert_array_equal(np.repeat(chars, sizes), bytes_, feature.name)


def test_words_have_the_value_of_their_last_character_or_of_any():
    text = 'Ann said "It is 12\nnow"'
    vocabulary = WordVocabulary(["<unk>", "Ann"])
    assert values(text, "a capital", vocabulary).tolist() == [1, 0, 0, 1, 0, 0, 0, 0, 0]
    assert values(text, "a digit", vocabulary).tolist() == [0, 0, 0, 0, 0, 1, 0, 0, 0]
    assert values(text, "inside quotation marks", vocabulary).tolist() == [0, 0, 1, 1, 1, 1, 1, 1, 0]
    assert values(text, "letters of the word so far", vocabulary).tolist() == [3, 4, 0, 2, 2, 0, 0, 3, 0]
    assert "a vowel" not in {feature.name for feature in features_of(text, vocabulary)}


def test_names_are_different():
    assert len({feature.name for feature in FEATURES}) == len(FEATURES)
