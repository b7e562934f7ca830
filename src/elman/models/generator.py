"""One-to-many: a label, or a vector of numbers, sets the state at the start, and the network speaks."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from elman.config import SequenceConfig
from elman.data.inputs import check_tokens, form_of
from elman.data.symbols import Symbols, kind_of
from elman.data.targets import Labels, Numbers, Written
from elman.errors import ArgumentError
from elman.maths.arrays import Array
from elman.models.estimator import SequenceEstimator, no_targets
from elman.models.predictors import GeneratingPredictor, belonging, conditions, same_number
from elman.models.sequence_run import trained_on
from elman.models.signatures import GeneratorOptions
from elman.models.task_spec import Terms


class SequenceGenerator(GeneratorOptions, SequenceEstimator, GeneratingPredictor):
    """What belongs to a label, or to a vector.

        model = SequenceGenerator().fit(["Italian", "German", …], ["Rossi", "Schmidt", …])
        model.sample(["Italian"], temperature=0.7)

    X: (n,) labels, or (n, F) numbers. y: strings or lists of tokens.
    """

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, config: SequenceConfig | None = None, **options: Any
    ) -> Self:
        """Learn from labels or vectors and what belongs to them; out= keeps a run folder."""
        config = config or self._config()
        X = _conditions(X, y)
        terms = self._terms(X, y, config, trained_on(config, len(X)))
        return self._learn(terms, belonging(terms, X, y, sample_weight), config, **options)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """One more pass, over these examples; labels and tokens are those of the first call."""
        X, config = _conditions(X, y), self._config()
        terms = self.fitted_.terms if hasattr(self, "fitted_") else self._terms(X, y, config, np.arange(len(X)))
        examples = belonging(terms, X, y, sample_weight)
        return self._learn_more(terms, examples, config)

    def _terms(self, X: Array, y: Any, config: SequenceConfig, rows: Array) -> Terms:
        condition = Numbers.of(X[rows], scale=config.data.standardize) if X.ndim == 2 else Labels.of(X)
        return Terms(self.task, condition, learn_written(y, config, rows))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean log-likelihood of a token, the end included, in nats: higher is better."""
        return -self.nats(X, y, sample_weight)


def learn_written(y: Any, config: SequenceConfig, rows: Array) -> Written:
    """The tokens of sequences that are to be written, as those rows have them."""
    data, form = config.data, form_of(y)
    if form not in ("strings", "tokens"):
        raise ArgumentError("y", expected="strings or lists of tokens", got=form)
    check_tokens(y, form, "target")
    seen = [y[i] for i in rows]
    kind = kind_of(seen, data.target_tokens) if form == "strings" else "list"
    return Written(Symbols.of(seen, kind, vocabulary_size=data.vocabulary_size, min_count=data.min_count))


def _conditions(X: Any, y: Any) -> Array:
    if y is None:
        raise no_targets("the sequence of each")
    array = conditions(X)
    same_number(array, y)
    return array
