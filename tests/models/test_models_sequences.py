"""Models of every shape: what they learn, keep, refuse, and how they behave as scikit-learn estimators."""

import io
import json
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
from elman.errors import ElmanError, RunError, ShapeError, VocabularyError
from elman.models import sequence_run
from elman.network.pool import set_threads

QUICK = {"hidden": 16, "epochs": 6, "batch": 16, "learning_rate": 0.02, "warmup": 5, "random_state": 0}
RNG = np.random.default_rng(0)
WORDS = ["".join(RNG.choice(list("ab"), size=n)) for n in RNG.integers(1, 6, size=120)]
FIRST = [f"starts with {word[0]}" for word in WORDS]
TAGS = [[letter.upper() for letter in word] for word in WORDS]
NUMBERS = [np.random.default_rng(i).standard_normal((3 + i % 3, 2)) for i in range(80)]
MEANS = np.array([x[:, 0].mean() for x in NUMBERS])


def classifier(**options):
    return SequenceClassifier(**(QUICK | options)).fit(WORDS, FIRST)


CASES = {
    "classify": (SequenceClassifier, {}, WORDS, FIRST),
    "regress": (SequenceRegressor, {}, NUMBERS, MEANS),
    "tag": (SequenceTagger, {}, [list(word) for word in WORDS], TAGS),
    "generate": (SequenceGenerator, {}, FIRST, WORDS),
    "translate": (Seq2Seq, {"hidden": 24, "embedding": 8}, WORDS, [word.upper() for word in WORDS]),
}
PREDICT = {"generate": ["starts with a", "starts with b"]}


def made(task, **options):
    kind, own, X, y = CASES[task]
    return kind(**(QUICK | own | options)).fit(X, y)


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
    one = SequenceTagger(**QUICK | {"epochs": 25, "dropout": 0.0, "both_ways": False}).fit(words, ends)
    assert both.score(words, ends) > 0.95 > one.score(words, ends)
    assert [len(tags) for tags in both.predict(words)] == [len(word) for word in words]
    for proba, word in zip(both.predict_proba(words), words, strict=True):
        assert proba.shape == (len(word), 2)


def test_a_generator_writes_what_belongs_to_a_label_and_to_a_vector():
    model = made("generate", epochs=30)
    assert all(word.startswith("a") for word in model.sample(["starts with a"] * 20, seed=3))
    vectors = np.array([[word[0] == "a", 1.0] for word in WORDS], float)
    model = SequenceGenerator(**QUICK | {"epochs": 30}).fit(vectors, WORDS)
    assert all(word.startswith("b") for word in model.sample(np.array([[0.0, 1.0]] * 20), seed=3))
    assert model.score(vectors, WORDS) > model.score(vectors[::-1], WORDS)


def test_a_seeded_sequence_is_the_same_alone_or_among_others():
    model = made("generate")
    many = model.sample(["starts with a", "starts with b", "starts with a"], temperature=1.0, seed=5)
    assert model.sample(["starts with a"], temperature=1.0, seed=5) == many[:1]
    assert many != model.sample(["starts with a", "starts with b", "starts with a"], temperature=1.0, seed=6)


@pytest.mark.parametrize("reverse_source", [False, True])
@pytest.mark.parametrize("both_ways", [False, True])
def test_sequence_to_sequence_learns_to_copy(reverse_source, both_ways):
    short = [word[:3] for word in WORDS]
    upper = [word.upper() for word in short]
    model = Seq2Seq(
        **QUICK
        | {"hidden": 48, "epochs": 40, "learning_rate": 5e-3, "both_ways": both_ways, "reverse_source": reverse_source}
    ).fit(short, upper)
    assert model.score(short, upper) > 0.9
    assert model.predict(short[:5], beam=3) == upper[:5]


def test_a_beam_finds_nothing_less_likely_than_greed():
    model = made("translate", epochs=2)
    fitted = model.fitted_
    from elman.models.decoding import beam_write, write

    for source in WORDS[:10]:
        states = fitted.network.start(fitted.parameters, *_encoded(model, source))[0]
        greedy = write(fitted.network, fitted.parameters, states, limit=12)[0]
        wide = beam_write(fitted.network, fitted.parameters, states, limit=12, width=8)
        assert _log(fitted, states, wide) >= _log(fitted, states, greedy) - 1e-9


def _encoded(model, source):
    x = model._encoded([source])
    return x.padded(np.array([0])).astype(np.int64), x.lengths


def _log(fitted, states, tokens):
    total, told = 0.0, [1, *tokens]
    for token, after in zip(told, [*tokens, 1], strict=True):
        o, states = fitted.network.step(fitted.parameters, np.array([token]), states)
        o = o[0].astype(np.float64)
        o[0] = -np.inf  # the unknown is never written
        total += o[after] - np.logaddexp.reduce(o)
    return total


# -- what they are given -----------------------------------------------------------------------------------------------


def test_strings_tokens_and_numbers_of_any_length_go_in():
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
        model = SequenceClassifier(**QUICK).fit(X, y)
        assert model.predict(X).shape == (4,)
        assert model.transform(X).shape == (4, 16)


def test_whole_numbers_are_numbers_and_never_ids():
    model = SequenceClassifier(**QUICK).fit(np.array([[1000], [-5], [7], [0]]), [0, 1, 0, 1])
    assert model.fitted_.network.shapes["layers.0.W_xh"] == (1, 16)


@tasks
def test_an_empty_sequence_has_a_clear_answer(task):
    model = made(task)
    if task == "generate":
        return
    X = [np.zeros((0, 2))] if task == "regress" else [[]] if task == "tag" else [""]
    (said,) = model.predict(X)
    assert {"classify": str(said) in FIRST, "tag": said == [], "translate": isinstance(said, str)}.get(
        task, np.isfinite(said) if task == "regress" else False
    )


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
        (["a", "b"], ["x"], "as many as there are sequences"),
        (["a", "b"], ["x", "x"], "two classes"),
        ([["a"], [1.0]], ["x", "y"], "sequence 1: expected tokens"),
        (["a", ["b"]], ["x", "y"], "sequence 1: expected strings"),
        ([np.ones((2, 2)), np.ones((2, 3))], ["x", "y"], "equally many numbers"),
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
    a, b, other = made(task), clone(made(task)), made(task, random_state=1)
    b.fit(*CASES[task][2:])
    assert a.fitted_.parameters.buffer.tobytes() == b.fitted_.parameters.buffer.tobytes()
    assert a.fitted_.parameters.buffer.tobytes() != other.fitted_.parameters.buffer.tobytes()


def test_grid_search_and_pipeline_take_them():
    search = GridSearchCV(SequenceClassifier(**QUICK), {"hidden": [4, 16], "pooling": ["last"]}, cv=2)
    assert search.fit(WORDS, FIRST).best_params_["hidden"] in (4, 16)
    X = np.array([[0, 1, 5], [9, 1, 5]] * 20)
    line = make_pipeline(StandardScaler(), SequenceClassifier(**QUICK | {"epochs": 20}))
    assert line.fit(X, [0, 1] * 20).score(X, [0, 1] * 20) == 1


@tasks
def test_partial_fit_learns_on_from_where_it_was(task):
    kind, own, X, y = CASES[task]
    model = kind(**QUICK | own)
    scores = [model.partial_fit(X, y).score(X, y) for _ in range(6)]
    assert scores[-1] > scores[0] or scores[0] == 1
    assert model.n_iter_ == 6 * -(-len(X) // 16)


@pytest.mark.parametrize("task", ["classify", "regress", "tag", "translate"])
def test_transform_shows_the_states_of_all_layers(task):
    model = made(task, layers=2)
    X, directions = CASES[task][2], 2 if task in ("tag", "translate") else 1
    states = model.transform(X)
    assert states.shape == (len(X), 2 * directions * model.hidden)
    for row, every in zip(X, model.transform(X, steps=True), strict=True):
        assert every.shape == (len(row), 2 * directions * model.hidden)
    if task == "classify":
        np.testing.assert_array_equal(model.transform(X, steps=True)[0][-1], states[0])


def test_an_option_that_does_not_exist_is_refused_at_once():
    with pytest.raises(TypeError, match="hiden"):
        SequenceClassifier(hiden=3)


def test_a_pickled_or_copied_model_learns_on():
    model = SequenceClassifier(**QUICK).partial_fit(WORDS, FIRST)
    for copied in (pickle.loads(pickle.dumps(model)), deepcopy(model)):
        before = copied.predict_proba(WORDS[:5])
        assert (copied.partial_fit(WORDS, FIRST).predict_proba(WORDS[:5]) != before).any()


def test_partial_fit_after_another_fit_begins_anew():
    model = SequenceClassifier(**QUICK).partial_fit(WORDS, FIRST)
    model.set_params(hidden=24).fit(WORDS, FIRST)
    assert model.partial_fit(WORDS, FIRST).n_iter_ == 8


@pytest.mark.parametrize("accumulate", [1, 20])
def test_partial_fit_passes_over_every_example_once(accumulate, monkeypatch):
    seen = []
    from elman.models.sequence_task import SequenceTask

    rows_of = SequenceTask.rows_of
    monkeypatch.setattr(SequenceTask, "rows_of", lambda self, epoch: seen.append(epoch) or rows_of(self, epoch))
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


def test_a_list_may_have_any_length_whatever_its_neighbours():
    model = SequenceClassifier(**QUICK).fit([[1.0, 2.0, 3.0]] * 10 + [[0.0, 0.0, 1.0]] * 10, [0, 1] * 10)
    assert model.predict([[1.0, 2.0]]).shape == (1,)
    assert model.predict([[1.0, 2.0], [1.0]]).shape == (2,)


def test_the_source_is_read_as_it_was_in_training(tmp_path):
    model = made("translate", reverse_source=False)
    said = model.predict(WORDS[:9])
    model.set_params(reverse_source=True)
    assert model.predict(WORDS[:9]) == said
    model.save(tmp_path / "run")
    assert load_model(tmp_path / "run").predict(WORDS[:9]) == said


def test_a_constant_feature_is_not_blown_up():
    X = [np.full((3, 1), 0.3) for _ in range(20)]
    model = SequenceClassifier(**QUICK).fit(X, [0, 1] * 10)
    near = model.predict_proba([np.full((3, 1), 0.3000001)])
    np.testing.assert_allclose(near, model.predict_proba(X[:1]), atol=1e-4)


def test_arrays_of_strings_and_numpys_own_options_are_taken():
    words = np.array(WORDS)
    assert SequenceClassifier(**QUICK, both_ways=np.True_).fit(words, np.array(FIRST)).predict(words[:3]).shape == (3,)
    tokens = np.array([["a", "b"], ["b", "a"]] * 10)
    assert SequenceClassifier(**QUICK).fit(tokens, [0, 1] * 10).fitted_.terms.inputs.symbols.kind == "list"


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
        lambda v: [],
    ],
)
def test_a_damaged_run_is_refused(tmp_path, damage):
    path = classifier().save(tmp_path / "run") / "vocabulary.json"
    path.write_text(json.dumps(damage(json.loads(path.read_text()))))
    with pytest.raises(RunError):
        load_model(tmp_path / "run")


def test_a_network_too_large_for_any_machine_is_refused():
    for options in ({"embedding": 1 << 24, "hidden": 1 << 12}, {"layers": 1 << 28, "hidden": 1}):
        with pytest.raises(ElmanError, match="at most"):
            SequenceClassifier(**QUICK | options).fit(WORDS, FIRST)


# -- keeping -----------------------------------------------------------------------------------------------------------


@tasks
def test_a_saved_model_comes_back_equal(task, tmp_path):
    model, X = made(task), PREDICT.get(task, CASES[task][2][:9])
    model.save(tmp_path / "run")
    again = load_model(tmp_path / "run")
    assert type(again) is type(model)
    assert flat(again.predict(X)) == flat(model.predict(X))
    assert not [path for path in tmp_path.rglob("*") if path.suffix in (".pkl", ".pickle", ".joblib")]


def test_a_run_of_another_task_is_refused(tmp_path):
    made("tag").save(tmp_path / "run")
    with pytest.raises(RunError, match="a model to classify, got one to tag"):
        SequenceClassifier.load(tmp_path / "run")


@tasks
def test_a_resumed_run_equals_an_uninterrupted_one(task, tmp_path):
    options = {"dropout": 0.2, "recurrent_dropout": 0.1, "validation": 0.2, "validate_every": 7}
    whole = made(task, **options)
    stops = iter([False] * 10 + [True] * 100)
    kind, own, X, y = CASES[task]
    kind(**(QUICK | own | options)).fit(X, y, out=tmp_path / "run", stopping=lambda: next(stops))
    again = sequence_run.resume(tmp_path / "run")
    assert again.finished.step == whole.n_iter_ > 10
    assert again.parameters.buffer.tobytes() == whole.fitted_.parameters.buffer.tobytes()


@tasks
def test_the_number_of_threads_changes_no_bit_of_a_model(task):
    try:
        models = []
        for threads in (1, 2, 3):
            set_threads(threads)
            models.append(made(task, epochs=2, batch=40, dropout=0.2).fitted_.parameters.buffer.tobytes())
    finally:
        set_threads(None)
    assert len(set(models)) == 1


def test_rows_are_read_together_as_far_as_their_padding_allows():
    from elman.data.examples import Examples
    from elman.data.ragged import Ragged
    from elman.models.sequence_task import ROWS_AT_ONCE, STEPS_AT_ONCE, by_length

    lengths = np.array([1] * 255 + [20_000, STEPS_AT_ONCE + 1] + [300] * 600)
    n = len(lengths)
    batches = by_length(Examples(Ragged(np.zeros(lengths.sum(), np.int64), lengths), np.zeros(n), np.ones(n)))
    assert sorted(np.concatenate(batches)) == list(range(n))
    assert len(batches) <= 6
    for rows in batches:
        assert len(rows) <= ROWS_AT_ONCE
        assert len(rows) == 1 or len(rows) * lengths[rows].max() <= STEPS_AT_ONCE
