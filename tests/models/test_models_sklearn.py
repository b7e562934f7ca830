"""scikit-learn's own checks of every estimator to which they apply."""

import warnings

import pytest
from sklearn.exceptions import SkipTestWarning
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

from elman import Seq2Seq, SequenceClassifier, SequenceGenerator, SequenceRegressor, SequenceTagger

SMALL = {"hidden": 16, "epochs": 8, "batch_size": 16, "learning_rate": 0.02, "warmup_steps": 5}

# check: why it does not apply
NOT_APPLICABLE = {
    "check_sample_weight_equivalence_on_dense_data": "rows are dealt into batches: a row twice is drawn twice",
}


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setenv("ELMAN_THREADS", "1")  # other tests run on the other cores


with warnings.catch_warnings():
    warnings.simplefilter("ignore", SkipTestWarning)

    @parametrize_with_checks(
        [SequenceClassifier(**SMALL), SequenceRegressor(**SMALL | {"epochs": 30})],
        expected_failed_checks=lambda estimator: NOT_APPLICABLE,
    )
    def test_what_scikit_learn_asks_of_an_estimator(estimator, check):
        check(estimator)


# Their targets are sequences: lists of tags, strings, token lists. Almost every other check of scikit-learn fits an
# (n, features) table to one class or number per row, as is right for the two above; and SequenceGenerator's X is not
# a table of steps but one label or vector per row. The checks of objects that can be cloned and set run here;
# fitting, refusing, pickling and NotFittedError have tests of their own in test_models_sequences.py.
STRUCTURED = [SequenceTagger, SequenceGenerator, Seq2Seq]
WITHOUT_FIT = [
    estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
    estimator_checks.check_estimator_cloneable,
    estimator_checks.check_estimator_repr,
    estimator_checks.check_estimator_tags_renamed,
    estimator_checks.check_get_params_invariance,
    estimator_checks.check_mixin_order,
    estimator_checks.check_no_attributes_set_in_init,
    estimator_checks.check_parameters_default_constructible,
    estimator_checks.check_set_params,
    estimator_checks.check_valid_tag_types,
]


@pytest.mark.parametrize("check", WITHOUT_FIT)
@pytest.mark.parametrize("kind", STRUCTURED)
def test_what_scikit_learn_asks_of_an_estimator_that_is_not_fitted(kind, check):
    check(kind.__name__, kind())
