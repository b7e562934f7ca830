"""Models of every task: what they learn, save and refuse, and how they behave as scikit-learn estimators."""

import functools
import hashlib
import io
import json
import math
import pickle
from copy import deepcopy

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from elman import (
    Seq2Seq,
    SequenceClassifier,
    SequenceGenerator,
    SequenceRegressor,
    SequenceTagger,
    load_model,
)
from elman.config import resolve
from elman.errors import (
    ArgumentError,
    CheckpointError,
    ElmanError,
    NotFiniteError,
    RunError,
    ShapeError,
    VocabularyError,
)
from elman.kernels.threads import set_threads
from elman.models import batches, evaluation, runs
from elman.models.runs import RowSplit
from elman.models.sampling import UNKNOWN, Decoder, beam_search
from elman.training.arrays import read_arrays, to_bytes
from elman.training.events import Stepped
from elman.training.run import Run

QUICK = {"hidden": 16, "epochs": 6, "batch_size": 16, "learning_rate": 0.02, "warmup_steps": 5, "random_state": 0}
RNG = np.random.default_rng(0)
WORDS = ["".join(RNG.choice(list("ab"), size=n)) for n in RNG.integers(1, 6, size=120)]
FIRST = [f"starts with {word[0]}" for word in WORDS]
TAGS = [[letter.upper() for letter in word] for word in WORDS]
NUMBERS = [np.random.default_rng(i).standard_normal((3 + i % 3, 2)) for i in range(80)]
MEANS = np.array([x[:, 0].mean() for x in NUMBERS])


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setenv("ELMAN_THREADS", "1")  # other tests run on the other cores


CASES = {
    "classify": (SequenceClassifier, {}, WORDS, FIRST),
    "regress": (SequenceRegressor, {}, NUMBERS, MEANS),
    "tag": (SequenceTagger, {}, [list(word) for word in WORDS], TAGS),
    "generate": (SequenceGenerator, {}, FIRST, WORDS),
    "translate": (Seq2Seq, {"hidden": 24, "embedding": 8}, WORDS, [word.upper() for word in WORDS]),
}
PREDICT = {"generate": ["starts with a", "starts with b"]}


def made_anew(task, **options):
    kind, own, X, y = CASES[task]
    return kind(**(QUICK | own | options)).fit(X, y)


learned_once = functools.cache(made_anew)


def made(task, **options):
    """A copy, which a test may change, of a model that is trained once."""
    return deepcopy(learned_once(task, **options))


def classifier(**options):
    return made("classify", **options)


def flat(predicted):
    return [np.asarray(row).tolist() for row in predicted]


tasks = pytest.mark.parametrize("task", CASES)


# -- what they learn ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", ["last", "mean", "max"])
def test_a_classifier_learns_what_a_word_begins_with(pooling):
    model = classifier(pooling=pooling, epochs=25)
    assert model.score(WORDS, FIRST) > (0.95 if pooling == "last" else 0.7)
    proba = model.predict_proba(WORDS)
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-6)
    assert (model.classes_[proba.argmax(axis=1)] == model.predict(WORDS)).all()


def test_a_regressor_learns_one_number_or_several():
    one = SequenceRegressor(**QUICK | {"epochs": 40, "pooling": "mean"}).fit(NUMBERS, MEANS)
    assert one.predict(NUMBERS).shape == (80,)
    assert one.score(NUMBERS, MEANS) > 0.8
    two = SequenceRegressor(**QUICK).fit(NUMBERS, np.stack([MEANS, 100 - MEANS], axis=1))
    assert two.predict(NUMBERS).shape == (80, 2)
    assert abs(two.predict(NUMBERS)[:, 1].mean() - 100) < 5  # targets are scaled for the network, not for the user


def test_a_tagger_sees_what_comes_later():
    words = [list(word) for word in WORDS]
    ends = [[word[-1]] * len(word) for word in words]  # each step is tagged with the last letter
    both = SequenceTagger(**QUICK | {"epochs": 25, "dropout": 0.0}).fit(words, ends)
    one = SequenceTagger(**QUICK | {"epochs": 25, "dropout": 0.0, "bidirectional": False}).fit(words, ends)
    assert both.score(words, ends) > 0.95 > one.score(words, ends)
    assert [len(tags) for tags in both.predict(words)] == [len(word) for word in words]
    for proba, word in zip(both.predict_proba(words), words, strict=True):
        assert proba.shape == (len(word), 2)


def test_a_generator_writes_the_sequence_of_a_label_and_of_a_vector():
    model = made("generate", epochs=30)
    assert all(word.startswith("a") for word in model.sample(["starts with a"] * 20, seed=3))
    vectors = np.array([[word[0] == "a", 1.0] for word in WORDS], float)
    model = SequenceGenerator(**QUICK | {"epochs": 30}).fit(vectors, WORDS)
    assert all(word.startswith("b") for word in model.sample(np.array([[0.0, 1.0]] * 20), seed=3))
    assert model.score(vectors, WORDS) > model.score(vectors[::-1], WORDS)


def test_input_dropout_of_a_generator_needs_an_embedding():
    for training in ("fit", "partial_fit"):
        with pytest.raises(ArgumentError, match=r"input_dropout: expected 0 .* got 0\.5\. .* set embedding=64"):
            getattr(SequenceGenerator(**QUICK, input_dropout=0.5), training)(FIRST, WORDS)
    with pytest.raises(ArgumentError, match="input_dropout: expected 0"):
        SequenceGenerator(**QUICK).partial_fit(FIRST, WORDS).set_params(input_dropout=0.5).partial_fit(FIRST, WORDS)
    plain, dropped = (made_anew("generate", embedding=4, input_dropout=rate) for rate in (0.0, 0.5))
    assert (plain.fitted_.parameters.buffer != dropped.fitted_.parameters.buffer).any()


def test_a_seeded_sequence_is_the_same_alone_or_among_others():
    model = made("generate")
    many = model.sample(["starts with a", "starts with b", "starts with a"], temperature=1.0, seed=5)
    assert model.sample(["starts with a"], temperature=1.0, seed=5) == many[:1]
    assert many != model.sample(["starts with a", "starts with b", "starts with a"], temperature=1.0, seed=6)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_sequence_to_sequence_learns_to_copy(bidirectional):
    short = [word[:3] for word in WORDS]
    upper = [word.upper() for word in short]
    model = Seq2Seq(**QUICK | {"hidden": 48, "epochs": 40, "learning_rate": 5e-3, "bidirectional": bidirectional}).fit(
        short, upper
    )
    assert model.score(short, upper) > 0.9
    assert model.predict(short[:5], beam=3) == upper[:5]


def test_a_beam_finds_nothing_less_likely_than_greedy_decoding():
    model = made("translate", epochs=2)
    fitted = model.fitted_
    decoder = Decoder(fitted.network, fitted.parameters, UNKNOWN)
    edge = fitted.network.edge
    for source in WORDS[:10]:
        start = fitted.network.begin(decoder.packed, *_encoded(model, source))
        greedy = decoder.generate(edge, start, limit=12)[0]
        o, state = decoder.step(np.array([edge]), start)
        (found,) = beam_search(decoder, o, state, width=8, limit=12, edge=edge)
        assert found[0].score == pytest.approx(_log(decoder, start, found[0].tokens))
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        assert found[0].score >= _log(decoder, start, greedy) - 1e-9


def _encoded(model, source):
    x = model._encoded([source])
    return x.padded(np.array([0])).astype(np.int64), x.lengths


def _log(decoder, state, tokens):
    total, told = 0.0, [1, *tokens]
    for token, after in zip(told, [*tokens, 1], strict=True):
        o, state = decoder.step(np.array([token]), state)
        o = o[0].astype(np.float64)
        o[0] = -np.inf  # the unknown is never written
        total += o[after] - np.logaddexp.reduce(o)
    return total


# -- what they are given -----------------------------------------------------------------------------------------------


def test_strings_tokens_and_numbers_of_any_length_are_accepted():
    y = [0, 1, 0, 1]
    for X in (
        ["a", "bb", "", "abc"],
        [["a"], ["b", "b"], [], ["a", "b", "c"]],
        [np.ones((1, 2)), np.zeros((2, 2)), np.zeros((0, 2)), np.ones((3, 2))],
        [[1.0], [0.0, 2.0], [], [1.0, 2.0, 3.0]],
        np.arange(12.0).reshape(4, 3),
        np.arange(24.0).reshape(4, 3, 2),
        [[1, 2, 3]] * 4,
    ):
        model = SequenceClassifier(**QUICK, bidirectional=False).fit(X, y)
        assert model.predict(X).shape == (4,)
        assert model.transform(X).shape == (4, 16)


def test_whole_numbers_are_numbers_and_never_ids():
    model = SequenceClassifier(**QUICK, cell="rnn").fit(np.array([[1000], [-5], [7], [0]]), [0, 1, 0, 1])
    assert model.fitted_.network.shapes["layers.0.W_xh"] == (1, 16)


@tasks
def test_an_empty_sequence_has_a_clear_answer(task):
    if task == "generate":  # it is written
        model = SequenceGenerator(**QUICK | {"epochs": 30}).fit([*FIRST, *["says nothing"] * 40], [*WORDS, *[""] * 40])
        assert model.predict(["says nothing"]) == [""]
        assert model.predict(["starts with a"]) != [""]
        assert -1 < model.score(["says nothing"], [""]) < 0
        assert model.score(["starts with a"], [""]) < -2
        return
    model = made(task)
    X = [np.zeros((0, 2))] if task == "regress" else [[]] if task == "tag" else [""]
    (said,) = model.predict(X)
    assert {"classify": str(said) in FIRST, "tag": said == [], "translate": isinstance(said, str)}.get(
        task, np.isfinite(said) if task == "regress" else False
    )


def test_rows_without_a_step_add_nothing_to_a_tagger(tmp_path):
    X, y = CASES["tag"][2:]
    model = SequenceTagger(**QUICK | {"batch_size": 4}).fit(
        [*[[]] * 60, *X, []], [*[[]] * 60, *y, []], out=tmp_path / "run"
    )
    plain = SequenceTagger(**QUICK | {"batch_size": 4}).fit(X, y)
    assert model.n_iter_ == plain.n_iter_
    assert model.fitted_.parameters.buffer.tobytes() == plain.fitted_.parameters.buffer.tobytes()
    assert model.partial_fit([*X[:4], [], []], [*y[:4], [], []]).n_iter_ == plain.n_iter_ + 1
    assert SequenceTagger(**QUICK | {"batch_size": 2}).fit(["", "", "ab", "ba"], ["", "", "AB", "BA"]).n_iter_ == 6
    reader = SequenceClassifier(**QUICK | {"batch_size": 4}).fit(["", "", "", "", "a", "b"], ["A", "B"] * 3)
    assert reader.n_iter_ == 12  # to which an empty sequence says something


def test_a_sequence_of_length_one_is_the_one_to_one_case():
    model = SequenceClassifier(**QUICK | {"epochs": 30}).fit(["a", "b"] * 20, ["A", "B"] * 20)
    assert model.predict(["a", "b"]).tolist() == ["A", "B"]


def test_a_token_never_seen_is_read_as_unknown():
    model = classifier()
    assert model.predict(["aé", "z"]).shape == (2,)
    np.testing.assert_array_equal(model.predict_proba(["é"]), model.predict_proba(["z"]))


def test_padding_changes_no_prediction():
    model = classifier()
    together = model.predict_proba(WORDS)
    for i in (0, 7, 50):
        np.testing.assert_array_equal(model.predict_proba([WORDS[i]])[0], together[i])


@pytest.mark.parametrize(
    ("X", "y", "says"),
    [
        ("one string", ["a"], "a list of them"),
        (["a", "b"], ["x"], "y: expected as many as X has, 2, got 1"),
        (["a", "b"], ["x", "x"], "two classes"),
        ([["a"], [1.0]], ["x", "y"], "sequence 1: expected tokens"),
        (["a", ["b"]], ["x", "y"], "sequence 1: expected a string, as in the sequences before it"),
        ([np.ones((2, 2)), np.ones((2, 3))], ["x", "y"], "the same number of values"),
        ([[1.0, np.nan], [1.0]], ["x", "y"], "NaN"),
    ],
)
def test_what_cannot_be_learned_is_refused_with_the_reason(X, y, says):
    with pytest.raises((ElmanError, TypeError, ValueError), match=says):
        SequenceClassifier(**QUICK).fit(X, y)


def test_tags_and_steps_of_different_number_are_refused():
    with pytest.raises(ShapeError, match=r"sequence 1: expected 2 tags"):
        SequenceTagger(**QUICK).fit([["a"], ["a", "b"]], [["x"], ["y"]])


def test_a_label_never_seen_is_refused_by_name():
    with pytest.raises(VocabularyError, match="'starts with c'"):
        made("generate").sample(["starts with c"])


def test_weights_of_zero_leave_an_example_out():
    X, y = ["a", "b"] * 30, ["A", "B"] * 30
    wrong = [*y[:-20], *["A"] * 20]
    weights = np.r_[np.ones(40), np.zeros(20)]
    model = SequenceClassifier(**QUICK | {"epochs": 20}).fit(X, wrong, sample_weight=weights)
    assert model.predict(["b"]) == ["B"]


def test_a_class_weight_moves_the_balance():
    X, y = ["a"] * 100, ["rare"] * 10 + ["common"] * 90
    plain = SequenceClassifier(**QUICK).fit(X, y).predict_proba(["a"])[0, 1]
    even = SequenceClassifier(**QUICK, class_weight="balanced").fit(X, y).predict_proba(["a"])[0, 1]
    assert plain < 0.25 < 0.4 < even < 0.6


def test_a_class_weight_counts_every_step_by_its_tag():
    X, y = [list("abbbb")] * 40, [["rare", *["common"] * 4]] * 20 + [["common"] * 5] * 20
    options = QUICK | {"epochs": 20, "dropout": 0.0, "input_dropout": 0.0, "recurrent_dropout": 0.0, "unk_dropout": 0.0}

    def share(class_weight):  # of the tag that stands at half of the first steps, and nowhere else
        model = SequenceTagger(**options, class_weight=class_weight).fit(X, y)
        return model.predict_proba(X[:1])[0][0, 1]

    assert share(None) == pytest.approx(0.5, abs=0.07)
    assert share({"rare": 3}) == pytest.approx(3 / 4, abs=0.07)
    assert share({"rare": 1, "common": 3}) == pytest.approx(1 / 4, abs=0.07)
    assert share("balanced") == pytest.approx(9 / 10, abs=0.07)  # 20 of 200 steps


def test_a_weighted_tag_is_worth_as_many_examples():
    from elman.data.examples import Examples
    from elman.models.runs import ExampleSetup

    plain = {"dropout": 0.0, "input_dropout": 0.0, "recurrent_dropout": 0.0, "unk_dropout": 0.0, "dtype": "float64"}
    model = SequenceTagger(**QUICK, **plain, class_weight={"A": 2.0}).fit(*CASES["tag"][2:])
    tags = [[[], ["B"], ["A", "B"]][i % 3] for i in range(12)]
    words = [[tag.lower() for tag in sequence] for sequence in tags]
    examples = model._examples(model.fitted_.spec, model.fitted_.config, words, tags, None, np.arange(12))
    assert examples.class_weights.tolist() == [2, 1]
    again = Examples.from_arrays(examples.arrays())
    assert again.class_weights.tolist() == [2, 1]
    fitted = model.fitted_
    task = ExampleSetup(fitted.spec, fitted.config, again, RowSplit.all_train(12)).new_task(fitted)
    assert task.mean_weight == pytest.approx((8 * 1 + 4 * 2) / 12)  # 12 steps, 4 of them tagged A
    whole = evaluation.evaluate_examples(fitted.network, fitted.parameters, examples).loss  # 12 sequences are one batch
    assert task.loss_and_gradients(model.fitted_.parameters.zeros(), 0) == pytest.approx(whole, rel=1e-12)
    shares = model.predict_proba(words)
    costs = [
        -np.log(row[t, "AB".index(tag)]) for row, own in zip(shares, tags, strict=True) for t, tag in enumerate(own)
    ]
    doubled = [tag == "A" for sequence in tags for tag in sequence]
    assert whole == pytest.approx(np.average(costs, weights=1 + np.array(doubled)), rel=1e-9)


@pytest.mark.parametrize("kind", [SequenceClassifier, SequenceTagger])
@pytest.mark.parametrize(
    ("class_weight", "says"),
    [
        ({"C": 2.0}, "got 'C'"),
        ({"A": -1.0}, "0 or more"),
        ({"A": np.nan}, "finite"),
        ({"A": 1.0, "B": 1.0, "C": np.inf}, "finite"),
        ({"A": "x"}, "a number for each class, got .*'x'"),
        ({"A": None}, "a number for each class, got .*None"),
        ({"A": 1.0, "B": 1.0, "C": "x"}, "a number for each class"),
        ("even", "'even'"),
    ],
)
def test_a_class_weight_that_makes_no_sense_is_refused(kind, class_weight, says):
    y = [["A"], ["B"]] if kind is SequenceTagger else ["A", "B"]
    with pytest.raises(ElmanError, match=f"class_weight: .*{says}"):
        kind(**QUICK, class_weight=class_weight).fit([["a"], ["b"]], y)


def test_tags_may_be_strings_of_one_tag_a_character():
    words = [list("dog"), list("cats")] * 20
    as_lists = SequenceTagger(**QUICK).fit(words, [list("NVD"), list("NNVD")] * 20)
    as_strings = SequenceTagger(**QUICK).fit(words, ["NVD", "NNVD"] * 20)
    assert as_strings.classes_.tolist() == ["D", "N", "V"]
    assert as_strings.predict(words[:2]) == as_lists.predict(words[:2])
    assert as_strings.score(words, ["NVD", "NNVD"] * 20) == as_lists.score(words, [list("NVD"), list("NNVD")] * 20)
    with pytest.raises(ShapeError, match="sequence 1: expected 4 tags"):
        SequenceTagger(**QUICK).fit(words[:2], ["NVD", "NV"])


@pytest.mark.parametrize(
    ("kind", "X", "y", "says"),
    [
        (SequenceClassifier, ["a", "b"], ["x", 1], "strings or numbers, not both, got 'x' and 1"),
        (SequenceTagger, [["a", "b"]], [["x", 1]], "strings or numbers, not both"),
        (SequenceTagger, ["a", "b"], [1, 2], "y, sequence 0: expected a list of tags"),
        (SequenceTagger, ["a", "b"], "xy", "the tags of each sequence, got one str"),
        (SequenceGenerator, ["x", "y"], [["a", "b"], ["a", 1]], "target 1: expected tokens that are strings"),
        (SequenceGenerator, ["x", "y"], ["a", ["b"]], "target 1: expected a string, as in the targets before it"),
        (SequenceGenerator, ["x", "y"], [["a"], "b"], "target 1: expected tokens that are strings"),
        (Seq2Seq, ["x", "y"], [["a", 1], ["a"]], r"target 0: expected tokens that are strings, got \[.a., 1\]"),
        (Seq2Seq, ["x", "y"], [["a"], 3], "target 1: expected tokens that are strings"),
        (Seq2Seq, ["x", "y"], [[1, 2], [3]], "y: expected strings or lists of tokens, got numbers"),
    ],
)
def test_targets_of_mixed_kinds_are_refused_with_the_reason(kind, X, y, says):
    with pytest.raises(ElmanError, match=says):
        kind(**QUICK).fit(X, y)


def test_the_logarithm_of_a_probability_is_finite_however_small_it_is():
    model = classifier()
    model.fitted_.parameters["head.b_y"][0] = 2000.0
    assert model.predict_proba(WORDS[:3])[:, 1].tolist() == [0, 0, 0]
    logs = model.predict_log_proba(WORDS[:3])
    assert np.isfinite(logs).all()
    assert (logs[:, 1] < -1900).all()


# -- nothing is learned from held-out rows ---------------------------------------------------------------------------


def learned_from(task, X, y, seed):
    """vocabulary.json, and the rows that were held out."""
    kind, own = CASES[task][:2]
    model = kind(**QUICK | own | {"epochs": 1, "validation_fraction": 0.25, "random_state": seed}).fit(X, y)
    split = RowSplit.draw(len(X), model.fitted_.config, model._groups(X))
    return model.fitted_.spec.to_json(), np.setdiff1d(np.arange(len(X)), split.train)


@tasks
def test_nothing_is_learned_from_held_out_rows(task):
    """Whatever stands in them, tokens, scale and lengths are those of the other rows."""
    X, y = CASES[task][2:]
    plain, held = learned_from(task, X, y, seed=3)
    if task == "translate":  # equal sources are held out together
        assert len({X[i] for i in held}) == round(len(set(X)) / 4)
    else:
        assert len(held) == round(len(X) / 4)
    X, y = list(X), list(y)
    for i in held:
        if task == "regress":
            X[i], y[i] = X[i] * 1000 + 5, y[i] * 1000
        elif task == "generate":
            y[i] = y[i] + "zzzzzzzzzz"
        elif task == "tag":
            X[i] = ["zz" for _ in X[i]]
        else:
            X[i] = X[i] + "zzzzzzzzzz"
            y[i] = y[i] + "ZZ" if task == "translate" else y[i]
    assert learned_from(task, X, y, seed=3)[0] == plain
    assert learned_from(task, X, y, seed=4)[0] != plain


def test_a_source_with_several_translations_is_in_one_part_of_the_split(tmp_path):
    """A source that was seen in training would show nothing; the run finds the same split again."""
    X = [f"source {i % 30}" for i in range(90)]
    y = [f"target {i}" for i in range(90)]
    own = {"epochs": 1, "validation_fraction": 0.2, "test_fraction": 0.1, "min_count": 1}
    Seq2Seq(**QUICK | own).fit(X, y, out=tmp_path / "run")
    split = runs.open_setup(Run(tmp_path / "run")).split
    parts = [{X[i] for i in part} for part in (split.train, split.validation, split.test)]
    assert [len(part) for part in parts] == [21, 6, 3]
    assert len(set.union(*parts)) == 30


def test_a_vector_that_sets_the_state_is_scaled_by_the_rows_that_are_learned_from():
    vectors = np.random.default_rng(0).standard_normal((120, 2))
    plain, held = learned_from("generate", vectors, WORDS, seed=3)
    vectors[held] *= 1000
    assert learned_from("generate", vectors, WORDS, seed=3)[0] == plain


def test_balanced_weights_are_those_of_the_rows_that_are_learned_from():
    X, y = ["a", "b"] * 40, ["A", "B"] * 40
    options = QUICK | {"epochs": 1, "validation_fraction": 0.25, "class_weight": "balanced"}
    one = SequenceClassifier(**options).fit(X, y)
    held = np.setdiff1d(np.arange(80), RowSplit.draw(80, one.fitted_.config).train)
    for i in held:
        y[i] = "A"
    other = SequenceClassifier(**options).fit(X, y)
    assert one.fitted_.parameters.buffer.tobytes() == other.fitted_.parameters.buffer.tobytes()


def test_all_that_is_held_out_may_be_new(tmp_path):
    """Labels that only they have, tokens that only they have, and nothing but empty sequences to learn from."""
    names = [f"label {i}" for i in range(20)]
    model = SequenceGenerator(**QUICK | {"validation_fraction": 0.5, "epochs": 1}).fit(
        names, names, out=tmp_path / "run"
    )
    assert runs.resume(tmp_path / "run").parameters.buffer.tobytes() == model.fitted_.parameters.buffer.tobytes()
    options = QUICK | {"validation_fraction": 0.5}
    rows = RowSplit.draw(4, resolve("tag", SequenceTagger(**options)._given())).train
    X = [[] if i in rows else ["a"] for i in range(4)]
    with pytest.raises(ElmanError, match="at least one example with a loss"):
        SequenceTagger(**options).fit(X, [["x"] * len(x) for x in X])


# -- scikit-learn ------------------------------------------------------------------------------------------------------


@tasks
def test_before_fit_there_is_nothing_to_use(task):
    kind, _, X, y = CASES[task]
    for use in (lambda m: m.predict(X), lambda m: m.score(X, y), lambda m: m.save("nowhere")):
        with pytest.raises(NotFittedError):
            use(kind())


@tasks
def test_pickle_and_joblib_keep_an_estimator(task):
    model, X = made(task), PREDICT.get(task, CASES[task][2][:9])
    kept = io.BytesIO()
    joblib.dump(model, kept)
    kept.seek(0)
    for copy in (pickle.loads(pickle.dumps(model)), joblib.load(kept)):
        assert flat(copy.predict(X)) == flat(model.predict(X))


@tasks
def test_the_same_random_state_gives_the_same_model(task):
    a, b, other = made_anew(task), clone(made(task)), made_anew(task, random_state=1)
    b.fit(*CASES[task][2:])
    assert a.fitted_.parameters.buffer.tobytes() == b.fitted_.parameters.buffer.tobytes()
    assert a.fitted_.parameters.buffer.tobytes() != other.fitted_.parameters.buffer.tobytes()


def test_estimators_work_in_grid_search_and_pipeline():
    search = GridSearchCV(SequenceClassifier(**QUICK), {"hidden": [4, 16], "pooling": ["last"]}, cv=2)
    assert search.fit(WORDS, FIRST).best_params_["hidden"] in (4, 16)
    X = np.array([[0, 1, 5], [9, 1, 5]] * 20)
    line = make_pipeline(StandardScaler(), SequenceClassifier(**QUICK | {"epochs": 20}))
    assert line.fit(X, [0, 1] * 20).score(X, [0, 1] * 20) == 1


@tasks
def test_partial_fit_continues_training(task):
    kind, own, X, y = CASES[task]
    model = kind(**QUICK | own)
    scores = [model.partial_fit(X, y).score(X, y) for _ in range(6)]
    assert scores[-1] > scores[0] or scores[0] == 1
    assert model.n_iter_ == 6 * -(-len(X) // 16)


@tasks
def test_options_set_between_two_calls_of_partial_fit_take_effect(task):
    kind, own, X, y = CASES[task]

    first = kind(**QUICK | own).partial_fit(X, y)

    def after(**changes):
        model = deepcopy(first).set_params(**changes)
        return model.partial_fit(X, y).fitted_.parameters.buffer.tobytes()

    plain = after()
    assert plain == after(epochs=99, hidden=(QUICK | own)["hidden"])
    for changes in (
        {"learning_rate": 0.001},
        {"optimizer": "sgd"},
        {"dropout": 0.4},
        {"batch_size": 7},
        {"clip_norm": 1e-3},
        {"random_state": 5},
    ):
        assert after(**changes) != plain, changes


def test_a_class_weight_set_between_two_calls_of_partial_fit_takes_effect():
    model = SequenceClassifier(**QUICK).partial_fit(WORDS, FIRST)
    one, other = deepcopy(model), deepcopy(model).set_params(class_weight={"starts with a": 9.0})
    heavy = other.partial_fit(WORDS, FIRST).predict_proba([""])[0, 0]
    assert heavy > one.partial_fit(WORDS, FIRST).predict_proba([""])[0, 0] + 0.01


@pytest.mark.parametrize(
    ("task", "changes"),
    [
        ("classify", {"hidden": 17}),
        ("classify", {"pooling": "max"}),
        ("classify", {"tokens": "byte"}),
        ("regress", {"standardize": False}),
        ("tag", {"bidirectional": False}),
        ("generate", {"embedding": 3}),
        ("translate", {"attention": "additive"}),
    ],
)
def test_options_of_the_network_cannot_be_set_between_two_calls_of_partial_fit(task, changes):
    kind, own, X, y = CASES[task]
    model = kind(**QUICK | own).partial_fit(X, y)
    before = model.fitted_.parameters.buffer.tobytes()
    (name,) = changes
    with pytest.raises(ElmanError, match=f"{name}: expected .*, as in the first call, got .*To change it, call fit"):
        model.set_params(**changes).partial_fit(X, y)
    assert model.fitted_.parameters.buffer.tobytes() == before
    assert model.fit(X, y).n_iter_ > 0


@pytest.mark.parametrize("task", ["classify", "regress", "tag", "translate"])
def test_transform_shows_the_states_of_all_layers(task):
    model = made(task, layers=2, bidirectional=task in ("tag", "translate"))
    X, directions = CASES[task][2], 1 + model.bidirectional
    states = model.transform(X)
    assert states.shape == (len(X), 2 * directions * model.hidden)
    for row, every in zip(X, model.transform(X, steps=True), strict=True):
        assert every.shape == (len(row), 2 * directions * model.hidden)
    assert model.transform([]).shape == (0, states.shape[1])
    assert model.transform([]).dtype == states.dtype == np.float32
    if task == "classify":
        np.testing.assert_array_equal(model.transform(X, steps=True)[0][-1], states[0])


@tasks
def test_a_score_of_unequal_numbers_is_refused(task):
    X, y = CASES[task][2:]
    with pytest.raises(ValueError, match="number" if task in ("classify", "regress") else "as many as") as raised:
        made(task, epochs=1).score(X[:3], y[:2])
    assert isinstance(raised.value, ShapeError) or task in ("classify", "regress")  # which scikit-learn scores


def test_an_option_that_does_not_exist_is_refused_at_once():
    with pytest.raises(TypeError, match="hiden"):
        SequenceClassifier(hiden=3)


def test_a_pickled_or_copied_model_can_continue_training():
    model = SequenceClassifier(**QUICK).partial_fit(WORDS, FIRST)
    for copied in (pickle.loads(pickle.dumps(model)), deepcopy(model)):
        before = copied.predict_proba(WORDS[:5])
        assert (copied.partial_fit(WORDS, FIRST).predict_proba(WORDS[:5]) != before).any()


def test_partial_fit_after_another_fit_begins_anew():
    model = SequenceClassifier(**QUICK).partial_fit(WORDS, FIRST)
    model.set_params(hidden=24).fit(WORDS, FIRST)
    assert model.partial_fit(WORDS, FIRST).n_iter_ == model.epochs * 8 + 8


@tasks
def test_a_loaded_model_continues_the_count_of_steps(task, tmp_path):
    kind, own, X, y = CASES[task]
    model = kind(**QUICK | own).partial_fit(X, y)
    a_pass = model.n_iter_
    model.partial_fit(X, y).save(tmp_path / "run")
    known = load_model(tmp_path / "run")
    assert [known.n_iter_, *(known.partial_fit(X, y).n_iter_ for _ in range(2))] == [2 * a_pass, 3 * a_pass, 4 * a_pass]
    known.save(tmp_path / "again")
    assert load_model(tmp_path / "again").n_iter_ == 4 * a_pass
    assert known.fit(X, y).n_iter_ == model.epochs * a_pass


def test_the_optimizer_of_a_loaded_model_begins_at_its_first_step(tmp_path):
    made("classify").save(tmp_path / "run")
    known = load_model(tmp_path / "run")
    before = known.fitted_.parameters.buffer.copy()
    known.set_params(batch_size=len(WORDS), clip_norm=0.0, beta1=0.5).partial_fit(WORDS, FIRST)  # one step
    moved = abs(known.fitted_.parameters.buffer - before).max()
    assert moved == pytest.approx(known.learning_rate, rel=0.01)  # Adam's first one, whatever the gradient


@pytest.mark.parametrize("old", ["sgd", "rmsprop", "adamw"])
def test_another_optimizer_begins_at_its_first_step(old):
    options = {"batch_size": len(WORDS), "clip_norm": 0.0, "beta1": 0.5, "accumulate": 2}  # one step a pass
    model = SequenceClassifier(**QUICK | options, optimizer=old)
    for _ in range(4):
        model.partial_fit(WORDS, FIRST)
    taken, before = model.n_iter_, model.fitted_.parameters.buffer.copy()
    for count in (1, 2):
        model.set_params(optimizer="adam").partial_fit(WORDS, FIRST)
        assert model.n_iter_ == taken + count  # counts on all the same
        if count == 1:
            moved = abs(model.fitted_.parameters.buffer - before).max()
            assert moved == pytest.approx(model.learning_rate, rel=0.01)


def test_a_pass_may_be_interrupted_before_another_optimizer_has_a_memory(monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    model = SequenceClassifier(**QUICK, optimizer="sgd").partial_fit(WORDS, FIRST)
    taken = model.n_iter_
    model.set_params(optimizer="adam")
    with monkeypatch.context() as patch:
        patch.setattr("elman.training.trainer.update", interrupt)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(WORDS, FIRST)
    assert model.partial_fit(WORDS, FIRST).n_iter_ == 2 * taken


@pytest.mark.parametrize("kind", [SequenceClassifier, SequenceTagger])
def test_classes_named_again_must_be_those_of_the_first_call(kind):
    X, y = [["a"], ["b"]], [["A"], ["B"]] if kind is SequenceTagger else ["A", "B"]
    model = kind(**QUICK).partial_fit(X, y, classes=["A", "B", "C"])
    before = model.fitted_.parameters.buffer.tobytes()
    for others in (["A", "C"], ["A", "B", "D"], ["A", "B", "C", "D"], [1, 2, 3]):
        with pytest.raises(ValueError, match=r"classes: expected \['A', 'B', 'C'\], as in the first call") as raised:
            model.partial_fit(X, y, classes=others)
        assert isinstance(raised.value, ElmanError)
    assert model.fitted_.parameters.buffer.tobytes() == before
    assert model.partial_fit(X, y, classes=["C", "B", "A"]).partial_fit(X, y).n_iter_ == 3


@pytest.mark.parametrize(("classes", "what"), [(None, "labels"), (["A"], "classes")])
def test_a_single_class_is_refused_by_partial_fit_too(classes, what):
    model = SequenceClassifier(**QUICK)
    with pytest.raises(ElmanError, match=rf"{what}: expected at least two classes, got 1 class: \['A'\]"):
        model.partial_fit(["a", "b"], ["A", "A"], classes=classes)
    assert not hasattr(model, "fitted_")


@tasks
def test_a_random_state_that_is_passed_is_drawn_from_once_a_call(task):
    kind, own, X, y = CASES[task]
    passed, alone = np.random.RandomState(3), np.random.RandomState(3)
    model = kind(**QUICK | own | {"random_state": passed})
    for _ in range(2):
        model.partial_fit(X, y)
        alone.randint(np.iinfo(np.int32).max)
        assert passed.get_state()[2] == alone.get_state()[2]


@pytest.mark.parametrize("accumulate", [1, 20])
def test_partial_fit_passes_over_every_example_once(accumulate, monkeypatch):
    seen = []
    from elman.models.tasks import ExampleTask

    rows_of = ExampleTask.rows_of
    monkeypatch.setattr(ExampleTask, "rows_of", lambda self, epoch: seen.append(epoch) or rows_of(self, epoch))
    model = SequenceClassifier(**QUICK, accumulate=accumulate).partial_fit(
        WORDS[:48], FIRST[:48], classes=sorted(set(FIRST))
    )
    first = model.n_iter_
    model.partial_fit(WORDS, FIRST)
    if accumulate == 1:
        assert (first, model.n_iter_) == (3, 3 + 8)
        assert seen == [0, 1]  # a whole pass each, none begun in the middle
    assert first >= 1


def test_a_weight_counts_every_step_of_its_sequence():
    model = made("generate")
    one = model.score(["starts with a"], ["a"])
    both = model.score(["starts with a", "starts with b"], ["a", "bbbbb"], sample_weight=[1, 0])
    assert both == pytest.approx(one, rel=1e-6)
    assert model.score(["starts with a", "starts with b"], ["a", "bbbbb"], sample_weight=[3, 3]) == pytest.approx(
        model.score(["starts with a", "starts with b"], ["a", "bbbbb"]), rel=1e-6
    )


def test_a_list_may_have_any_length_whatever_its_neighbors():
    model = SequenceClassifier(**QUICK).fit([[1.0, 2.0, 3.0]] * 10 + [[0.0, 0.0, 1.0]] * 10, [0, 1] * 10)
    assert model.predict([[1.0, 2.0]]).shape == (1,)
    assert model.predict([[1.0, 2.0], [1.0]]).shape == (2,)


def test_tiny_changes_of_a_constant_feature_are_not_amplified():
    X = [np.full((3, 1), 0.3) for _ in range(20)]
    model = SequenceClassifier(**QUICK).fit(X, [0, 1] * 10)
    near = model.predict_proba([np.full((3, 1), 0.3000001)])
    np.testing.assert_allclose(near, model.predict_proba(X[:1]), atol=1e-4)


def test_arrays_of_strings_and_numpys_own_options_are_taken():
    words = np.array(WORDS)
    assert SequenceClassifier(**QUICK, bidirectional=np.True_).fit(words, np.array(FIRST)).predict(words[:3]).shape == (
        3,
    )
    tokens = np.array([["a", "b"], ["b", "a"]] * 10)
    assert SequenceClassifier(**QUICK).fit(tokens, [0, 1] * 10).fitted_.spec.inputs.symbols.kind == "list"


@pytest.mark.parametrize("temperature", [-1, np.nan, np.inf])
def test_a_temperature_that_makes_no_sense_is_refused(temperature):
    with pytest.raises(ElmanError, match="temperature"):
        made("generate").sample(["starts with a"], temperature=temperature)


def test_a_temperature_next_to_zero_takes_the_likeliest():
    model = made("generate")
    assert model.sample(["starts with a"], temperature=1e-320) == model.predict(["starts with a"])


@pytest.mark.parametrize(
    "damage",
    [
        lambda v: v | {"task": []},
        lambda v: v | {"targets": {"form": "numbers", "mean": [0, 0], "deviation": [1, 1], "flat": False}},
        lambda v: v | {"targets": {"form": "labels", "classes": [["a"], ["b"]], "dtype": "|O"}},
        lambda v: v | {"inputs": {"form": "tokens", "symbols": {**v["inputs"]["symbols"], "longest": 10**15}}},
        lambda v: v | {"inputs": {"form": "tokens", "symbols": {**v["inputs"]["symbols"], "kind": "byte"}}},
        lambda v: v | {"inputs": {"form": "numbers", "mean": [10**400], "deviation": [1]}},
        lambda v: v | {"inputs": {"form": "numbers", "mean": [0], "deviation": [10**400]}},
        lambda v: v | {"targets": {"form": "numbers", "mean": [10**400], "deviation": [1], "flat": True}},
        lambda v: v | {"targets": {"form": "numbers", "mean": [0], "deviation": [10**400], "flat": True}},
        lambda v: [],
    ],
)
def test_a_damaged_run_is_refused(tmp_path, damage):
    path = classifier().save(tmp_path / "run") / "vocabulary.json"
    path.write_text(json.dumps(damage(json.loads(path.read_text()))))
    with pytest.raises(RunError):
        load_model(tmp_path / "run")


def test_a_whole_number_beyond_float64_is_refused():
    huge = 10**400
    with pytest.raises(ElmanError, match=r"sequence 1: expected numbers up to .*, got a larger one"):
        SequenceClassifier(**QUICK).fit([[1, 2], [huge, 3]] * 9, ["a", "b"] * 9)
    with pytest.raises(ElmanError, match="y: expected numbers up to"):
        SequenceRegressor(**QUICK).fit(["ab", "cd"] * 9, [1, huge] * 9)
    with pytest.raises(ElmanError, match="sample_weight: expected numbers up to"):
        SequenceClassifier(**QUICK).fit(WORDS, FIRST, sample_weight=[huge] * len(WORDS))
    with pytest.raises(ElmanError, match="class_weight: expected a number for each class"):
        SequenceClassifier(**QUICK, class_weight={FIRST[0]: huge}).fit(WORDS, FIRST)


SERIES = [np.linspace(0, 1, 3 + i % 3)[:, np.newaxis] * [1, -1] for i in range(12)]  # (T_i, 2)
THREE = np.arange(12.0)[:, np.newaxis] * [1, 2, 3]  # (12, 3)


@pytest.mark.parametrize("moment", ["mean", "deviation"])
@pytest.mark.parametrize("side", ["inputs", "targets"])
@pytest.mark.parametrize("value", [10**400, "x", None, [1], math.inf])
def test_moments_that_are_no_numbers_are_refused(tmp_path, side, moment, value):
    path = SequenceRegressor(**QUICK | {"epochs": 1}).fit(SERIES, THREE).save(tmp_path / "run") / "vocabulary.json"
    facts = json.loads(path.read_text())
    facts[side][moment][0] = value
    path.write_text(json.dumps(facts))
    with pytest.raises(CheckpointError, match="damaged"):
        load_model(tmp_path / "run")


def test_a_run_with_a_class_weight_too_many_is_refused(tmp_path):
    run = tmp_path / "run"
    SequenceTagger(**QUICK | {"epochs": 1}, class_weight={"A": 2.0}).fit(WORDS, TAGS, out=run)
    arrays = read_arrays(run / "data.safetensors")
    data = to_bytes(arrays | {"class_weights": np.append(arrays["class_weights"], 1.0)})
    (run / "data.safetensors").write_bytes(data)
    config = json.loads((run / "config.json").read_text())
    config["data"]["stored_sha256"] = hashlib.sha256(data).hexdigest()  # as if it had been written so
    (run / "config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match="class_weights"):
        runs.resume(run)


RUNS = {
    "classify": lambda run: SequenceClassifier(**QUICK | {"epochs": 1}).fit(WORDS, FIRST, out=run),
    "regress": lambda run: SequenceRegressor(**QUICK | {"epochs": 1}).fit(SERIES, THREE, out=run),
    "tag": lambda run: SequenceTagger(**QUICK | {"epochs": 1}).fit(WORDS, TAGS, out=run),
    "generate": lambda run: SequenceGenerator(**QUICK | {"epochs": 1}).fit(FIRST, WORDS, out=run),
    "translate": lambda run: Seq2Seq(**QUICK | {"epochs": 1}).fit(WORDS, WORDS, out=run),
}
ODD = {
    "another rank": lambda a: a[..., np.newaxis],
    "one number": lambda a: a.ravel()[:1].reshape(()),
    "wider": lambda a: np.concatenate([a, a], axis=-1),
    "shorter": lambda a: a[:-1],
    "floats": lambda a: a.astype(np.float32) + 0.5,
    "integers": lambda a: a.astype(np.int8),
    "too large": lambda a: a + 10**6,
    "negative": lambda a: a * 0 - 1,
    "overflowing": lambda a: np.concatenate([a[:-2], [2**62, -(2**62) + a[-2:].sum()]]).astype(a.dtype),
    "as bools": lambda a: a.astype(bool),
}


@pytest.mark.parametrize("task", RUNS)
def test_examples_of_odd_shapes_are_refused_or_harmless_even_if_their_hash_fits(task, tmp_path):
    RUNS[task](tmp_path / "run")
    file, config = tmp_path / "run" / "data.safetensors", tmp_path / "run" / "config.json"
    good, facts = read_arrays(file), json.loads(config.read_text())
    refused = 0
    for name, array in good.items():
        for odd in (None, *ODD.values()):
            arrays = dict(good)
            arrays.pop(name)
            if odd is not None:
                try:
                    arrays[name] = odd(array)
                except ValueError:
                    continue
            file.write_bytes(to_bytes(arrays))
            facts["data"]["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
            config.write_text(json.dumps(facts))
            try:
                runs.resume(tmp_path / "run")
            except CheckpointError:
                refused += 1
    assert refused >= 5 * len(good)


@pytest.mark.parametrize(
    ("kind", "ask"),
    [
        (SequenceClassifier, "predict"),
        (SequenceClassifier, "predict_proba"),
        (SequenceClassifier, "predict_log_proba"),
        (SequenceTagger, "predict"),
        (SequenceTagger, "predict_proba"),
    ],
)
def test_weights_so_large_that_probabilities_are_nan_are_an_error_and_no_class(kind, ask):
    model = kind(**QUICK | {"epochs": 1, "bidirectional": False, "cell": "rnn"}).fit(
        WORDS, FIRST if kind is SequenceClassifier else TAGS
    )
    model.fitted_.parameters.buffer[:] = 3e38
    with pytest.raises(NotFiniteError, match=r"the prediction for sequence \d+: expected finite numbers"):
        getattr(model, ask)(WORDS)


def test_a_network_too_large_for_any_machine_is_refused():
    for options in ({"embedding": 1 << 24, "hidden": 1 << 12}, {"layers": 1 << 28, "hidden": 1}):
        with pytest.raises(ElmanError, match="at most"):
            SequenceClassifier(**QUICK | options).fit(WORDS, FIRST)


# -- saving and loading ------------------------------------------------------------------------------------------------


@tasks
def test_a_saved_model_is_loaded_unchanged(task, tmp_path):
    model, X = made(task), PREDICT.get(task, CASES[task][2][:9])
    model.save(tmp_path / "run")
    again = load_model(tmp_path / "run")
    assert type(again) is type(model)
    assert flat(again.predict(X)) == flat(model.predict(X))
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".pkl", ".pickle", ".joblib")]


@tasks
def test_a_loaded_model_has_its_arguments(task, tmp_path):
    kind, own, X, y = CASES[task]
    told = own | {"random_state": 7, "epochs": 2}
    if task in ("classify", "tag"):
        told["class_weight"] = {"starts with a": 2.0} if task == "classify" else {"A": 2.0}
    model = kind(**QUICK | told).fit(X, y, out=tmp_path / "run")
    model.save(tmp_path / "saved")
    load_model(tmp_path / "saved").save(tmp_path / "again")
    for name in ("run", "saved", "again"):
        known = load_model(tmp_path / name)
        assert known.get_params() == model.get_params()
        assert known.n_iter_ == model.n_iter_ > 0
    anew = clone(known).fit(X, y)
    assert anew.fitted_.parameters.buffer.tobytes() == model.fitted_.parameters.buffer.tobytes()
    more = known.partial_fit(X, y)
    assert more.n_iter_ > 0


@pytest.mark.parametrize("passes", [0, 1, 2])
@pytest.mark.parametrize("budget", [{}, {"steps": np.int64(3)}, {"steps": 3, "epochs": None}, {"seconds": 0.01}])
def test_arguments_that_partial_fit_or_a_budget_overrides_are_kept(budget, passes, tmp_path):
    options = {"schedule": "cosine", "warmup_steps": np.int64(2), "validation_fraction": np.float64(0.2)}
    model = SequenceClassifier(**{"hidden": 4, "random_state": 0} | options | budget)
    for _ in range(passes):
        model.partial_fit(WORDS, FIRST)
    if not passes:
        model.fit(WORDS, FIRST)
    model.save(tmp_path / "run")
    load_model(tmp_path / "run").save(tmp_path / "again")
    known = load_model(tmp_path / "again")
    assert known.get_params() == model.get_params()
    if "seconds" not in budget:
        anew, again = clone(model).fit(WORDS, FIRST), clone(known).fit(WORDS, FIRST)
        assert again.fitted_.parameters.buffer.tobytes() == anew.fitted_.parameters.buffer.tobytes()


def test_a_run_resumed_with_another_budget_is_loaded_with_it(tmp_path):
    options = {"hidden": 4, "random_state": 0, "class_weight": "balanced"}
    model = SequenceClassifier(**options, steps=3).fit(WORDS, FIRST, out=tmp_path / "run")
    assert load_model(tmp_path / "run").get_params() == model.get_params()
    again = runs.resume(tmp_path / "run", budget_options={"epochs": 2})
    known = load_model(tmp_path / "run")
    assert (known.epochs, known.steps, known.class_weight) == (2, None, "balanced")
    assert known.n_iter_ == again.steps > 3
    assert again.estimator_params.pop("by_form")
    assert again.estimator_params == {"random_state": 0, "class_weight": "balanced"}


def test_a_budget_of_as_many_steps_leaves_a_run_as_it_is(tmp_path):
    options = {
        "epochs": None,
        "steps": 16,
        "validation_fraction": 0.2,
        "validate_every": 1,
        "patience": 1,
        "learning_rate": 0.3,
    }
    model = SequenceClassifier(**QUICK | options).fit(WORDS, FIRST, out=tmp_path / "run")
    taken, kept = model.n_iter_, (tmp_path / "run" / "config.json").read_bytes()
    assert taken < 16
    for budget in ({"epochs": 16 / 6}, {"steps": taken}):  # 6 batches are a pass
        again = runs.resume(tmp_path / "run", budget_options=budget)
        assert (again.finished.why, again.finished.step) == ("patience", taken)
        assert (tmp_path / "run" / "config.json").read_bytes() == kept
    assert runs.resume(tmp_path / "run", budget_options={"steps": 17}).finished.step > taken


def test_numbers_are_weighted_and_seeds_are_unknown_after_a_run_too(tmp_path):
    model = SequenceClassifier(**QUICK | {"random_state": None}, class_weight={np.int64(0): 2, 1: 1})
    model.fit(WORDS, [int(word[0] == "a") for word in WORDS]).save(tmp_path / "run")
    known = load_model(tmp_path / "run")
    assert known.class_weight == {0: 2, 1: 1}
    assert known.random_state is None
    drawn = SequenceClassifier(**QUICK | {"random_state": np.random.RandomState(3)}).fit(WORDS, FIRST)
    drawn.save(tmp_path / "drawn")
    assert load_model(tmp_path / "drawn").random_state == drawn.fitted_.config.seed
    path = tmp_path / "run" / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "estimator": {"class_weight": [1, 2]}}))
    with pytest.raises(RunError, match="class_weight of a run is damaged"):
        load_model(tmp_path / "run")


def test_a_run_of_another_task_is_refused(tmp_path):
    made("tag").save(tmp_path / "run")
    with pytest.raises(RunError, match="a model to classify, got a model to tag"):
        SequenceClassifier.load(tmp_path / "run")


@tasks
def test_a_resumed_run_equals_an_uninterrupted_one(task, tmp_path):
    options = {"dropout": 0.2, "recurrent_dropout": 0.1, "validation_fraction": 0.2, "validate_every": 7}
    whole = made(task, **options)
    stops = iter([False] * 10 + [True] * 100)
    kind, own, X, y = CASES[task]
    setup = kind(**(QUICK | own | options)).make_setup(X, y)
    runs.start(setup, out=tmp_path / "run", stopping=lambda: next(stops))
    again = runs.resume(tmp_path / "run")
    assert again.finished.step == whole.n_iter_ > 10
    assert again.parameters.buffer.tobytes() == whole.fitted_.parameters.buffer.tobytes()


@tasks
def test_the_number_of_threads_changes_no_bit_of_a_model(task):
    try:
        models = []
        for threads in (1, 2, 3):
            set_threads(threads)
            models.append(made_anew(task, epochs=2, batch_size=40, dropout=0.2).fitted_.parameters.buffer.tobytes())
    finally:
        set_threads(None)
    assert len(set(models)) == 1


def test_rows_are_read_together_as_far_as_their_padding_allows():
    from elman.data.examples import Examples
    from elman.data.ragged import Ragged
    from elman.models.batches import MAX_ROWS, MAX_STEPS, rows_by_length

    lengths = np.array([1] * 255 + [20_000, MAX_STEPS + 1] + [300] * 600)
    n = len(lengths)
    batches = rows_by_length(Examples(Ragged(np.zeros(lengths.sum(), np.int64), lengths), np.zeros(n), np.ones(n)))
    assert sorted(np.concatenate(batches)) == list(range(n))
    assert len(batches) <= 6
    for rows in batches:
        assert len(rows) <= MAX_ROWS
        assert len(rows) == 1 or len(rows) * lengths[rows].max() <= MAX_STEPS


@pytest.mark.parametrize(("options", "judged"), [({}, [6, 12, 18]), ({"validate_every": 10}, [10, 18])])
def test_a_small_set_is_validated_once_per_epoch_unless_validate_every_is_set(options, judged):
    X, y = ["ab", "ba", "aa", "bb"] * 8, ["x", "y", "x", "y"] * 8
    seen = []

    def listen(event):
        if isinstance(event, Stepped) and event.validation_loss is not None:
            seen.append(event.step)

    SequenceClassifier(hidden=4, epochs=3, batch_size=4, validation_fraction=0.25, **options).fit(
        X, y, listeners=[listen]
    )
    assert seen == judged


# -- accuracy, as it is learned ---------------------------------------------------------------------------------------


def judged(task, **options):
    """The events with a validation, the model, and the held-out examples."""
    kind, own, X, y = CASES[task]
    events = []
    model = kind(**(QUICK | own | {"validation_fraction": 0.3, "epochs": 3} | options)).fit(
        X, y, listeners=[events.append]
    )
    learned = set(RowSplit.draw(len(X), model.fitted_.config, model._groups(X)).train)
    held = [i for i in range(len(X)) if i not in learned]
    seen = [e for e in events if isinstance(e, Stepped) and e.validation_loss is not None]
    return seen, model, [X[i] for i in held], [y[i] for i in held]


@pytest.mark.parametrize("weights", [None, "balanced"])
@pytest.mark.parametrize("task", ["classify", "tag"])
def test_every_validation_reports_the_accuracy_that_score_returns(task, weights):
    seen, model, X, y = judged(task, epochs=2, class_weight=weights, dtype="float64")
    assert len(seen) > 1
    best = min(seen, key=lambda event: event.validation_loss)
    assert best.validation_accuracy == pytest.approx(model.score(X, y), abs=1e-12)
    if task == "tag":
        X, y = [[]] * 3 + X, [[]] * 3 + y  # of which nothing can be right or wrong
        rest = model._examples(model.fitted_.spec, model.fitted_.config, X, y, None, np.arange(len(X)))
        again = evaluation.evaluate_examples(model.fitted_.network, model.fitted_.parameters, rest)
        assert again.accuracy == best.validation_accuracy


def test_accuracy_is_neither_always_one_nor_always_nothing():
    tasks = ["classify", "tag"]
    found = [e.validation_accuracy for task in tasks for e in judged(task, learning_rate=0.002, validate_every=2)[0]]
    assert len(set(found)) > 3
    assert all(0 < accuracy <= 1 for accuracy in found)


@pytest.mark.parametrize("task", ["regress", "generate", "translate"])
def test_models_without_classes_have_no_accuracy(task):
    seen, *_ = judged(task, epochs=1)
    assert seen
    assert {event.validation_accuracy for event in seen} == {None}


@pytest.mark.parametrize("options", [{}, {"pooling": "mean"}, {"pooling": "max", "bidirectional": True}, {"tag": True}])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_the_loss_of_validation_is_the_loss_of_training(options, precision):
    """Computed without gradients and with them."""
    task = "tag" if "tag" in options else "classify"
    kind, own, X, y = CASES[task]
    options = {name: value for name, value in options.items() if name != "tag"}
    weights = {name: 1 + i for i, name in enumerate(sorted({*y[0], *y[1]} if task == "tag" else set(y)))}
    model = kind(**(QUICK | own | options), class_weight=weights, dtype=precision).fit(X, y)
    fitted = model.fitted_
    sequences, rows = model._sequences(X, reset=False), np.arange(len(y))
    examples = model._examples(fitted.spec, fitted.config, sequences, y, RNG.random(len(y)), rows)
    total = units = 0.0
    for rows in batches.rows_by_length(examples):
        batch = batches.to_batch(examples, rows, fitted.parameters.buffer.dtype)
        room = fitted.parameters.zeros()
        total += fitted.network.loss_and_gradients(fitted.parameters, batch, room, normalizer=1.0)
        units += fitted.network.loss_count(batch)
    found = evaluation.evaluate_examples(fitted.network, fitted.parameters, examples).loss
    assert found == pytest.approx(total / units, rel=1e-6 if precision == "float32" else 1e-12)


@pytest.mark.parametrize("task", ["classify", "tag"])
def test_rows_of_an_interrupted_run_have_the_same_accuracy(task, tmp_path):
    kind, own, X, y = CASES[task]
    options = QUICK | own | {"validation_fraction": 0.3, "epochs": 3, "validate_every": 4}
    kind(**options).fit(X, y, out=tmp_path / "whole")
    stops = iter([False] * 9 + [True] * 9)
    runs.start(kind(**options).make_setup(X, y), out=tmp_path / "run", stopping=lambda: next(stops))
    runs.resume(tmp_path / "run")
    names = ("step", "validation_loss", "validation_accuracy")
    whole, run = ([[row.get(n) for n in names] for row in Run(tmp_path / n).metrics()] for n in ("whole", "run"))
    validated = [row for row in whole if row[1] is not None]
    assert len(validated) > 3
    assert [row for row in run if row[1] is not None] == validated
    assert all((row[1] is None) == (row[2] is None) for row in run)


# -- tables -----------------------------------------------------------------------------------------------------------


class Table:
    """The part of a DataFrame that is needed here."""

    ndim = 2

    def __init__(self, **columns: list[str]) -> None:
        self.columns = list(columns)
        self._rows = np.array(list(zip(*columns.values(), strict=True)), object)
        self.shape = self._rows.shape

    def __len__(self) -> int:
        return len(self._rows)

    def __array__(self, dtype=None, copy=None):
        return self._rows


def test_a_table_with_one_column_of_texts_is_read_as_texts():
    texts, y = ["ab cd", "cd ab", "ab ab", "cd cd"] * 4, ["x", "y"] * 8
    options = {"hidden": 4, "epochs": 2, "random_state": 0}
    model, plain = SequenceClassifier(**options).fit(Table(text=texts), y), SequenceClassifier(**options).fit(texts, y)
    assert model.fitted_.spec.to_json() == plain.fitted_.spec.to_json()
    assert model.predict_proba(Table(text=texts[:3])).tolist() == plain.predict_proba(texts[:3]).tolist()


def test_a_table_with_several_columns_of_texts_is_refused_with_what_to_do():
    table = Table(title=["a", "b"] * 4, text=["c", "d"] * 4)
    with pytest.raises(ArgumentError, match=r"one column of texts.*\['title', 'text'\].*X\['title'\]"):
        SequenceClassifier(hidden=4, epochs=1).fit(table, ["x", "y"] * 4)


@tasks
def test_every_model_has_a_history_and_a_summary(task, tmp_path):
    model = made(task, validation_fraction=0.25)
    assert model.history_[-1]["step"] == model.n_iter_
    assert "validation loss" in model.summary_
    model.save(tmp_path / "saved")
    again = load_model(tmp_path / "saved")
    assert (again.history_, again.summary_, again.n_iter_) == (model.history_, model.summary_, model.n_iter_)
