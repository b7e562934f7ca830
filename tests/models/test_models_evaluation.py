"""The metrics by their definitions: one sequence from a zero state, every token but the first, mean over tokens."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from models_writers import VOCABULARIES, random_writer

from elman.data.words import words_of
from elman.errors import DataError, VocabularyError
from elman.models import LanguageModel, evaluation
from elman.models.evaluation import Evaluation, evaluate_dynamically, mean_loss

TEXT = {
    "char": "Who sat on the dog? The mat did.\n" * 3,
    "byte": "Das Café «à la française», 日本. " * 3,
    "word": "The dog sat on the unheard-of mat.\nWho sat? " * 3,
}


def losses_by_definition(model, ids):
    """-log softmax of each token but the first, one step at a time, in float64."""
    losses, state = [], None
    for token, following in pairwise(ids):
        o, state = model.text_sampler.read([token], state)
        o = o.astype(np.float64)
        losses.append(math.log(np.exp(o - o.max()).sum()) - (o[following] - o.max()))
    return losses


def encoded(model, text):
    return model.vocabulary_.encode(text, unknown="replace" if model.vocabulary_.kind == "word" else "error").tolist()


def test_the_figures_are_those_defined(model):
    text = TEXT[model.vocabulary_.kind]
    ids = encoded(model, text)
    losses = losses_by_definition(model, ids)
    nats = sum(losses) / len(losses)
    got = model.evaluate(text)
    assert got._fields == ("nats_per_token", "bits_per_token", "bits_per_character", "perplexity", "tokens")
    assert got.tokens == len(ids) - 1 == len(losses)
    assert got.nats_per_token == pytest.approx(nats, rel=1e-5)
    assert got.bits_per_token == pytest.approx(got.nats_per_token / math.log(2))
    assert got.perplexity == pytest.approx(math.exp(got.nats_per_token))
    assert got.bits_per_character == pytest.approx(got.bits_per_token * len(ids) / len(text))
    assert model.score(text) == -got.nats_per_token


def test_bits_per_character_and_per_token_are_equal_for_characters_only(char_model, byte_model, word_model):
    figures = char_model.evaluate(TEXT["char"])
    assert figures.bits_per_character == figures.bits_per_token
    assert byte_model.evaluate("plain ascii").bits_per_character == byte_model.evaluate("plain ascii").bits_per_token
    figures = byte_model.evaluate("日本語")
    assert figures.bits_per_character == pytest.approx(3 * figures.bits_per_token)
    figures = word_model.evaluate("abcdefghij klmnopqrst")  # two words that it does not know, of 21 characters
    assert figures.tokens == 1
    assert figures.bits_per_character == pytest.approx(figures.bits_per_token * 2 / 21)


@pytest.mark.parametrize("chunk", [1, 2, 7, 1000])
def test_the_result_does_not_depend_on_chunks(chunk, monkeypatch):
    writer = random_writer(VOCABULARIES["char"], layers=2)
    ids = np.random.default_rng(0).integers(0, 8, 41)
    whole = mean_loss(writer.network, writer.parameters, ids)
    monkeypatch.setattr(evaluation, "CHUNK", chunk)
    assert mean_loss(writer.network, writer.parameters, ids) == pytest.approx(whole, rel=1e-12)


def test_a_model_that_knows_nothing_has_the_perplexity_of_its_vocabulary():
    writer = random_writer(VOCABULARIES["char"], sure=0)
    figures = evaluation.evaluate_text(writer.network, writer.parameters, np.arange(8), 8)
    assert figures.perplexity == pytest.approx(8)
    assert figures.bits_per_token == pytest.approx(3)


def test_a_model_with_an_enormous_loss_has_infinite_perplexity():
    writer = random_writer(VOCABULARIES["char"], sure=0)
    writer.parameters["head.b_y"][0] = 5000
    figures = evaluation.evaluate_text(writer.network, writer.parameters, np.ones(5, int), 5)
    assert figures == pytest.approx(Evaluation(5000, 5000 / math.log(2), 5000 / math.log(2), math.inf, 4))


def test_a_file_and_a_text_score_the_same(char_model, tmp_path):
    file = tmp_path / "text.txt"
    file.write_text(TEXT["char"], newline="\r\n")
    assert char_model.evaluate(file) == char_model.evaluate(TEXT["char"])


def test_one_token_or_none_cannot_be_evaluated(model):
    with pytest.raises(DataError, match="two tokens"):
        model.evaluate("a")
    with pytest.raises(DataError, match="has no text"):
        model.evaluate("")


def test_unknown_characters_are_named_or_skipped(char_model, word_model):
    with pytest.raises(VocabularyError, match="'é'"):
        char_model.evaluate("The café sat")
    assert char_model.evaluate("Thée caté", unknown="skip") == char_model.evaluate("The cat")
    assert word_model.evaluate("The zebra sat", unknown="skip") == word_model.evaluate("The sat")


# -- surprise ---------------------------------------------------------------------------------------------------------


def test_surprise_has_a_number_for_each_character_and_sums_to_the_whole(model):
    text = TEXT[model.vocabulary_.kind]
    surprise = model.surprise(text)
    figures = model.evaluate(text)
    assert surprise.shape == (len(text),)
    assert np.nansum(surprise) == pytest.approx(figures.nats_per_token * figures.tokens, rel=1e-5)
    first = len(next(words_of([text]))[0]) if model.vocabulary_.kind == "word" else 1
    assert np.isnan(surprise).tolist() == [i < first for i in range(len(text))]


def test_the_surprise_of_a_character_is_its_own_loss(char_model):
    text = TEXT["char"]
    np.testing.assert_allclose(
        char_model.surprise(text)[1:], losses_by_definition(char_model, encoded(char_model, text)), rtol=1e-4
    )


def test_the_surprise_of_a_character_of_several_bytes_is_their_sum(byte_model):
    losses = losses_by_definition(byte_model, encoded(byte_model, "aé日b"))
    np.testing.assert_allclose(
        byte_model.surprise("aé日b")[1:], [sum(losses[:2]), sum(losses[2:5]), losses[5]], rtol=1e-4
    )


def test_the_surprise_of_a_word_is_shared_by_its_letters(word_model):
    losses = losses_by_definition(word_model, encoded(word_model, "The dog sat"))
    np.testing.assert_allclose(word_model.surprise("The dog sat")[3:], np.repeat(losses, 4) / 4, rtol=1e-4)


def test_the_surprise_of_nothing_is_nothing(model):
    assert model.surprise("").shape == (0,)
    assert np.isnan(model.surprise("T")).tolist() == [True]


def test_a_text_as_it_was_learned_surprises_less_than_the_same_letters_in_disorder(char_model):
    text = "and the dog sat on the log"
    disorder = "".join(sorted(text))
    assert np.nanmean(char_model.surprise(text)) < np.nanmean(char_model.surprise(disorder))


# -- the next token ---------------------------------------------------------------------------------------------------


def test_the_next_distribution_is_the_softmax_sorted(model):
    prompt = "The "[: 3 if model.vocabulary_.kind == "word" else 4]
    got = model.next_distribution(prompt)
    o, _ = model.text_sampler.read(encoded(model, prompt))
    o = o.astype(np.float64)
    assert sum(got.values()) == pytest.approx(1)
    assert list(got.values()) == sorted(got.values(), reverse=True)
    assert set(got) == set(model.vocabulary_.tokens)
    for token, p in zip(model.vocabulary_.tokens, np.exp(o) / np.exp(o).sum(), strict=True):
        assert got[token] == pytest.approx(p)


def test_the_next_distribution_agrees_with_the_score(char_model):
    p = char_model.next_distribution("T")["h"]
    assert char_model.score("Th") == pytest.approx(math.log(p), rel=1e-5)


def test_the_next_token_after_an_empty_text_is_refused(char_model):
    with pytest.raises(ValueError, match="at least one token"):
        char_model.next_distribution("")


def test_a_fitted_word_model_reads_unknown_words():
    model = LanguageModel(tokens="word", hidden=8, steps=1, batch_size=2, window=8).fit(
        "one two three " * 40 + "four five"
    )
    assert model.evaluate("four two").tokens == 1


def test_dynamic_evaluation_learns_from_what_it_has_read_and_changes_no_weight():
    model = LanguageModel(hidden=16, steps=40, window=16, batch_size=4).fit(
        "the cat sat on the mat\n" * 40, listeners=[]
    )
    before = model.parameters_.buffer.copy()
    other = "ten teams eat the meat\nno stone shoots\n" * 60
    ids, static = model.vocabulary_.encode(other), model.evaluate(other)
    dynamic = evaluate_dynamically(model.network_, model.parameters_, ids, len(other), rate=0.01)
    assert (model.parameters_.buffer == before).all()
    assert dynamic.nats_per_token < 0.8 * static.nats_per_token
    assert dynamic.tokens == static.tokens
    assert dynamic.bits_per_character == pytest.approx(dynamic.nats_per_token / math.log(2) * len(ids) / len(other))
    first = other[:33]  # one window: read before anything is learned from it
    assert model.evaluate(first, dynamic=True).nats_per_token == pytest.approx(
        model.evaluate(first).nats_per_token, rel=1e-5
    )
