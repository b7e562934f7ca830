"""The copy report against brute force, also across the borders of chunks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elman.data import ByteVocabulary, CharVocabulary, WordVocabulary, corpus_from_text
from elman.errors import NotFittedError, RunError
from elman.models import LanguageModel, memorization
from elman.models.memorization import WINDOW, copy_report


def brute_force(sample, text):
    """(length of the longest stretch, share of windows, windows)"""
    windows = [sample[i : i + WINDOW] for i in range(len(sample) - WINDOW + 1)]
    if not windows:
        return 0, 0.0, 0
    stretches = (sample[i:j] for i in range(len(sample)) for j in range(i + WINDOW, len(sample) + 1))
    longest = max((len(stretch) for stretch in stretches if stretch in text), default=0)
    return longest, sum(window in text for window in windows) / len(windows), len(windows)


def judged(sample, text, vocabulary=None):
    vocabulary = vocabulary or CharVocabulary(text or "a")
    report = copy_report(sample, vocabulary, vocabulary.encode(text))
    assert report.longest in text
    assert report.longest in sample
    return len(report.longest), report.share, report.windows


@st.composite
def texts_with_copies(draw):
    """Stretches of the text among other letters, few different ones, so that much is repeated."""
    text = draw(st.text("ab", min_size=1, max_size=90))
    parts = []
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text) - 1))
        parts += [text[start : start + draw(st.integers(1, 40))], draw(st.text("abX", max_size=6))]
    return "".join(parts), text


@given(texts_with_copies(), st.integers(1, 40))
def test_it_says_what_brute_force_says_however_the_text_is_chunked(case, chunk):
    sample, text = case
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memorization, "CHUNK", chunk)
        assert judged(sample, text) == brute_force(sample, text)


@given(st.text("aé日🙂", min_size=20, max_size=60), st.integers(0, 30), st.integers(1, 9))
def test_the_bytes_of_a_character_may_lie_in_two_chunks(text, start, chunk):
    sample = text[start : start + 25]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memorization, "CHUNK", chunk)
        assert judged(sample, text, ByteVocabulary()) == brute_force(sample, text)


def test_words_are_compared_by_their_letters(monkeypatch):
    monkeypatch.setattr(memorization, "CHUNK", 3)
    text = "the cat sat on the mat and the dog sat on the log " * 3
    vocabulary = WordVocabulary.of([text], min_count=1)
    sample = "a dog sat on the log the cat flew"
    report = copy_report(sample, vocabulary, vocabulary.encode(text))
    assert report.longest == " dog sat on the log the cat "
    assert (len(report.longest), report.share, report.windows) == brute_force(sample, text)


def test_hashes_that_collide_are_no_copies(monkeypatch):
    def zeros(text, step=1):
        return np.zeros(max(len(text) - WINDOW + 1, 0), np.uint64)[::step]

    monkeypatch.setattr(memorization, "_hashes", zeros)
    sample, text = "abcdefghijklmnop", "zyxwvutsrqponmlkabcdefghijklm"
    assert judged(sample, text, CharVocabulary(text + sample)) == brute_force(sample, text) == (13, 2 / 5, 5)


def test_a_text_of_one_letter_is_compared_fast():
    """A stretch is followed from its beginning only, else this would be 100,000 × 500 × 500 comparisons."""
    assert judged("a" * 500, "a" * 100_000) == (500, 1.0, 489)


@pytest.mark.parametrize(("sample", "said"), [
    ("a" * 11, "too short to say: copies are counted in substrings of 12 characters"),
    ("", "too short to say: copies are counted in substrings of 12 characters"),
    ("z" * 12, "0% of its 12-character substrings occur in the training text"),
    ("abcdefghijklmzzz", "40% of its 12-character substrings occur in the training text; the longest has 13: "
     "'abcdefghijklm'"),
])  # fmt: skip
def test_the_report_in_words(sample, said):
    vocabulary = CharVocabulary("abcdefghijklmz")
    assert str(copy_report(sample, vocabulary, vocabulary.encode("abcdefghijklm"))) == said


# -- of a model -------------------------------------------------------------------------------------------------------


def test_only_the_text_trained_on_counts(char_model):
    text = char_model.vocabulary_.decode(char_model.corpus_.ids)
    trained = char_model.corpus_.split(0.1).train
    assert char_model.copies(text[:50]).share == 1
    model = LanguageModel(hidden=8, steps=1, validation_fraction=0.5, batch_size=2, window=16).fit(
        "a" * 100 + "b" * 100
    )
    assert model.copies("a" * 20).share == 1
    assert model.copies("b" * 20).share == 0
    assert len(trained) < len(text)


def test_a_loaded_run_finds_its_text(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("the quick brown fox\n" * 20)
    LanguageModel(hidden=8, steps=1, batch_size=2, window=16).fit(file, out=tmp_path / "run")
    assert LanguageModel.load(tmp_path / "run").copies("the quick brown cat").longest == "the quick brown "
    LanguageModel.load(tmp_path / "run").save(tmp_path / "again")  # the record of the text is kept
    assert LanguageModel.load(tmp_path / "again").copies("the quick brown cat").longest == "the quick brown "


def test_a_text_in_memory_is_kept_by_a_run_but_not_by_save(tmp_path):
    model = LanguageModel(hidden=8, steps=1, batch_size=2, window=16).fit(
        "the quick brown fox\n" * 20, out=tmp_path / "run"
    )
    assert LanguageModel.load(tmp_path / "run").copies("the quick brown cat").longest == "the quick brown "
    model.save(tmp_path / "saved")
    with pytest.raises(RunError, match="text that it was trained on"):
        LanguageModel.load(tmp_path / "saved").copies("the quick brown cat")


def test_before_fit_there_is_nothing_to_compare_with():
    with pytest.raises(NotFittedError):
        LanguageModel().copies("x")


def test_the_corpus_of_a_char_model_is_the_text_itself():
    text = "one two three four five six seven"
    corpus = corpus_from_text(text)
    assert copy_report("two three four six", corpus.vocabulary, corpus.ids).longest == "two three four "
