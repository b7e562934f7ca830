"""One-to-many: a label, or a vector of numbers, sets the state at the start, and the network speaks."""

from __future__ import annotations

from typing import Any, Self

from elman.config import Config
from elman.data.examples import Examples
from elman.data.inputs import check_tokens, form_of
from elman.data.symbols import Symbols, kind_of
from elman.data.targets import Labels, Numbers, Written
from elman.errors import ArgumentError
from elman.maths.arrays import Array
from elman.models.estimator import SequenceEstimator, no_targets
from elman.models.predictors import GeneratingPredictor, belonging, conditions, same_number
from elman.models.signatures import GeneratorOptions
from elman.models.task_spec import TaskSpec


class SequenceGenerator(GeneratorOptions, SequenceEstimator, GeneratingPredictor):
    """What belongs to a label, or to a vector.

        model = SequenceGenerator().fit(["Italian", "German", …], ["Rossi", "Schmidt", …])
        model.sample(["Italian"], temperature=0.7)

    X: (n,) labels, or (n, F) numbers. y: strings or lists of tokens.
    """

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """One more pass, over these examples; labels and tokens are those of the first call."""
        return self._partial_fit(X, y, sample_weight)

    def _checked(self, X: Any, y: Any, *, reset: bool = True) -> tuple[Array, Any]:
        if y is None:
            raise no_targets("the sequence of each")
        array = conditions(X)
        same_number(array, y)
        return array, y

    def _spec(self, X: Array, y: Any, config: Config, rows: Array, classes: Any = None) -> TaskSpec:
        condition = Numbers.of(X[rows], scale=config.standardize) if X.ndim == 2 else Labels.of(X)
        return TaskSpec(self.task, condition, learn_written(y, config, rows))

    def _examples(self, spec: TaskSpec, config: Config, X: Array, y: Any, sample_weight: Any, rows: Array) -> Examples:
        return belonging(spec, X, y, sample_weight)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Mean log-likelihood of a token, the end included, in nats: higher is better."""
        return -self.nats(X, y, sample_weight)


def learn_written(y: Any, config: Config, rows: Array) -> Written:
    """The tokens of sequences that are to be written, as those rows have them."""
    data, form = config, form_of(y)
    if form not in ("strings", "tokens"):
        raise ArgumentError("y", expected="strings or lists of tokens", got=form)
    check_tokens(y, form, "target")
    seen = [y[i] for i in rows]
    kind = kind_of(seen, data.target_tokens) if form == "strings" else "list"
    return Written(Symbols.of(seen, kind, vocabulary_size=data.vocabulary_size, min_count=data.min_count))
