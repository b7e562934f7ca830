"""Training that starts from a trained model: what is kept, merged, refused, and resumed."""

import numpy as np
import pytest
from sklearn.base import clone

from elman import LanguageModel, Seq2Seq, SequenceClassifier, SequenceGenerator, SequenceRegressor, SequenceTagger
from elman.data import CharVocabulary
from elman.data.words import UNK, WordVocabulary
from elman.errors import ArgumentError, ShapeError
from elman.models import runs
from elman.models.fine_tuning import merge_vocabularies
from elman.training.events import Stepped
from elman.training.run import Run

QUICK = {"hidden": 8, "epochs": 2, "batch_size": 8, "random_state": 0}
LETTERS = ["ab", "abab", "ba", "baba"] * 10
NUMBERS = [np.random.default_rng(i).standard_normal((3, 2)) for i in range(40)]
CASES = {  # kind, options, first data, data with something new
    "classify": (SequenceClassifier, {}, (LETTERS, [x[0] for x in LETTERS]), (["cab", "bac"] * 8, ["c", "b"] * 8)),
    "embedding": (SequenceClassifier, {"embedding": 4, "bidirectional": True}, (LETTERS, [x[0] for x in LETTERS]),
                  (["cab", "bac"] * 8, ["c", "b"] * 8)),
    "regress": (SequenceRegressor, {}, (NUMBERS, [float(x.sum()) for x in NUMBERS]),
                ([5 + x for x in NUMBERS], [float(x.sum()) for x in NUMBERS])),
    "tag": (SequenceTagger, {}, ([list(x) for x in LETTERS], [list(x.upper()) for x in LETTERS]),
            ([list("cab")] * 8, [list("CAB")] * 8)),
    "generate": (SequenceGenerator, {}, ([x[0] for x in LETTERS], LETTERS), (["c", "b"] * 8, ["cab", "bac"] * 8)),
    "translate": (Seq2Seq, {"embedding": 4}, (LETTERS, [x.upper() for x in LETTERS]),
                  (["cab", "bac"] * 8, ["CAB", "BAC"] * 8)),
}  # fmt: skip
cases = pytest.mark.parametrize("case", CASES)
OLD, NEW = "the cat sat on the mat\n" * 60, "the dog dug: why?\n" * 60
TEXT = {"hidden": 12, "window": 8, "batch_size": 4}


def start_of(case):
    kind, own, old, new = CASES[case]
    return kind(**QUICK | own).fit(*old), new


# -- what is kept ------------------------------------------------------------------------------------------------------


@cases
def test_predictions_on_old_data_are_unchanged_before_the_first_step(case):
    start, (X, y) = start_of(case)
    setup = (
        clone(start)
        .set_params(hidden=None if case in ("classify", "embedding", "regress") else 8)
        .make_setup(X, y, start=start)
    )
    model = clone(start)._set_fitted(setup.new_model())
    old = CASES[case][2]
    if case in ("classify", "embedding"):
        places = [model.classes_.tolist().index(label) for label in start.classes_]
        known = np.asarray(model._outputs(old[0]))[:, places]
        np.testing.assert_allclose(known, start._outputs(old[0]), rtol=1e-5, atol=1e-6)
        assert model.classes_.tolist() == ["a", "b", "c"]
    elif case == "regress":
        np.testing.assert_allclose(model.predict(NUMBERS), start.predict(NUMBERS), rtol=1e-5)  # by the old scale
    elif case == "tag":
        assert model.classes_.tolist() == ["A", "B", "C"]
    names = [name for name in start.fitted_.parameters if name.endswith("W_hh")]
    assert names
    for name in names:
        assert (model.fitted_.parameters[name] == start.fitted_.parameters[name]).all()


@cases
def test_every_task_can_start_from_a_trained_model(case, tmp_path):
    start, (X, y) = start_of(case)
    start.save(tmp_path / "start")
    model = clone(start).fit(X, y, start=tmp_path / "start", out=tmp_path / "run")
    assert model.fitted_.config.learning_rate == pytest.approx(start.fitted_.config.learning_rate / 4)
    assert len(model.predict(X)) == len(X)
    assert Run(tmp_path / "run").config["start"]["run"] == str(tmp_path / "start")
    again = type(start).load(tmp_path / "run")
    assert (again.fitted_.parameters.buffer == model.fitted_.parameters.buffer).all()


def test_rows_of_known_characters_are_copied_and_others_drawn():
    start = LanguageModel(**TEXT, steps=20).fit(OLD, listeners=[])
    drawn = []
    setup_of = LanguageModel(steps=1).fit(NEW, start=start, listeners=[drawn.append])
    assert (setup_of.config_.hidden, setup_of.config_.learning_rate) == (12, 2e-3)
    assert set(setup_of.vocabulary_.tokens) == set(OLD) | set(NEW)
    corpus = runs.open_text(NEW, start.config_)
    setup = start.continued(
        corpus, start.config_, lambda vocabulary: runs.open_text(NEW, start.config_, vocabulary=vocabulary)
    )
    old, new = start.parameters_, setup.new_model().parameters
    for token in "cat":
        i, j = start.vocabulary_.tokens.index(token), setup.corpus.vocabulary.tokens.index(token)
        assert (old["embedding.W"][i] == new["embedding.W"][j]).all()
        assert (old["head.W_hy"][:, i] == new["head.W_hy"][:, j]).all()
    assert new["embedding.W"][setup.corpus.vocabulary.tokens.index("?")].any()  # drawn, not 0
    dropped = start.continued(corpus, start.config_, lambda vocabulary: corpus, drop_unused=True)
    assert set(dropped.corpus.vocabulary.tokens) == set(NEW)


def test_the_loss_on_old_and_new_text_is_known_before_and_after():
    start = LanguageModel(**TEXT, steps=80).fit(OLD, listeners=[])
    model = LanguageModel(steps=60).fit(NEW, start=start, listeners=[])
    (old_before, old_after), (new_before, new_after) = (model.fitted_.fine_tuning[name] for name in ("old", "new"))
    assert new_after < new_before
    assert old_before < old_after  # it forgets
    dropped = LanguageModel(steps=5).fit(NEW, start=start, drop_unused=True, listeners=[])
    assert dropped.fitted_.fine_tuning["old"][1] is None
    assert dropped.fitted_.fine_tuning["new"][1] is not None


def test_losses_before_and_after_are_of_the_same_data_if_validations_are_shortened(monkeypatch):
    monkeypatch.setattr(runs, "allowed_share", lambda *_: 0.2)  # as on a slow machine
    start = LanguageModel(**TEXT, steps=5).fit(OLD, listeners=[])
    with pytest.warns(UserWarning, match="validat"):
        model = LanguageModel(seconds=0.05, learning_rate=1e-12).fit(NEW + OLD, start=start, listeners=[])
    before, after = model.fitted_.fine_tuning["new"]
    assert after == pytest.approx(before, rel=1e-6)  # nothing was learned


def test_vocabularies_of_words_and_characters_are_merged():
    words = merge_vocabularies(WordVocabulary((UNK, " a", " b")), WordVocabulary((UNK, " b", " c")))
    assert words.tokens == (UNK, " a", " b", " c")
    assert merge_vocabularies(CharVocabulary("ab"), CharVocabulary("bc"), drop_unused=True).tokens == ("b", "c")
    with pytest.raises(ArgumentError, match="tokens: expected char"):
        merge_vocabularies(CharVocabulary("ab"), words)


# -- exact resume ------------------------------------------------------------------------------------------------------


class _Killed(Exception):
    pass


@pytest.mark.parametrize("kind", ["text", "examples"])
@pytest.mark.parametrize("at", [1, 7])
def test_a_killed_training_resumes_exactly_to_the_bit(kind, at, tmp_path):
    def kill(event):
        if isinstance(event, Stepped) and event.step == at:
            raise _Killed

    if kind == "text":
        (tmp_path / "new.txt").write_text(NEW)
        start = LanguageModel(**TEXT, steps=20).fit(OLD, listeners=[])
        new, data = LanguageModel(steps=12, save_every=5), (tmp_path / "new.txt",)
    else:
        start, data = start_of("classify")
        new = SequenceClassifier(**QUICK | {"hidden": None, "epochs": 6})
    whole = new.fit(*data, start=start, out=tmp_path / "whole", listeners=[])
    with pytest.raises(_Killed):
        new.fit(*data, start=start, out=tmp_path / "run", listeners=[kill])
    resumed = runs.resume(tmp_path / "run")
    assert (resumed.parameters.buffer == whole.fitted_.parameters.buffer).all()


# -- the best model ----------------------------------------------------------------------------------------------------


WORSE = "why? " * 300 + OLD[:160]  # what is learned from it makes the loss on its end, the validation part, worse


def start_kept(tmp_path, at=None):
    """A fine-tuning that improves on nothing, killed after step `at` and resumed."""

    def kill(event):
        if isinstance(event, Stepped) and event.step == at:
            raise _Killed

    start = LanguageModel(**TEXT, steps=80, embedding=0).fit(OLD, listeners=[])
    (tmp_path / "worse.txt").write_text(WORSE)
    model, out = LanguageModel(steps=12, save_every=5, validate_every=4), tmp_path / f"run{at}"
    if at is None:
        return model.fit(tmp_path / "worse.txt", start=start, out=out, listeners=[]).fitted_, out
    with pytest.raises(_Killed):
        model.fit(tmp_path / "worse.txt", start=start, out=out, listeners=[kill])
    return runs.resume(out), out


def test_the_model_that_training_starts_from_is_kept_if_no_step_improves_on_it(tmp_path):
    model, out = start_kept(tmp_path)
    before, after = model.fine_tuning["new"]
    assert after == before
    assert (model.finished.best_step, model.finished.best_loss) == (0, pytest.approx(before))
    assert "(best, at step 0)" in model.summary()
    validated = [row["step"] for row in model.history if row["validation_loss"] is not None]
    assert validated == [0, 4, 8, 12]
    assert (LanguageModel.load(out).parameters_.buffer == model.parameters.buffer).all()


@pytest.mark.parametrize("at", [1, 7])
def test_a_resumed_training_knows_the_loss_of_its_start(tmp_path, at):
    (whole, _), (resumed, _) = start_kept(tmp_path), start_kept(tmp_path, at)
    assert (resumed.parameters.buffer == whole.parameters.buffer).all()
    assert (resumed.finished.best_step, resumed.finished.best_loss) == (0, whole.finished.best_loss)
    names = ("step", "loss", "validation_loss")
    assert [[row[n] for n in names] for row in resumed.history] == [[row[n] for n in names] for row in whole.history]


def test_examples_of_a_better_start_keep_it_too():
    kind, own, (X, y), _ = CASES["classify"]
    start = kind(**QUICK | own | {"epochs": 30}).fit(X, y)
    wrong = kind(**QUICK | {"hidden": None, "validation_fraction": 0.2, "learning_rate": 0.3, "patience": 3})
    model = wrong.fit(X, y, start=start)
    assert model.history_[0]["step"] == 0
    assert model.history_[0]["validation_accuracy"] == 1.0
    best = min(row["validation_loss"] for row in model.history_ if row["validation_loss"] is not None)
    assert model.fitted_.finished.best_loss == best


# -- what is refused ---------------------------------------------------------------------------------------------------


def test_a_start_that_is_no_model_of_the_same_kind_is_refused():
    examples, _ = start_of("classify")
    text = LanguageModel(**TEXT, steps=1).fit(OLD, listeners=[])
    with pytest.raises(ArgumentError, match=r"start: expected a LanguageModel or the path .*, got SequenceClass"):
        LanguageModel(**TEXT, steps=1).fit(NEW, start=examples, listeners=[])
    with pytest.raises(ArgumentError, match=r"start: expected a SequenceClassifier or .*, got LanguageModel"):
        SequenceClassifier().fit(LETTERS, ["a", "b"] * 20, start=text)


def test_options_that_do_not_match_are_refused_by_name():
    start, (X, y) = start_of("classify")
    with pytest.raises(ArgumentError, match="hidden: expected 8, as in the model that training starts from, got 9"):
        SequenceClassifier(hidden=9).fit(X, y, start=start)
    with pytest.raises(ArgumentError, match="the model to start from: expected one of task regress, got task classify"):
        SequenceRegressor().fit(NUMBERS, [1.0] * 40, start=start)
    with pytest.raises(ArgumentError, match="expected tokens, as in the model that training starts from, got numbers"):
        SequenceClassifier().fit(NUMBERS, ["a", "b"] * 20, start=start)
    numbers, _ = start_of("regress")
    with pytest.raises(ShapeError, match="expected 2 numbers per step, as in the model"):
        SequenceRegressor().fit([x[:, :1] for x in NUMBERS], [1.0] * 40, start=numbers)
    with pytest.raises(ArgumentError, match="cell: expected 'rnn'"):
        LanguageModel(cell="gru").fit(NEW, start=LanguageModel(**TEXT, steps=2).fit(OLD, listeners=[]))
