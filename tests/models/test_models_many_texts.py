"""A language model of separate sequences: each is read from the initial state to its end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elman import LanguageModel
from elman.data import CharVocabulary, corpus_from_text, open_corpus, vocabulary_from_json
from elman.data.streams import SequenceStream, edges_of, sequences_of
from elman.errors import ArgumentError, DataError, ElmanError
from elman.look import analysis
from elman.models import runs
from elman.models.evaluation import CHUNK, mean_loss, token_losses
from elman.network import Batch, Draw, Dropout

SMALL = {"hidden": 16, "embedding": 0, "steps": 1, "validation_fraction": 0.0}
SEEDS = [*range(3), *(pytest.param(seed, marks=pytest.mark.nightly) for seed in range(3, 20))]
WORDS = ["hello", "cat", "a", "concatenation", "hell", "tea\ntime", "lollipop"]


def fit(sequences, **options) -> LanguageModel:
    return LanguageModel(**SMALL | options).fit(sequences, listeners=[])


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("seed", SEEDS)
def test_two_words_are_learned_with_defaults(cell, seed, monkeypatch):
    monkeypatch.delenv("ELMAN_KERNELS")
    model = LanguageModel(cell=cell, seed=seed).fit(["hello", "cat"], listeners=[])
    assert model.complete("hell", 1) == "hello"
    assert model.complete("ca", 1) == "cat"
    assert model.complete("hello", 9) == "hello", "the text is complete"
    assert set(model.sample_many(100, temperature=0.1)) <= {"hello", "cat"}
    assert model.sample(temperature=0, beam=3) in ("hello", "cat")
    first = model.next_distribution("")
    assert abs(first["h"] - 0.5) < 0.05
    assert abs(first["c"] - 0.5) < 0.05
    assert model.next_distribution("hello")["<end>"] > 0.9
    assert model.surprise("hello")[-1] < 0.1, "the end is expected"
    assert model.surprise("hel")[-1] > 3, "and here it is not"


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("seed", SEEDS)
def test_five_characters_are_a_text(cell, seed, monkeypatch):
    monkeypatch.delenv("ELMAN_KERNELS")
    model = LanguageModel(cell=cell, seed=seed).fit("hello", listeners=[])
    assert model.complete("hell", 1) == "hello"
    assert model.vocabulary_.end is None
    assert model.config_.validation_fraction == 0, "too short to judge it by a part of it"


def test_the_first_letters_have_the_share_of_the_data(monkeypatch):
    monkeypatch.delenv("ELMAN_KERNELS")
    words = ["ape", "ant", "axe", "bee", "cow", "cat", "dog", "doe", "dab", "day"]
    first = LanguageModel().fit(words, listeners=[]).next_distribution("")
    for letter, count in Counter(word[0] for word in words).items():
        assert abs(first[letter] - count / len(words)) < 0.05


def test_a_line_break_inside_a_sequence_is_a_character(monkeypatch):
    monkeypatch.delenv("ELMAN_KERNELS")
    model = LanguageModel().fit(["tea\ntime", "cat"], listeners=[])
    assert model.complete("tea") == "tea\ntime"


def test_a_sequence_does_not_depend_on_its_neighbors_or_their_order():
    model = fit(WORDS, steps=30)
    alone = [float(model.surprise(word).sum()) for word in WORDS]
    for order in (WORDS, WORDS[::-1]):
        found = model.evaluate(order)
        assert found.tokens == sum(len(word) + 1 for word in WORDS), "ends are predicted too"
        assert found.nats_per_token * found.tokens == pytest.approx(sum(alone), rel=1e-5)
    dynamic = model.evaluate(WORDS, dynamic=True)
    assert dynamic.tokens == found.tokens
    assert dynamic.nats_per_token == pytest.approx(found.nats_per_token, rel=0.1)
    assert -model.score("hello") * 6 == pytest.approx(alone[0], rel=1e-5), "a str is one sequence"


def test_a_long_sequence_is_evaluated_in_chunks_with_the_same_result():
    model = fit(["ab" * CHUNK, "abba"], steps=3)
    network, p = model.network_, model.parameters_
    ids = corpus_from_text(["ab" * CHUNK, "abba", "ba" * 2000], vocabulary=model.vocabulary_).ids
    assert max(map(len, token_losses(network, p, ids))) <= CHUNK
    alone = [losses.sum() for one in sequences_of(ids, network.end) for losses in token_losses(network, p, one)]
    assert mean_loss(network, p, ids) == pytest.approx(sum(alone) / (len(ids) - 1), rel=1e-5)


@pytest.mark.parametrize("tokens", ["char", "byte", "word", "bpe"])
def test_every_kind_of_token_knows_ends(tokens, tmp_path):
    texts = ["the cat sat", "a dog", "the dog sat on the cat", "naïve 🙂 cats"]
    model = fit(texts, tokens=tokens, min_count=1, steps=20, hidden=24)
    vocabulary = model.vocabulary_
    assert vocabulary.tokens[vocabulary.end] == "<end>"
    assert vocabulary.end == len(vocabulary) - 1
    assert vocabulary_from_json(vocabulary.to_json()) == vocabulary
    assert vocabulary_from_json({k: v for k, v in vocabulary.to_json().items() if k != "end"}) != vocabulary
    ids = vocabulary.read("the cat", whole=True)
    assert ids[0] == ids[-1] == vocabulary.end
    assert vocabulary.decode(ids) == "the cat"
    for text in texts:
        assert len(model.surprise(text)) == len(text) + 1
        assert np.isfinite(model.surprise(text)).all(), "the first token is predicted too"
        assert "<end>" not in model.sample(30, prompt=text.split()[0], seed=1)
    model.save(tmp_path / "run")
    again = LanguageModel.load(tmp_path / "run")
    assert again.sample_many(5, 20) == model.sample_many(5, 20)
    assert again.network_.end == vocabulary.end


def test_streamed_samples_are_those_of_a_batch():
    model = fit(WORDS, steps=40, hidden=32)
    many = model.sample_many(20, 40, prompt="h", seed=3, temperature=1.5)
    assert many == [model.sample(40, prompt="h", seed=3, index=i, temperature=1.5) for i in range(20)]
    assert len({len(text) for text in many}) > 1, "they end at different lengths"


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(max_size=6), max_size=8))
def test_any_list_of_short_strings_gives_a_model_or_a_sentence(sequences):
    if any(sequences):
        assert isinstance(fit(sequences).sample(10), str)
    else:
        with pytest.raises(DataError, match="no text"):
            fit(sequences)


@pytest.mark.parametrize(
    ("given", "words"),
    [([], "no text"), (["", ""], "no text"), (["a", 1], "int as item 1"), (3, "a list of str"), ("a", "two tokens"),
     ("", "no text"), (b"abc", "got bytes"), ({"a": 1}, "got dict"), ({"a"}, "got set")],
)  # fmt: skip
def test_what_cannot_be_learned_gets_a_sentence(given, words):
    with pytest.raises(ElmanError, match=words):
        fit(given)


def test_empty_sequences_are_skipped_and_counted():
    corpus = corpus_from_text(["a", "", "b", ""])
    assert corpus.notes == ("Empty sequences left out: 2.",)
    assert corpus.ids.tolist() == [2, 0, 2, 1, 2]


def test_the_lines_of_a_file_are_sequences(tmp_path):
    (tmp_path / "words.txt").write_text("hello\r\n\ncat", encoding="utf-8")
    lines = open_corpus(tmp_path / "words.txt", sequences=True)
    items = corpus_from_text(["hello", "cat"])
    assert lines.vocabulary == items.vocabulary == CharVocabulary("helocat").with_end()
    assert lines.ids.tolist() == items.ids.tolist()
    assert lines.notes == ("Empty sequences left out: 1.",)
    assert corpus_from_text("hello\n\ncat", sequences=True).ids.tolist() == items.ids.tolist()
    assert corpus_from_text(["hel", "locat"]).sha256 != items.sha256


def test_a_text_that_names_a_file_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("novel.txt").write_text("It was. " * 100)
    Path("hello").write_text("It was. " * 100)
    with pytest.raises(DataError, match=r"Give a Path: Path\('novel.txt'\)"):
        fit("novel.txt")
    with pytest.raises(DataError, match=r"Give a Path"):
        fit("./hello")
    assert fit("hello").corpus_.characters == 5, "without a suffix or a separator it is a text"


def test_held_out_sequences_are_whole_and_new():
    words = [word for word in (f"{a}{b}{c}" for a in "abcdef" for b in "ghi" for c in "klmno") for _ in range(2)]
    corpus = corpus_from_text(words)
    model = fit(words, validation_fraction=0.2, test_fraction=0.1, seed=4)
    config = model.config_
    split = runs.split_corpus(corpus, config)
    end = corpus.vocabulary.end
    parts = [
        [corpus.vocabulary.decode(one) for one in sequences_of(ids, end)]
        for ids in (split.train, split.validation, split.test)
    ]
    assert sorted(word for part in parts for word in part) == sorted(words)
    assert not set(parts[0]) & set(parts[1])
    assert not set(parts[0]) & set(parts[2])
    assert not set(parts[1]) & set(parts[2])
    assert len(parts[1]) == pytest.approx(0.2 * len(words), abs=2)
    other = runs.split_corpus(corpus, config.with_options(seed=5))
    assert other.validation.tolist() != split.validation.tolist(), "drawn by the seed"


def stream_of(sequences, batch, window, **options):
    corpus = corpus_from_text(sequences)
    order = lambda epoch: np.random.default_rng(epoch).permutation(len(sequences))  # noqa: E731
    return corpus, SequenceStream(corpus.ids, corpus.vocabulary.end, batch=batch, window=window, order=order, **options)


@pytest.mark.parametrize(("batch", "window"), [(1, 3), (3, 4), (5, 64), (7, 1)])
def test_a_stream_reads_every_sequence_once_per_epoch_and_whole(batch, window):
    corpus, stream = stream_of(WORDS, batch, window)
    open_lanes, done = [[] for _ in range(batch)], []
    while len(done) < 3 * len(WORDS):
        read = stream.next()
        assert read.lengths is not None
        assert read.tokens == read.lengths.sum()
        assert len(read.x) == read.lengths.max() <= window
        for lane, steps in enumerate(read.lengths):
            x, y = read.x[:steps, lane], read.y[:steps, lane]
            assert read.begins[lane] == (x[0] == corpus.vocabulary.end), "a sequence begins with <end>"
            if read.begins[lane]:
                open_lanes[lane] = [corpus.vocabulary.end]
            assert x[0] == open_lanes[lane][-1], "a window goes on where the one before it ended"
            open_lanes[lane] += y.tolist()
            if y[-1] == corpus.vocabulary.end:
                done.append(corpus.vocabulary.decode(open_lanes[lane]))
    counts = Counter(done)
    assert max(counts.values()) - min(counts[word] for word in WORDS) <= 2
    assert set(counts) == set(WORDS)


def test_a_stream_goes_on_from_its_cursor():
    _, stream = stream_of(WORDS, 3, 4)
    for _ in range(5):
        stream.next()
    _, other = stream_of(WORDS, 3, 4)
    other.seek(stream.cursor)
    for _ in range(9):
        a, b = stream.next(), other.next()
        assert a.x.tolist() == b.x.tolist()
        assert a.begins.tolist() == b.begins.tolist()
    with pytest.raises(ElmanError, match="cursor"):
        other.seek({"begun": 1, "at": [0], "stop": [0]})


def test_training_on_windows_has_the_gradients_of_whole_sequences(monkeypatch):
    """Sequences no longer than a window: the step equals one over the sequences alone, each from a state of zeros."""
    monkeypatch.delenv("ELMAN_KERNELS")
    words = [*WORDS, "x", "yz", "abc"] * 3  # more rows than one slice has
    model = fit(words, dtype="float64", layers=2, cell="lstm", steps=1, batch_size=len(words))
    network, p, end = model.network_, model.parameters_, model.vocabulary_.end
    setup = runs.text_setup(model.corpus_, model.config_)
    task = setup.new_task(model.fitted_)
    gradients = p.zeros()
    loss = task.loss_and_gradients(gradients, 0)
    expected, total, count = p.zeros(), 0.0, len(model.corpus_.ids) - 1
    for one in sequences_of(model.corpus_.ids, end):
        ids = one.astype(np.int64)[:, np.newaxis]
        total += network.loss_and_gradients(p, Batch(ids[:-1], ids[1:]), expected, normalizer=count, add=total > 0)
    assert loss == pytest.approx(total, rel=1e-10)
    np.testing.assert_allclose(gradients.buffer, expected.buffer, atol=1e-12)
    assert (task.carried != 0).any()


def test_a_state_is_carried_within_a_long_sequence_only(monkeypatch):
    """With a window of 1 step the state of each lane is still that of the whole sequence so far."""
    monkeypatch.delenv("ELMAN_KERNELS")
    model = fit(WORDS, dtype="float64", window=1, batch_size=2)
    task = runs.text_setup(model.corpus_, model.config_).new_task(model.fitted_)
    network, p, gradients = model.network_, model.parameters_, model.parameters_.zeros()
    packed = network.pack(p)
    text = [[], []]
    for step in range(30):
        at = task.stream._at.copy(), task.stream._stop.copy()
        before = [list(part) for part in text]
        task.loss_and_gradients(gradients, step)
        for lane in range(2):
            begins = at[0][lane] == at[1][lane]
            text[lane] = [*([] if begins else before[lane]), int(model.corpus_.ids[task.stream._at[lane] - 1])]
            state = network.stack.zero_state(1, np.dtype(np.float64))
            _, after = network.read(packed, np.array(text[lane])[:, np.newaxis], state)
            np.testing.assert_allclose(task.carried[:, :, [lane]], after, atol=1e-12)


def test_dropout_masks_differ_between_rows(monkeypatch):
    monkeypatch.delenv("ELMAN_KERNELS")
    model = fit(["aaaa", "aaaa"], hidden=32, dtype="float64", batch_size=2)
    network, p = model.network_, model.parameters_
    ids = np.array([[model.vocabulary_.end, 0, 0, 0, 0]] * 2).T
    lengths, state = np.array([5, 5]), network.stack.zero_state(2, np.dtype(np.float64))
    batch = Batch(ids, ids, None, lengths, lengths, state=state)
    network.loss_and_gradients(p, batch, p.zeros(), normalizer=1, draw=Draw(Dropout(0, 0, 0.5), 0, 0))
    assert not np.allclose(state[:, :, 0], state[:, :, 1])


def test_a_model_of_a_text_becomes_one_of_sequences(tmp_path):
    start = LanguageModel(hidden=16, steps=20).fit("the cat sat on the mat. " * 30, listeners=[])
    model = LanguageModel(steps=5, validation_fraction=0.0).fit(["cat", "hat", "zoo"], start=start, listeners=[])
    assert model.vocabulary_.end is not None
    assert "z" in model.vocabulary_.tokens
    old, new = start.parameters_["embedding.W"], model.parameters_["embedding.W"]
    assert old.shape[0] + 2 == new.shape[0], "z and <end> are new"
    with pytest.raises(ArgumentError, match="sequences"):
        LanguageModel(steps=1).fit("the cat sat on the mat. " * 30, start=model, listeners=[])


def test_copies_say_whether_a_sequence_is_in_the_data():
    model = fit(["hello", "hell", "cat"])
    assert model.copies("hell").share == 1
    assert model.copies("hel").share == 0
    assert model.copies("ello").share == 0
    assert edges_of(model.corpus_.ids, model.vocabulary_.end).tolist() == [0, 6, 11, 15]


def test_a_model_of_one_text_says_that_it_takes_no_sequences():
    with pytest.raises(ArgumentError, match="a str, because the model has learned one text"):
        fit("hello cats").evaluate(["hello", "cats"])


def test_sequences_of_which_nothing_is_left_are_no_sequences():
    with pytest.raises(DataError, match="no token of the vocabulary"):
        fit(WORDS).evaluate(["zzz", "qqq"], unknown="skip")


def test_a_beam_search_keeps_the_likeliest_beginning_where_the_length_ends(monkeypatch):
    monkeypatch.delenv("ELMAN_KERNELS")
    model = LanguageModel().fit(["hello", "cat"], listeners=[])
    assert model.sample(1, prompt="hell", beam=3) == "hello"
    assert model.sample(2, beam=3) in ("he", "ca")


@pytest.mark.parametrize("cell", ["rnn", "gru"])
def test_a_time_limit_takes_no_step_from_words_that_are_learned_by_heart(cell):
    options = {"cell": cell, "hidden": 8}
    steps = [LanguageModel(**options, **budget).fit(["hello", "cat"], listeners=[]).history_[-1]["step"]
             for budget in ({}, {"seconds": 60})]  # fmt: skip
    assert steps[0] == steps[1]


def test_an_iterator_of_sequences_is_read_once():
    first = fit(["hello", "cat"])
    again = LanguageModel(steps=1).fit(iter(["hello", "dog"]), start=first, listeners=[])
    assert set("hellocatdog") < set(again.vocabulary_.tokens)


def test_look_reads_as_many_sequences_as_it_has_room_for(monkeypatch):
    model = fit(WORDS * 20)
    monkeypatch.setattr(analysis, "READ_TOKENS", 50)
    for most in (50, 51, 52, 53, 54, 55):  # wherever a sequence is cut
        monkeypatch.setattr(analysis, "READ_TOKENS", most)
        assert len(analysis.examine(model, model.corpus_.ids).reading.tokens) == most
