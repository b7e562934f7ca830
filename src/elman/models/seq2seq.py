"""Many-to-many, unaligned: a sequence goes in, and when it has been read another one comes out."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from elman.config import Config
from elman.data.examples import Examples
from elman.data.inputs import learn_inputs
from elman.data.ragged import Ragged
from elman.maths.arrays import Array
from elman.models.class_weights import as_weights
from elman.models.estimator import SequenceEstimator, no_targets
from elman.models.generator import learn_written
from elman.models.predictors import TranslatingPredictor, as_read, same_number
from elman.models.signatures import Seq2SeqOptions
from elman.models.task_spec import TaskSpec


class Seq2Seq(Seq2SeqOptions, SequenceEstimator, TranslatingPredictor):
    """From one sequence to another.

        model = Seq2Seq().fit(["go", "stop", …], ["va", "arrête", …])
        model.predict(["go on"])

    X as in SequenceClassifier, y: strings or lists of tokens. The encoder's final states start the decoder. The source
    is read from its end unless reverse_source=False: its beginning is then close to what is written first.
    """

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """One more pass, over these examples; tokens are those of the first call."""
        return self._partial_fit(X, y, sample_weight)

    def _checked(self, X: Any, y: Any, *, reset: bool = True) -> tuple[Any, Any]:
        if y is None:
            raise no_targets("the target of each source")
        X = self._sequences(X, reset=reset)
        same_number(X, y)
        return X, y

    def _spec(self, X: Any, y: Any, config: Config, rows: Array, classes: Any = None) -> TaskSpec:
        return TaskSpec(self.task, learn_inputs(X, config, rows), learn_written(y, config, rows))

    def _examples(self, spec: TaskSpec, config: Config, X: Any, y: Any, sample_weight: Any, rows: Array) -> Examples:
        source = spec.encode_inputs(X)
        assert isinstance(source, Ragged)
        return Examples(as_read(source, config), spec.encode_targets(y), as_weights(sample_weight, len(y)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of sources whose target is told exactly."""
        written = self.predict(X)
        same_number(written, y)
        right = [told == list(wanted) if isinstance(told, list) else told == wanted
                 for told, wanted in zip(written, y, strict=True)]  # fmt: skip
        return float(np.average(right, weights=as_weights(sample_weight, len(right))))
