"""Units: what is planted is found, scores are those of scikit-learn on text that nothing was fitted to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from look_models import drawn_model, quoting_model
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score, roc_auc_score

from elman import maths
from elman.data import ByteVocabulary, CharVocabulary, WordVocabulary
from elman.errors import DataError, NotFittedError, RangeError, UnknownNameError, VocabularyError
from elman.look import trace
from elman.look.units import rank_units, read_text
from elman.models import LanguageModel

RNG = np.random.default_rng(1)
SENTENCES = ["“Oh dear,” said Ann. ", "It was late (and cold). ", "“No!” cried Bob, “not now.” ", "They slept.\n",
             "On 12 May the cat sat. "]  # fmt: skip
QUOTING = "".join(RNG.choice(SENTENCES, 150))


@pytest.mark.parametrize(("layers", "sign"), [(1, 1), (1, -1), (2, 1)])
def test_a_planted_unit_is_ranked_first(layers, sign):
    ranking = rank_units(read_text(quoting_model(QUOTING, unit=7, sign=sign, layers=layers), QUOTING))
    first, second, *_ = ranking.best("inside quotation marks")
    assert (first.layer, first.unit, first.rises) == (layers - 1, 7, sign > 0)
    assert first.score > 0.999
    assert second.score < 0.9
    assert ranking.by_feature()[0][0] == "inside quotation marks"


@pytest.fixture(scope="module")
def reading():
    return read_text(drawn_model(CharVocabulary(QUOTING), layers=2), QUOTING)


def test_states_are_those_of_the_equations(reading):
    model = drawn_model(CharVocabulary(QUOTING), layers=2)
    x = model.vocabulary_.encode(QUOTING)[:, np.newaxis]
    for layer in range(2):
        cell = (model.parameters_[f"layers.{layer}.{name}"] for name in ("W_xh", "W_hh", "b_h"))
        h = maths.rnn_forward(x, None, *cell)[1:]
        np.testing.assert_allclose(reading.h[layer], h[:, 0], atol=1e-12)
        x = h


def test_of_an_lstm_the_cell_state_is_ranked_too():
    """c of one unit counts: it rises at “ and falls at ”, and h, behind a closed output gate, shows nothing of it."""
    model = drawn_model(CharVocabulary(QUOTING), cell="lstm")
    p, H, unit = model.parameters_, 12, 7
    gates = {name: slice(i * H + unit, i * H + unit + 1) for i, name in enumerate("ifgo")}
    for name, bias in {"i": -9.0, "f": 9.0, "g": 0.0, "o": -1e3}.items():
        p["layers.0.W_xh"][:, gates[name]] = p["layers.0.W_hh"][:, gates[name]] = 0
        p["layers.0.b_h"][gates[name]] = bias
    for mark, sign in (("“", 1), ("”", -1)):
        token = model.vocabulary_.tokens.index(mark)
        p["layers.0.W_xh"][token, gates["i"]], p["layers.0.W_xh"][token, gates["g"]] = 18, 9 * sign
    reading = read_text(model, QUOTING)
    assert reading.state_names == ("h", "c")
    assert reading.s.shape == (1, 2, len(QUOTING), H)
    best = rank_units(reading).best("inside quotation marks", 1)[0]
    assert (best.unit, best.state, best.rises) == (unit, "c", True)
    assert best.score > 0.99
    ids = model.vocabulary_.encode(QUOTING)
    np.testing.assert_allclose(reading.state("c")[0], trace(model, ids).layers[0].s[1, 1:], atol=1e-10)


def test_surprise_and_alternatives_are_the_model_s(reading):
    model = drawn_model(CharVocabulary(QUOTING), layers=2)
    np.testing.assert_allclose(reading.surprise, model.surprise(QUOTING), atol=1e-12)
    assert reading.alternatives[0] == ()
    for t in (1, 5, 500):
        expected = list(model.next_distribution(QUOTING[:t]).items())[:5]
        assert list(reading.alternatives[t]) == [token for token, _ in expected]
        np.testing.assert_allclose(reading.probabilities[t], [p for _, p in expected], atol=1e-12)


def judged(h, v, cut, number):
    if number:
        line = LinearRegression().fit(h[:cut, np.newaxis], v[:cut])
        return r2_score(v[cut:], line.predict(h[cut:, np.newaxis]))
    auc = roc_auc_score(v[cut:], h[cut:])
    return auc if np.cov(h[:cut], v[:cut])[0, 1] > 0 else 1 - auc


@pytest.mark.parametrize("share", [0.5, 0.3])
@pytest.mark.parametrize("digits", [12, 1])  # rounded, many activations are equal
def test_scores_are_those_of_scikit_learn(reading, share, digits):
    reading = replace(reading, s=np.round(reading.s, digits))
    ranking = rank_units(reading, share=share)
    cut = ranking.fitted
    assert (cut, cut + ranking.judged) == (round(share * len(QUOTING)), len(QUOTING))
    assert set(ranking.measures) == {"AUC", "R²"}
    for f, feature in enumerate(ranking.features):
        v, number = reading.features[feature].astype(float), ranking.measures[f] == "R²"
        assert number == (
            feature in {"position in the line", "letters of the word so far", "words of the sentence so far"}
        )
        for layer, unit in ((0, 0), (1, 11)):
            expected = judged(reading.h[layer, :, unit], v, cut, number)
            assert ranking.scores[f, layer, 0, unit] == pytest.approx(expected, abs=1e-9), feature


def test_what_is_learned_on_the_first_part_is_judged_on_the_second(reading):
    """A unit that says yes in the first part and no in the second is worse than chance, not perfect."""
    v = reading.features["inside a word"].astype(float)
    h = np.zeros((1, len(v), 3))
    cut = len(v) // 2
    h[0, :, 0], h[0, :cut, 1], h[0, cut:, 1] = v, v[:cut], -v[cut:]  # the third never moves
    ranking = rank_units(replace(reading, s=h[:, np.newaxis]))
    scores = ranking.scores[ranking.features.index("inside a word"), 0, 0]
    np.testing.assert_allclose(scores, [1, 0, 0.5])
    numbers = ranking.scores[ranking.features.index("position in the line"), 0, 0]
    assert np.isfinite(numbers).all()
    assert numbers[2] <= 0


def test_features_that_the_text_does_not_show_are_left_out(reading):
    ranking = rank_units(reading)
    assert "inside underscores" in ranking.left_out
    assert not set(ranking.left_out) & set(ranking.features)
    assert set(ranking.left_out) | set(ranking.features) == set(reading.features)
    with pytest.raises(UnknownNameError, match="Did you mean a vowel"):
        ranking.best("vowels")


@pytest.mark.parametrize("vocabulary", [ByteVocabulary(), WordVocabulary(["<unk>", " said", ".", " the"])])
def test_bytes_and_words_are_read(vocabulary):
    reading = read_text(drawn_model(vocabulary), QUOTING, alternatives=2)
    T = len(vocabulary.encode(QUOTING, unknown="replace"))
    assert reading.h.shape == (1, T, 12)
    assert reading.probabilities.shape == (T, 2)
    assert {len(v) for v in reading.features.values()} == {T}
    assert "inside quotation marks" in rank_units(reading).features


@settings(max_examples=25, deadline=None)
@given(st.text(st.sampled_from("ab “”.\n"), min_size=1, max_size=30))
def test_any_text_is_read_and_a_short_one_is_not_ranked(text):
    reading = read_text(drawn_model(CharVocabulary("ab “”.\n"), hidden=3), text)
    assert len(reading.tokens) == len(reading.surprise) == len(text)
    assert np.isnan(reading.surprise[0])
    assert np.isfinite(reading.surprise[1:]).all()
    with pytest.raises(DataError, match="too short to rank"):
        rank_units(reading)


def test_bad_input_is_refused(reading):
    model = drawn_model(CharVocabulary("abc"))
    with pytest.raises(DataError, match="the text is empty"):
        read_text(model, "")
    with pytest.raises(VocabularyError, match="'x'"):
        read_text(model, "abcx")
    with pytest.raises(RangeError, match="alternatives"):
        read_text(model, "abc", alternatives=0)
    with pytest.raises(NotFittedError):
        read_text(LanguageModel(), "abc")
    for share in (0, 1, float("nan")):
        with pytest.raises(RangeError, match="share"):
            rank_units(reading, share=share)


def test_the_best_of_many_units_that_are_noise_is_no_finding(reading):
    h = np.random.default_rng(0).standard_normal((1, len(reading.tokens), 256))
    ranking = rank_units(replace(reading, s=h[:, np.newaxis]))
    chance = {"AUC": 0.5, "R²": 0.0}
    excess = [best.score - chance[measure] for _, measure, best in ranking.by_feature()]
    assert abs(np.mean(excess)) < 0.01  # picked by the score that it is then given, the mean is far above
    for f, feature in enumerate(ranking.features):
        assert ranking.best(feature, 1)[0].unit == int(ranking.chosen_by[f, 0, 0].argmax())


def test_units_are_chosen_on_the_first_part(reading):
    v = reading.features["inside a word"].astype(float)
    cut, h = len(v) // 2, np.random.default_rng(0).standard_normal((1, len(v), 2))
    h[0, :cut, 0] += v[:cut]  # this one knows it in the first part
    h[0, cut:, 1] += 9 * v[cut:]  # that one in the second
    ranking = rank_units(replace(reading, s=h[:, np.newaxis]))
    first = ranking.best("inside a word")[0]
    assert first.unit == 0
    assert first.score == ranking.scores[ranking.features.index("inside a word"), 0, 0, 0] < 0.6
