"""Vocabularies: decoding inverts encoding, unknown tokens are named, invalid vocabularies are refused."""

import json
import re
import string

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elman.data import (
    ByteVocabulary,
    CharVocabulary,
    Vocabulary,
    WordVocabulary,
    vocabulary_from_json,
)
from elman.data import words as words_module
from elman.data.words import UNK, words_of
from elman.errors import CheckpointError, RangeError, UnknownNameError, VocabularyError

any_text = st.text(st.characters(), max_size=200)  # lone surrogates too
prose = st.text(st.sampled_from("ab é'.\n\t,_9－"), max_size=200)


def cut(text: str, size: int) -> list[str]:
    return [text[i : i + size] for i in range(0, len(text), size)]


def joined(vocabulary: Vocabulary, chunks: list[str], unknown: str = "error") -> list[int]:
    return [i for part in vocabulary.encode_chunks(chunks, unknown) for i in part.ids.tolist()]


@given(any_text.filter(bool))
@example("\ud800 lone surrogate")
@example("\x00\x7f\x80ÿĀ\U0010ffff")
def test_characters_are_decoded_to_themselves(text: str) -> None:
    vocabulary = CharVocabulary(text)
    assert vocabulary.decode(vocabulary.encode(text)) == text
    assert vocabulary.tokens == tuple(sorted(set(text)))
    assert vocabulary == CharVocabulary.of(cut(text, 3))
    assert vocabulary_from_json(json.loads(json.dumps(vocabulary.to_json()))) == vocabulary


@given(any_text)
def test_bytes_are_decoded_to_themselves(text: str) -> None:
    vocabulary = ByteVocabulary()
    ids = vocabulary.encode(text)
    assert bytes(ids) == text.encode("utf-8", "surrogatepass")
    if not any("\ud800" <= character <= "\udfff" for character in text):
        assert vocabulary.decode(ids) == text


@given(any_text | prose)
def test_words_are_decoded_to_themselves(text: str) -> None:
    vocabulary = WordVocabulary.of([text], min_count=1)
    assert vocabulary.decode(vocabulary.encode(text)) == text


def test_words_include_the_space_before_them() -> None:
    words = [word for some in words_of(["It is a truth,  isn't\n it?"]) for word in some]
    assert words == ["It", " is", " a", " truth", ",", " ", " isn", "'", "t", "\n", " it", "?"]


def test_a_very_long_word_is_split() -> None:
    assert [word for some in words_of(["a" * 150]) for word in some] == ["a" * 64, "a" * 64, "a" * 22]


@given(prose, st.integers(1, 9))
@example("a" * 200, 7)
def test_words_do_not_depend_on_the_chunks(text: str, size: int) -> None:
    vocabulary = WordVocabulary.of([text], min_count=2)
    assert WordVocabulary.of(cut(text, size), min_count=2) == vocabulary
    assert joined(vocabulary, cut(text, size), "replace") == vocabulary.encode(text, unknown="replace").tolist()


@given(st.text(st.sampled_from("aéb€\n"), min_size=1, max_size=50), st.integers(1, 9))
def test_characters_do_not_depend_on_the_chunks(text: str, size: int) -> None:
    vocabulary = CharVocabulary(text)
    assert joined(vocabulary, cut(text, size)) == vocabulary.encode(text).tolist()


@pytest.mark.parametrize(("size", "dtype"), [(1, "uint8"), (256, "uint8"), (257, "uint16"), (65537, "uint32")])
def test_ids_are_as_small_as_they_can_be(size: int, dtype: str) -> None:
    vocabulary = CharVocabulary(map(chr, range(size)))
    text = "".join(vocabulary.tokens)
    assert len(vocabulary) == size
    for piece in (text, text[:100]):  # with and without characters beyond ASCII
        assert vocabulary.encode(piece).dtype == dtype
        assert vocabulary.encode(piece).tolist() == list(range(len(piece)))


@pytest.mark.parametrize(
    ("text", "named"),
    [("a?b!", "'?', '!'"), ("aéb!", "'é', '!'"), ("a\U0001f600", "'😀'"), ("a\udcff", r"'\udcff'"), ("z", "'z'")],
)
def test_unknown_characters_are_named_or_skipped(text: str, named: str) -> None:
    vocabulary = CharVocabulary("ab ")
    with pytest.raises(VocabularyError, match=rf"{re.escape(named)}\. .*unknown='skip'"):
        vocabulary.encode(text)
    assert vocabulary.decode(vocabulary.encode(text, unknown="skip")) == "".join(c for c in text if c in "ab ")
    with pytest.raises(VocabularyError, match="for words"):
        vocabulary.encode(text, unknown="replace")


def test_many_unknown_characters_are_not_all_listed() -> None:
    with pytest.raises(VocabularyError, match="'a', 'b', 'c', 'd', 'e' and 21 more"):
        CharVocabulary("!").encode(string.ascii_lowercase * 2)


def test_unknown_words_are_named_replaced_or_skipped() -> None:
    vocabulary = WordVocabulary([UNK, "a", " b"])
    with pytest.raises(VocabularyError, match=r"' zebra'.*unknown='replace'"):
        vocabulary.encode("a zebra b")
    assert vocabulary.encode("a zebra b", unknown="replace").tolist() == [1, 0, 2]
    assert vocabulary.encode("a zebra b", unknown="skip").tolist() == [1, 2]
    (skipped,) = (part for part in vocabulary.encode_chunks(["a zebra b"], "skip") if part.unknown)
    assert (skipped.unknown, skipped.characters) == (1, 1)  # " b" was held back for the next chunk
    with pytest.raises(UnknownNameError, match="one of error, skip, replace"):
        vocabulary.encode("a", unknown="ignore")  # type: ignore[arg-type]


def test_frequent_words_come_first_and_equals_by_code_point() -> None:
    text = "b a\nb a\nb c\nd"
    assert WordVocabulary.of([text]).tokens == (UNK, "\n", "b", " a")
    assert WordVocabulary.of([text], vocabulary_size=2, min_count=1).tokens == (UNK, "\n", "b")
    assert WordVocabulary.of([text], min_count=1).tokens == (UNK, "\n", "b", " a", " c", "d")


def test_counting_words_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words_module, "MAX_COUNTED", 10)
    rare = "".join(f" r{i} often often" for i in range(1000))
    vocabulary = WordVocabulary.of(cut(rare, 50), min_count=1)
    assert len(vocabulary) <= 11
    assert vocabulary.tokens[1] == " often"


@given(st.lists(st.integers(0, 255), max_size=40))
@example([*"é€😀".encode(), 0xE2, 0x82])
def test_a_byte_decoder_gives_what_decode_gives_and_never_half_a_character(ids: list[int]) -> None:
    vocabulary = ByteVocabulary()
    decoder = vocabulary.decoder()
    assert "".join(map(decoder.feed, ids)) + decoder.end() == vocabulary.decode(ids)


def test_a_byte_decoder_waits_for_the_whole_character() -> None:
    decoder = ByteVocabulary().decoder()
    assert [decoder.feed(byte) for byte in "a€".encode()] == ["a", "", "", "€"]
    assert decoder.feed(0xE2) + decoder.end() == "\ufffd"


def test_a_token_decoder_gives_tokens() -> None:
    decoder = WordVocabulary([UNK, "a", " b"]).decoder()
    assert [decoder.feed(1), decoder.feed(2), decoder.end()] == ["a", " b", ""]


@pytest.mark.parametrize("vocabulary", [CharVocabulary("ab"), WordVocabulary([UNK, "a"]), ByteVocabulary()])
def test_ids_outside_the_vocabulary_are_refused(vocabulary: Vocabulary) -> None:
    for ids in ([-1], [0, len(vocabulary)], [0.5]):
        with pytest.raises(RangeError, match="token ids"):
            vocabulary.decode(ids)
    with pytest.raises(RangeError, match="token ids"):
        vocabulary.decoder().feed(-1)
    assert vocabulary.decode([]) == vocabulary.decode(np.empty(0, np.uint8)) == ""


def test_byte_tokens_have_printable_names() -> None:
    tokens = ByteVocabulary().tokens
    assert len(set(tokens)) == 256
    assert all(token.isprintable() for token in tokens)
    assert (tokens[65], tokens[10], tokens[255]) == ("A", "0x0A", "0xFF")


def test_vocabularies_are_equal_by_kind_and_tokens() -> None:
    assert CharVocabulary("ab") == CharVocabulary("ba") != CharVocabulary("abc")
    assert len({CharVocabulary("ab"), CharVocabulary("ba"), WordVocabulary([UNK]), ByteVocabulary()}) == 3
    for vocabulary in (CharVocabulary("ab"), WordVocabulary([UNK, "a"]), ByteVocabulary()):
        assert vocabulary_from_json(vocabulary.to_json()) == vocabulary


@pytest.mark.parametrize(
    "foreign",
    [
        None,
        [],
        {},
        {"kind": "char"},
        {"kind": ["char"], "tokens": ["a"]},
        {"kind": "letters", "tokens": ["a"]},
        {"kind": "byte", "tokens": []},
        {"kind": "char", "tokens": "ab"},
        {"kind": "char", "tokens": []},
        {"kind": "char", "tokens": ["a", 1]},
        {"kind": "char", "tokens": ["a", "bc"]},
        {"kind": "char", "tokens": ["a", ""]},
        {"kind": "char", "tokens": ["a", "a"]},
        {"kind": "char", "tokens": ["b", "a"]},
        {"kind": "char", "tokens": ["a"], "more": 1},
        {"kind": "word", "tokens": ["a", "b"]},
        {"kind": "word", "tokens": [UNK, "a", "a"]},
        {"kind": "word", "tokens": [UNK, ""]},
        {"kind": "word", "tokens": [UNK, []]},
        {"kind": "word", "tokens": [UNK, *map(str, range(0x110000))]},
    ],
    ids=lambda foreign: str(foreign)[:40],
)
def test_invalid_vocabularies_are_refused(foreign: object) -> None:
    with pytest.raises(CheckpointError):
        vocabulary_from_json(foreign)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
)
nearly = st.fixed_dictionaries(
    {"kind": st.sampled_from(["char", "byte", "word"]) | json_values},
    optional={"tokens": st.lists(st.text(max_size=2) | json_values, max_size=4) | json_values},
)


@given(json_values | nearly)
def test_any_json_is_a_vocabulary_or_a_checkpoint_error(obj: object) -> None:
    try:
        vocabulary = vocabulary_from_json(obj)
    except CheckpointError:
        return
    assert vocabulary.to_json() == obj
