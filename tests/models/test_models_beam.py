"""Beam search: of width 1 it is greedy, wide enough it is exhaustive, and a stop text ends a candidate."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from models_writers import VOCABULARIES, random_writer

from elman.data import ByteVocabulary, CharVocabulary
from elman.errors import ArgumentError, RangeError, VocabularyError
from elman.models.sampling import Sampling

GREEDY = Sampling(temperature=0)


def log_probability(writer, start, ids):
    """The log-probability of ids after start, computed from the first token on."""
    everything = [*start, *ids]
    o, _ = writer.network.read(
        writer.network.pack(writer.parameters),
        np.array(everything)[:, np.newaxis],
        writer.network.stack.zero_state(1, np.float64),
    )
    o = o[:, 0].copy()
    o[:, writer.banned] = -np.inf
    log_y_hat = o - np.log(np.exp(o).sum(axis=1, keepdims=True))
    return sum(log_y_hat[len(start) + i - 1, token] for i, token in enumerate(ids))


def exhaustive(writer, prompt, length, stop=None):
    """The likeliest of all texts of the length, or shorter with the stop text at their end."""
    start = writer.vocabulary.encode(prompt).tolist()
    best = (-np.inf, "")
    for size in range(length + 1):
        for ids in product(range(len(writer.vocabulary)), repeat=size):
            text = writer.vocabulary.decode(ids)
            ends = stop is not None and text.endswith(stop) and text.index(stop) == len(text) - len(stop)
            if ends or (size == length and (stop is None or stop not in text)):
                best = max(best, (log_probability(writer, start, ids), text.split(stop)[0] if ends else text))
    return prompt + best[1]


def test_width_1_is_greedy(writer):
    prompt = "the cat" if writer.vocabulary.kind == "word" else "bad"
    for length in (0, 1, 40):
        assert writer.likeliest(prompt, width=1, length=length) == writer.write(prompt, length=length, how=GREEDY)
        assert writer.likeliest("", width=1, length=length) == writer.write(length=length, how=GREEDY)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("layers", [1, 2])
def test_wide_enough_it_finds_what_an_exhaustive_search_finds(seed, layers):
    writer = random_writer(CharVocabulary("abc"), seed=seed, layers=layers)
    assert writer.likeliest("ba", width=81, length=4) == exhaustive(writer, "ba", 4)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("stop", ["b", "ab", "bb", "aca"])
def test_with_a_stop_text_too(seed, stop):
    writer = random_writer(CharVocabulary("abc"), seed=seed)
    assert writer.likeliest("c", width=243, length=5, stop=stop) == exhaustive(writer, "c", 5, stop)


def test_it_beats_greedy_where_greedy_is_short_sighted():
    found = 0
    for seed in range(10):
        writer = random_writer(CharVocabulary("abcd"), seed=seed, sure=2)
        start = writer.vocabulary.encode("a").tolist()
        score = {
            width: log_probability(
                writer, start, writer.vocabulary.encode(writer.likeliest("a", width=width, length=6)[1:]).tolist()
            )
            for width in (1, 64)
        }
        assert score[64] >= score[1] - 1e-9
        found += score[64] > score[1] + 1e-6
    assert found


@pytest.mark.parametrize("width", [1, 2, 3, 7])
@pytest.mark.parametrize("stop", ["b", "ab", "bc", "cab"])
def test_neither_the_stop_text_nor_a_part_of_it_is_left_when_it_was_written(width, stop):
    for seed in range(5):
        writer = random_writer(CharVocabulary("abc"), seed=seed, sure=1)
        text = writer.likeliest("a", width=width, length=30, stop=stop)[1:]
        assert stop not in text
        if width == 1:
            assert "a" + text == writer.write("a", length=30, how=GREEDY, stop=stop)


def test_a_word_model_never_finds_unk():
    writer = random_writer(VOCABULARIES["word"])
    writer.parameters["head.b_y"][0] = 50
    assert "<unk>" not in writer.likeliest("the", width=3, length=20)


def test_the_probability_is_that_of_the_tokens_it_may_write():
    """What <unk> would have got is shared among the others, as in drawing."""
    for seed in range(8):
        writer = random_writer(VOCABULARIES["word"], seed=seed)
        writer.parameters["head.W_hy"][:, 0] *= 4
        best = (-np.inf, ())
        start = writer.vocabulary.encode("the").tolist()
        for ids in product(range(1, 6), repeat=2):
            best = max(best, (log_probability(writer, start, ids), ids))
        assert writer.likeliest("the", width=36, length=2) == "the" + writer.vocabulary.decode(best[1])


def test_a_byte_model_leaves_no_half_character():
    writer = random_writer(ByteVocabulary())
    writer.parameters["head.b_y"][0xC3] = 1000
    assert writer.likeliest("a", width=1, length=1) == "a"


def test_without_a_new_line_the_first_token_is_drawn_and_counts():
    writer = random_writer(CharVocabulary("abc"))
    for length in (0, 1, 5):
        assert len(writer.likeliest("", width=2, length=length)) == length
    assert {writer.likeliest("", width=1, length=1, seed=seed) for seed in range(30)} == {"a", "b", "c"}


def test_a_beam_may_be_wider_than_the_number_of_texts():
    writer = random_writer(CharVocabulary("a"))
    assert writer.likeliest("a", width=50, length=3) == "aaaa"


@pytest.mark.parametrize(("options", "error"), [
    ({"width": 10**20}, RangeError), ({"length": 10**20}, RangeError),
    ({"width": 0}, RangeError), ({"width": -1}, RangeError), ({"length": -1}, RangeError), ({"seed": -1}, RangeError),
    ({"stop": ""}, ArgumentError), ({"prompt": "X"}, VocabularyError),
])  # fmt: skip
def test_invalid_options_are_refused(letters, options, error):
    options = {"prompt": "a", "width": 2, "length": 3, **options}
    with pytest.raises(error):
        letters.likeliest(options.pop("prompt"), **options)
