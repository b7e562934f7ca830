"""The metrics of elman eval, compared with those of scikit-learn where it has them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, confusion_matrix, f1_score

from elman import SequenceGenerator
from elman.errors import VocabularyError
from elman.models.evaluation import class_scores, edit_distance, evaluate_model

CLASSES = np.array(["A", "B", "C", "D"])


@given(st.lists(st.tuples(st.sampled_from("ABCD"), st.sampled_from("ABCD")), min_size=1, max_size=30))
def test_accuracy_f1_and_confusion_are_those_of_scikit_learn(pairs):
    wanted, said = map(list, zip(*pairs, strict=True))
    figures = class_scores(wanted, said, CLASSES)
    assert figures.examples == len(pairs)
    assert figures.accuracy == pytest.approx(accuracy_score(wanted, said))
    assert figures.confusion == confusion_matrix(wanted, said, labels=CLASSES).tolist()
    assert figures.macro_f1 == pytest.approx(f1_score(wanted, said, average="macro"))  # of the classes that there are


def test_a_class_that_the_model_does_not_know_is_named():
    with pytest.raises(VocabularyError, match="'E'"):
        class_scores(["E"], ["A"], CLASSES)


@given(st.text("ab", max_size=6), st.text("ab", max_size=6), st.text("ab", max_size=6))
def test_edit_distance_is_a_distance(a, b, c):
    assert edit_distance(a, b) == edit_distance(b, a)
    assert (edit_distance(a, b) == 0) == (a == b)
    assert edit_distance(a, c) <= edit_distance(a, b) + edit_distance(b, c)
    assert abs(len(a) - len(b)) <= edit_distance(a, b) <= max(len(a), len(b))


def test_edit_distance_of_known_words():
    assert edit_distance("kitten", "sitting") == 3
    assert edit_distance(["un", "chat", "noir"], ["chat", "noir"]) == 1


def test_a_generator_is_evaluated_by_its_own_score():
    labels, texts = ["A", "B"] * 6, ["ab", "ba"] * 6
    model = SequenceGenerator(hidden=8, epochs=2, random_state=0).fit(labels, texts)
    figures = evaluate_model(model, texts, labels)
    assert figures.nats_per_token == pytest.approx(-model.score(labels, texts))
    assert figures.perplexity == pytest.approx(np.exp(figures.nats_per_token))
