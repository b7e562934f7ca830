"""Subwords: reversible for any text, the ids of `tokenizers` for the same merges, learned in seconds."""

from __future__ import annotations

import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elman.data import BPEVocabulary, corpus_from_text, vocabulary_from_json
from elman.data.symbols import EDGE_ID, Symbols
from elman.data.vocabulary import MAX_TOKENS
from elman.errors import CheckpointError, RangeError, VocabularyError
from elman.models import LanguageModel, Seq2Seq, SequenceClassifier
from elman.models.loading import load_model

TEXT = (
    "The lower the better: low, lower, lowest. Naïve café, the best of the best!\n\nIt is the newest and widest.\n" * 9
)
LEARNED = BPEVocabulary.of([TEXT], vocabulary_size=330)


def test_the_most_frequent_pair_is_merged_first():
    found = BPEVocabulary.learn({"ab": 5, "abc": 3, "xbc": 4}, vocabulary_size=258)
    assert found.pieces[256:] == (b"ab", b"bc")  # ab 8 times; then bc, left in xbc alone, 4; "ab" "c" 3
    assert BPEVocabulary.learn({"ab": 1}, 300).merges == ()  # seen only once


@given(st.text())
def test_any_text_is_decoded_to_itself(text):
    assert LEARNED.decode(LEARNED.encode(text)) == text
    decoder = LEARNED.decoder()
    assert "".join(map(decoder.feed, LEARNED.encode(text).tolist())) + decoder.end() == text


@settings(max_examples=30)
@given(st.text("the low\nést🙂.", max_size=40), st.integers(1, 7))
def test_a_text_in_chunks_has_the_same_ids(text, size):
    chunks = [text[i : i + size] for i in range(0, len(text), size)]
    parts = [part.ids for part in LEARNED.encode_chunks(chunks, "error")]
    np.testing.assert_array_equal(np.concatenate([np.empty(0, np.uint16), *parts]), LEARNED.encode(text))


def judge(vocabulary: BPEVocabulary):
    """The same merges in `tokenizers`."""
    tokenizers = pytest.importorskip("tokenizers")
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers

    letters = pre_tokenizers.ByteLevel.alphabet()
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]  # GPT-2's table from bytes to letters
    table = {byte: chr(byte) for byte in printable}
    table |= {byte: chr(256 + n) for n, byte in enumerate(b for b in range(256) if b not in printable)}
    assert set(table.values()) == set(letters)
    names = ["".join(map(table.__getitem__, piece)) for piece in vocabulary.pieces]
    assert tokenizers.__version__
    merges = [(names[left], names[right]) for left, right in vocabulary.merges]
    tokenizer = Tokenizer(models.BPE({name: i for i, name in enumerate(names)}, merges))
    words = pre_tokenizers.Split(Regex(r" ?\w{1,64}| ?[^\w\s]|\s"), "isolated")
    bytes_ = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, bytes_])
    return tokenizer


@pytest.mark.parametrize("text", [TEXT, "Lowest of the low? naïve — 🙂🙂 ok_1 \t\n  x", "", "été\r\n" * 3])
def test_the_same_merges_give_the_ids_of_tokenizers(text):
    assert LEARNED.encode(text).tolist() == judge(LEARNED).encode(text).ids


@settings(max_examples=50, deadline=None)
@given(st.text("thelowrst béàñ,.!\n", max_size=60))
def test_ids_equal_those_of_tokenizers_for_random_texts(text):
    assert LEARNED.encode(text).tolist() == judge(LEARNED).encode(text).ids


def test_learning_equals_counting_all_pairs_again_for_each_merge():
    words, merges = {w: [*w.encode()] for w in Counter(TEXT.split())}, []
    counts = Counter(TEXT.split())
    for new in range(256, 285):
        pairs: Counter = Counter()
        for word, ids in words.items():
            for pair in pairwise(ids):
                pairs[pair] += counts[word]
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        for word, ids in words.items():
            out, i = [], 0
            while i < len(ids):
                two = tuple(ids[i : i + 2]) == best
                out.append(new if two else ids[i])
                i += 1 + two
            words[word] = out
    assert BPEVocabulary.learn(counts, 285).merges == tuple(merges)


def test_a_megabyte_takes_seconds():
    rng = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    words = ["".join(rng.choice(letters, size)) for size in rng.integers(2, 10, 20_000)]
    text = " ".join(words[i] for i in np.minimum(rng.zipf(1.3, 180_000), 20_000) - 1)
    assert len(text) > 800_000
    start = time.process_time()
    vocabulary = BPEVocabulary.of([text], vocabulary_size=2048)
    ids = vocabulary.encode(text)
    assert time.process_time() - start < 30  # about 3 seconds on an idle machine
    assert len(vocabulary) == 2048
    assert vocabulary.decode(ids) == text


def test_the_message_names_the_limit_that_is_exceeded(monkeypatch):
    with pytest.raises(RangeError, match=r"got 100\. Subwords begin .*: choose a larger vocabulary_size"):
        BPEVocabulary.learn({"ab": 2}, 100)
    with pytest.raises(RangeError, match=rf"256 to {MAX_TOKENS} for bpe, got {MAX_TOKENS + 1}$"):
        BPEVocabulary.learn({"ab": 2}, MAX_TOKENS + 1)
    with pytest.raises(VocabularyError, match="tokens of at most 1024 bytes"):
        BPEVocabulary([(1, 1), *((256 + i, 256 + i) for i in range(10))])
    monkeypatch.setattr("elman.data.bpe.MAX_TOKENS", 257)
    with pytest.raises(VocabularyError, match="at most 1, so that there are at most 257 tokens, got 2"):
        BPEVocabulary([(1, 1), (1, 2)])


def test_a_vocabulary_survives_json_and_damage_is_refused():
    value = LEARNED.to_json()
    assert vocabulary_from_json(value) == LEARNED
    for merges in ([[256, 1]], [[1, 2], [1, 2]], [[-1, 3]], [[1, 2, 3]], [["a", 1]], "x", [[1.0, 2]],
                   [[1, 1], *([256 + i, 256 + i] for i in range(40))]):  # fmt: skip
        with pytest.raises(CheckpointError):
            vocabulary_from_json({"kind": "bpe", "merges": merges})


def test_a_vocabulary_smaller_than_the_bytes_is_refused():
    with pytest.raises(RangeError, match="vocabulary_size: expected 256 to"):
        corpus_from_text(TEXT, tokens="bpe", vocabulary_size=100)


def test_a_corpus_is_encoded_as_subwords(tmp_path: Path):
    corpus = corpus_from_text(TEXT, tokens="bpe", vocabulary_size=300)
    assert corpus.vocabulary.kind == "bpe"
    assert corpus.characters == len(TEXT)
    assert len(corpus.ids) < len(TEXT) / 1.5
    assert corpus.vocabulary.decode(corpus.ids) == TEXT


def test_sequences_are_decoded_to_themselves():
    texts = ["the lower", "the lowest", " low", ""]
    symbols = Symbols.of(texts, "bpe", vocabulary_size=300, min_count=1)
    for text in [*texts, "new wörds 🙂 "]:
        ids = symbols.encode(text)
        assert symbols.decode([*ids, EDGE_ID, 5]) == text
        assert "".join(symbols.tokenize("the lower")) == " the lower"
    again = Symbols.from_json(symbols.to_json())
    assert again.encode("the lowest").tolist() == symbols.encode("the lowest").tolist()
    assert again.longest == symbols.longest
    for damage in ({"counts": [1]}, {"longest": -1}, {"merges": [[300, 1]]}):
        with pytest.raises(CheckpointError):
            Symbols.from_json({**symbols.to_json(), **damage})


def test_a_language_model_is_trained_on_subwords(tmp_path):
    options = {"tokens": "bpe", "vocabulary_size": 300, "hidden": 16, "steps": 20, "batch_size": 4, "window": 8}
    model = LanguageModel(**options).fit(TEXT * 5, listeners=[])
    model.save(tmp_path / "run")
    again = LanguageModel.load(tmp_path / "run")
    assert again.vocabulary_ == model.vocabulary_
    assert again.sample(30, prompt="The naïve 🙂", seed=3) == model.sample(30, prompt="The naïve 🙂", seed=3)
    text = "The lowest 🙂é"  # characters that are in no token, and tokens of several characters
    ids = model.vocabulary_.encode(text)
    losses = model.surprise(text)
    assert len(losses) == len(text)
    first = len(model.vocabulary_.pieces[ids[0]])
    assert np.isnan(losses[:first]).all()
    figures = model.evaluate(text)
    assert losses[first:].sum() == pytest.approx(figures.nats_per_token * (len(ids) - 1), rel=1e-5)


def test_sequence_models_are_trained_on_subwords(tmp_path):
    X, y = ["go on now", "stop it now", "go on", "no"] * 5, ["va donc", "arrête ça", "va", "été"] * 5
    options = {"tokens": "bpe", "vocabulary_size": 280, "hidden": 16, "steps": 5, "random_state": 0}
    model = Seq2Seq(**options, target_tokens="bpe").fit(X, y, listeners=[])
    model.save(tmp_path / "run")
    assert load_model(tmp_path / "run").predict(X[:3], limit=8) == model.predict(X[:3], limit=8)
    assert SequenceClassifier(**options).fit(X, y, listeners=[]).predict(["né 🙂"]).shape == (1,)
