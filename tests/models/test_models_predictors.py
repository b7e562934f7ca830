"""Predictors: the same predictions as the estimators, without scikit-learn."""

import subprocess
import sys

import numpy as np
import pytest

from elman import Seq2Seq, SequenceClassifier, SequenceGenerator, SequenceRegressor, SequenceTagger, load_model
from elman.errors import ArgumentError, RunError
from elman.models.loading import load_predictor
from elman.models.predictors import ClassPredictor

WORDS, NUMBERS = ["ab", "ba", "abab"] * 4, [[0.5, 1.0], [2.0], [1.0, 0.0, 3.0]] * 4
MODELS = {
    "classify": (SequenceClassifier, WORDS, ["A", "B", "A"] * 4),
    "classify numbers": (SequenceClassifier, NUMBERS, ["A", "B", "A"] * 4),
    "regress": (SequenceRegressor, WORDS, [1.0, 2.0, 3.0] * 4),
    "tag": (SequenceTagger, [list(word) for word in WORDS], ["xy", "yx", "xyxy"] * 4),
    "generate": (SequenceGenerator, ["A", "B", "A"] * 4, WORDS),
    "translate": (Seq2Seq, WORDS, ["un", "deux", "trois"] * 4),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("predictors")
    for name, (kind, X, y) in MODELS.items():
        kind(hidden=8, epochs=2, random_state=0).fit(X, y).save(folder / name)
    return folder


@pytest.mark.parametrize("name", MODELS)
def test_predictions_are_those_of_the_estimator(name, saved):
    (_, X, _), estimator, predictor = MODELS[name], load_model(saved / name), load_predictor(saved / name)
    assert predictor.run_.path == saved / name
    for method in ("predict", "predict_proba", "predict_log_proba", "sample", "transform"):
        if hasattr(estimator, method) and (method, name) != ("transform", "generate"):
            ours, theirs = getattr(predictor, method)(X[:3]), getattr(estimator, method)(X[:3])
            assert len(ours) == 3
            assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True)), method


def test_a_generator_has_no_states_to_show(saved):
    with pytest.raises(ArgumentError, match="reads no input sequence"):
        load_predictor(saved / "generate").transform(["A"])


def test_a_run_of_another_task_is_refused(saved):
    with pytest.raises(RunError, match="expected a model to classify, got a model to tag"):
        ClassPredictor.load(saved / "tag")


def test_a_single_text_in_place_of_a_list_is_refused(saved):
    for name in ("classify", "generate"):
        with pytest.raises(ArgumentError, match="str"):
            load_predictor(saved / name).predict("ab")


@pytest.mark.parametrize("X", [[[1.0], [2.0, 3.0]], [[[1.0], [2.0, 3.0]]]])
def test_vectors_of_several_lengths_are_refused(X, tmp_path):
    with pytest.raises(ArgumentError, match=r"X: expected .*numbers, got"):
        SequenceGenerator(hidden=8, epochs=1).fit(X, ["a", "b"][: len(X)])
    SequenceGenerator(hidden=8, epochs=1).fit([[1.0, 2.0], [3.0, 4.0]], ["a", "b"]).save(tmp_path / "run")
    with pytest.raises(ArgumentError, match=r"X: expected .*numbers, got"):
        load_predictor(tmp_path / "run").predict(X)


ASK = """
import sys
from elman.cli import main
for words in (line.split("|") for line in sys.argv[1:]):
    try:
        main(words)
    except SystemExit as end:
        assert end.code == 0, words
print([name for name in ("sklearn", "scipy.special", "scipy.stats") if name in sys.modules])
"""


def test_predicting_does_not_import_scikit_learn(saved):
    lines = {
        "classify": "ab\tA\n",
        "tag": "a\tx\nb\ty\n",
        "generate": "ab\tA\n",
        "translate": "ab\tun\n",
    }
    commands = []
    for name, line in lines.items():
        (saved / f"{name}.tsv").write_text(line)
        (saved / f"{name}.txt").write_text("A\n" if name == "generate" else line.replace("\t", "\n"))
        commands += [f"predict|{saved / name}|{saved / name}.txt|--json", f"eval|{saved / name}|{saved / name}.tsv"]
    words = [sys.executable, "-c", ASK, *commands]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr
