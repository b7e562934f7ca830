"""Attribution: both methods against derivatives and networks whose decisions are known; the report shows them."""

from __future__ import annotations

import numpy as np
import pytest

from elman import look
from elman.cli import main
from elman.errors import ArgumentError, DataError, RangeError, UnknownNameError
from elman.models import SequenceClassifier, SequenceGenerator, SequenceRegressor, SequenceTagger

RNG = np.random.default_rng(0)
FILLER = ["the", "film", "was", "a", "very", "long", "one"]


def sentences(count: int) -> tuple[list[str], list[str]]:
    texts, labels = [], []
    for i in range(count):
        words = RNG.choice(FILLER, 5).tolist()
        label = ("good", "bad")[i % 2]
        words[int(RNG.integers(5))] = label
        texts.append(" ".join(words))
        labels.append(label)
    return texts, labels


@pytest.fixture(scope="module", params=["rnn", "lstm"])
def classifier(request):
    options = {"hidden": 8, "epochs": 30, "tokens": "word", "cell": request.param, "random_state": 1, "batch_size": 16}
    return SequenceClassifier(**options).fit(*sentences(120), listeners=[])


def test_the_word_that_decides_is_found(classifier):
    found = look.attribution(classifier, "the film was very good")
    assert found.tokens == (" the", " film", " was", " very", " good")
    assert found.targets == ("good",)
    assert found.left_out.shape == found.gradient.shape == (1, 5)
    assert int(found.left_out[0].argmax()) == 4
    assert found.gradient[0, 4] > 0
    assert found.words.startswith(f"good, log-odds {found.score[0]:+.2f}: “good” (+")
    assert -1 <= found.agreement <= 1
    against = look.attribution(classifier, "the film was very good", target="bad")
    np.testing.assert_allclose(against.left_out, -found.left_out, atol=1e-9)  # of two classes
    np.testing.assert_allclose(against.gradient, -found.gradient, atol=1e-9)


def test_the_score_is_the_log_odds_and_leaving_out_is_reading_without(classifier):
    text = "good the film bad was"
    found = look.attribution(classifier, text)
    words = text.split()
    every = [text, *(" ".join(words[:t] + words[t + 1 :]) for t in range(5))]
    p = classifier.predict_proba(every)[:, classifier.classes_.tolist().index(found.targets[0])]
    odds = np.log(p / (1 - p))
    assert found.score[0] == pytest.approx(odds[0], abs=1e-3)
    np.testing.assert_allclose(found.left_out[0], odds[0] - odds[1:], atol=1e-3)  # the model is in float32


@pytest.mark.parametrize("pooling", ["last", "mean", "max"])
@pytest.mark.parametrize("embedding", [0, 3])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_gradient_times_input_is_a_derivative(pooling, embedding, bidirectional):
    """The judge scales the input of one token by 1 ± ε: the derivative at 1 is gradient times input."""
    options = {"pooling": pooling, "embedding": embedding, "bidirectional": bidirectional, "hidden": 5, "epochs": 2}
    model = SequenceClassifier(tokens="char", layers=2, **options).fit(
        ["abba", "cab", "bc"], ["x", "y", "z"], listeners=[]
    )
    found = look.attribution(model, "abcab")
    from elman.look.attributions import _dense_network, _Float64Network, _scores

    dense, p, steps = _dense_network(model.fitted_.network, model.fitted_.parameters, model._encoded(["abcab"]).values)
    wide = _Float64Network(dense, p)
    picked = np.array([model.classes_.tolist().index(found.targets[0])])
    for t in range(5):
        scores = []
        for scale in (1 + 1e-6, 1 - 1e-6):
            x = steps[:, np.newaxis].copy()
            x[t] *= scale
            scores.append(_scores(wide.outputs(x), picked)[0][0])
        assert found.gradient[0, t] == pytest.approx((scores[0] - scores[1]) / 2e-6, abs=1e-7)
    o = model.predict_log_proba(["abcab"])
    np.testing.assert_allclose(np.log(np.exp(o).sum()), 0, atol=1e-6)
    assert found.score[0] == pytest.approx(float(o[0, picked[0]] - np.log1p(-np.exp(o[0, picked[0]]))), abs=1e-4)


def test_of_a_linear_tagger_the_two_methods_agree_exactly():
    model = SequenceTagger(hidden=4, epochs=2, activation="identity", bidirectional=True)
    model.fit([["a", "b", "c"], ["c", "a"]], [["x", "y", "x"], ["x", "y"]], listeners=[])
    found = look.attribution(model, ["a", "c", "b", "a"])
    assert found.gradient.shape == (4, 4)
    assert len(found.targets) == 4
    assert found.targets == tuple(model.predict([["a", "c", "b", "a"]])[0])
    np.testing.assert_allclose(found.gradient, found.left_out, atol=1e-10)  # two classes: log-odds are linear in o
    assert found.agreement == pytest.approx(1)


def test_a_regressor_of_numbers():
    X = [RNG.standard_normal((6, 2)) for _ in range(30)]
    model = SequenceRegressor(hidden=4, epochs=3).fit(X, [x[:, 0].sum() for x in X], listeners=[])
    found = look.attribution(model, X[0])
    assert found.tokens[0] == "step 0"
    assert found.targets == ("value",)
    assert found.words.startswith(f"predicted value {found.score[0]:+.2f}: “step ")
    assert found.gradient.shape == (1, 6)
    shorter = [np.delete(X[0], t, axis=0) for t in range(6)]
    values = model.predict([X[0], *shorter])  # on the scale of the targets, which are standardized in training
    assert found.score[0] == pytest.approx(values[0], abs=1e-4)
    np.testing.assert_allclose(found.left_out[0], values[0] - values[1:], atol=1e-4)
    with pytest.raises(ArgumentError, match="only classes can be chosen"):
        look.attribution(model, X[0], target=3)


@pytest.mark.parametrize("pooling", ["last", "mean"])
@pytest.mark.parametrize("learned_state", [False, True])
def test_without_its_only_token_a_sequence_is_empty(pooling, learned_state):
    options = {"pooling": pooling, "learned_state": learned_state, "hidden": 5, "epochs": 20, "tokens": "word"}
    model = SequenceClassifier(**options).fit(["good", "bad"] * 20, ["+", "-"] * 20, listeners=[])
    found = look.attribution(model, "good")
    p = model.predict_proba([""])[0, model.classes_.tolist().index(found.targets[0])]
    assert found.score[0] - found.left_out[0, 0] == pytest.approx(np.log(p / (1 - p)), abs=1e-4)


def test_one_token_and_what_cannot_be_explained(classifier):
    found = look.attribution(classifier, "good")
    assert found.left_out.shape == (1, 1)
    assert np.isnan(found.agreement)
    with pytest.raises(DataError, match="at least one token"):
        look.attribution(classifier, "")
    with pytest.raises(UnknownNameError, match="target: expected one of bad, good"):
        look.attribution(classifier, "good", target="ugly")
    with pytest.raises(RangeError, match="at most 4096 steps"):
        look.attribution(classifier, "good " * 5000)
    generator = SequenceGenerator(hidden=4, epochs=1).fit(["a", "b"], ["xy", "yx"], listeners=[])
    with pytest.raises(ArgumentError, match="a classifier, regressor or tagger"):
        look.attribution(generator, "a")


def test_the_command_writes_a_report(classifier, tmp_path, capsys, open_page):
    classifier.save(tmp_path / "run")
    with pytest.raises(SystemExit) as left:
        main(["look", str(tmp_path / "run"), "--text", "the film was very good"])
    out, err = capsys.readouterr()
    assert (left.value.code, err) == (0, "")
    assert out.startswith("good, log-odds +")
    watched = open_page((tmp_path / "run" / "look.html").as_uri(), offline=True)
    watched.page.wait_for_selector(".figure.drawn .main-svg")
    said = watched.page.inner_text("main")
    assert "Tokens that contribute most" in said
    assert "“good” (+" in said
    watched.check()


def test_a_tagger_has_a_heat_map_of_all_tags():
    pytest.importorskip("plotly")
    model = SequenceTagger(hidden=4, epochs=2).fit(
        [["a", "b"], ["b", "a", "a"]], [["x", "y"], ["y", "x", "x"]], listeners=[]
    )
    found = look.attribution(model, ["a", "b", "a"])
    (heatmap,) = look.attribution_along_text(found).data
    np.testing.assert_allclose(heatmap.z, found.left_out, rtol=1e-6)
    (one,) = look.attribution_along_text(found, prediction=1, by="gradient").data
    np.testing.assert_allclose(np.array(one.z, float)[0, :3], found.gradient[1], rtol=1e-6)
    assert look.report(model, ["a", "b", "a"]).html().count('class="figure"') == 2
