"""Many-to-many, unaligned: a sequence goes in, and when it has been read another one comes out."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from elman.config import SequenceConfig
from elman.data.examples import Examples
from elman.data.inputs import learn_inputs
from elman.data.ragged import Ragged
from elman.maths.arrays import Array
from elman.models.class_weights import as_weights
from elman.models.estimator import SequenceEstimator, no_targets
from elman.models.generator import learn_written
from elman.models.predictors import TranslatingPredictor, as_read, same_number
from elman.models.sequence_run import trained_on
from elman.models.signatures import Seq2SeqOptions
from elman.models.task_spec import Terms


class Seq2Seq(Seq2SeqOptions, SequenceEstimator, TranslatingPredictor):
    """From one sequence to another.

        model = Seq2Seq().fit(["go", "stop", …], ["va", "arrête", …])
        model.predict(["go on"])

    X as in SequenceClassifier, y: strings or lists of tokens. The encoder's final states start the decoder. The source
    is read from its end unless reverse_source=False: its beginning is then close to what is written first.
    """

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, config: SequenceConfig | None = None, **options: Any
    ) -> Self:
        """Learn from sources and targets; out= keeps a run folder, listeners= hear of every step."""
        config = config or self._config()
        X = self._checked(X, y)
        terms = self._terms(X, y, config, trained_on(config, len(y)))
        return self._learn(terms, self._examples(terms, config, X, y, sample_weight), config, **options)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """One more pass, over these examples; tokens are those of the first call."""
        first = not hasattr(self, "fitted_")
        X, config = self._checked(X, y, reset=first), self._config()
        terms = self._terms(X, y, config, np.arange(len(y))) if first else self._is_fitted().terms
        examples = self._examples(terms, config if first else self.fitted_.config, X, y, sample_weight)
        return self._learn_more(terms, examples, config)

    def _checked(self, X: Any, y: Any, *, reset: bool = True) -> Any:
        if y is None:
            raise no_targets("the target of each source")
        X = self._sequences(X, reset=reset)
        same_number(X, y)
        return X

    def _terms(self, X: Any, y: Any, config: SequenceConfig, rows: Array) -> Terms:
        return Terms(self.task, learn_inputs(X, config.data, rows), learn_written(y, config, rows))

    def _examples(self, terms: Terms, config: SequenceConfig, X: Any, y: Any, sample_weight: Any) -> Examples:
        source = terms.inputs.encode(X)
        assert isinstance(source, Ragged)
        return Examples(as_read(source, config), terms.targets.encode(y), as_weights(sample_weight, len(y)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of sources whose target is told exactly."""
        written = self.predict(X)
        same_number(written, y)
        right = [told == list(wanted) if isinstance(told, list) else told == wanted
                 for told, wanted in zip(written, y, strict=True)]  # fmt: skip
        return float(np.average(right, weights=as_weights(sample_weight, len(right))))
