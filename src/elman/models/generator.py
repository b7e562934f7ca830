"""One-to-many: a label, or a vector of numbers, sets the initial state, from which the network generates a sequence."""

from __future__ import annotations

from typing import Any, Self

from elman.config import Config, DataForm
from elman.data.examples import Examples
from elman.data.inputs import check_tokens, data_form, form_of
from elman.data.symbols import Symbols, kind_of
from elman.data.targets import Labels, Numbers, TokenTargets
from elman.errors import ArgumentError, option
from elman.maths.arrays import Array
from elman.models.estimator import SequenceEstimator, no_targets
from elman.models.options import takes_options
from elman.models.predictors import GeneratingPredictor, conditions, generator_examples, same_number
from elman.models.task_spec import TaskSpec


@takes_options("generate", "random_state")
class SequenceGenerator(SequenceEstimator, GeneratingPredictor):
    """Generate a sequence for a label or a vector.

    X has labels, shape (n,), or vectors of numbers, shape (n, F): they set the initial state of the network.
    y has one sequence for each: strings or lists of tokens.

    The arguments are the options of this task: `help(SequenceGenerator.__init__)` and docs/options.md explain them.

    Attributes
    ----------
    history_ : list of dict
        Rows of metrics: step, epoch, loss, validation_loss and so on.
    summary_ : str
        One line about the training.
    n_iter_ : int
        The number of updates.

    Examples
    --------
    >>> from elman import SequenceGenerator
    >>> model = SequenceGenerator(hidden=16, epochs=30, batch_size=4, random_state=0)
    >>> model = model.fit(["up", "down"] * 10, ["abc", "cba"] * 10)
    >>> model.predict(["up"])
    ['abc']
    """

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train for one more epoch, over these examples.

        The learning rate is constant, and there is no warm-up and no validation. Options changed by set_params apply
        from the next call on; those of the network, except dropout, and of the encoding of the data cannot change.
        A loaded model begins with a new optimizer.

        Parameters
        ----------
        X : labels or vectors
            Of the new examples, as in fit.
        y : sequences
            As in fit.
        sample_weight : array of shape (n,), optional
            Weight of each example, 0 or more.

        Returns
        -------
        The model itself.
        """
        return self._partial_fit(X, y, sample_weight)

    def _checked(self, X: Any, y: Any, *, reset: bool = True) -> tuple[Array, Any]:
        if y is None:
            raise no_targets("a sequence for each label or vector")
        array = conditions(X)
        same_number(array, y)
        return array, y

    def _form(self, X: Any, y: Any, tokens: str) -> DataForm:
        return data_form(y, str(self.target_tokens))  # of the targets; the option tokens is about inputs

    def _spec(self, X: Array, y: Any, config: Config, rows: Array, classes: Any = None) -> TaskSpec:
        condition = Numbers.of(X[rows], scale=config.standardize) if X.ndim == 2 else Labels.of(X)
        return TaskSpec(self.task, condition, learn_token_targets(y, config, rows))

    def _examples(self, spec: TaskSpec, config: Config, X: Array, y: Any, sample_weight: Any, rows: Array) -> Examples:
        if config.input_dropout and not config.embedding:
            raise ArgumentError(
                option("input_dropout"),
                expected="0 for a generator without an embedding: its one-hot tokens are never dropped",
                got=config.input_dropout,
                do=f"Leave it out, or set {option('embedding', 64)}, for example.",
            )
        return generator_examples(spec, X, y, sample_weight)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The mean log-likelihood of sequences in nats per token, the end token included: higher is better.

        Parameters
        ----------
        X : labels or vectors
            As in fit.
        y : sequences
            As in fit.
        sample_weight : array of shape (n,), optional
            Weight of each example, 0 or more.

        Returns
        -------
        float
        """
        return -self.nats(X, y, sample_weight)


def learn_token_targets(y: Any, config: Config, rows: Array) -> TokenTargets:
    """The vocabulary of the target sequences of these rows."""
    form = form_of(y)
    if form not in ("strings", "tokens"):
        raise ArgumentError("y", expected="strings or lists of tokens", got=form)
    check_tokens(y, form, "target")
    seen = [y[i] for i in rows]
    kind = kind_of(seen, config.target_tokens) if form == "strings" else "list"
    return TokenTargets(Symbols.of(seen, kind, vocabulary_size=config.vocabulary_size, min_count=config.min_count))
