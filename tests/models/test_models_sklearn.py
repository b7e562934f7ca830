"""scikit-learn's own checks of every estimator to which they apply."""

import warnings

from sklearn.exceptions import SkipTestWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from elman import SequenceClassifier, SequenceRegressor

SMALL = {"hidden": 16, "epochs": 30, "batch": 16, "learning_rate": 0.02, "warmup": 5}

# check: why it does not apply
NOT_APPLICABLE = {
    "check_sample_weight_equivalence_on_dense_data": "rows are dealt into batches: a row twice is drawn twice",
}

with warnings.catch_warnings():
    warnings.simplefilter("ignore", SkipTestWarning)

    @parametrize_with_checks(
        [SequenceClassifier(**SMALL), SequenceRegressor(**SMALL)],
        expected_failed_checks=lambda estimator: NOT_APPLICABLE,
    )
    def test_what_scikit_learn_asks_of_an_estimator(estimator, check):
        check(estimator)
