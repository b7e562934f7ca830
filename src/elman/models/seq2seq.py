"""Many-to-many, unaligned: an encoder reads a sequence, then a decoder generates another one."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from elman.config import Config, DataForm
from elman.data.examples import Examples
from elman.data.inputs import data_form, learn_inputs
from elman.maths.arrays import Array
from elman.models.class_weights import as_weights
from elman.models.estimator import SequenceEstimator, no_targets
from elman.models.generator import learn_token_targets
from elman.models.options import takes_options
from elman.models.predictors import TranslatingPredictor, same_number
from elman.models.task_spec import TaskSpec


@takes_options("translate", "random_state")
class Seq2Seq(SequenceEstimator, TranslatingPredictor):
    """Translate one sequence into another.

    X is one of these: strings (tokens are characters, bytes, words or subwords), lists of tokens, a list of (T, F)
    arrays, or one array of numbers of shape (n, T) or (n, T, F).
    y has one target for each source: strings or lists of tokens. The initial state of the decoder comes from the final
    states of the encoder (with bidirectional=True through a linear layer). The decoder has attention over all outputs
    of the encoder, unless attention="none".

    The arguments are the options of this task: `help(Seq2Seq.__init__)` and docs/options.md explain them.

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
    >>> from elman import Seq2Seq
    >>> model = Seq2Seq(hidden=32, epochs=20, batch_size=4, random_state=0)
    >>> model = model.fit(["go", "stop"] * 20, ["va", "halt"] * 20)
    >>> model.predict(["stop"])
    ['halt']
    """

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train for one more epoch, over these examples.

        The learning rate is constant, and there is no warm-up and no validation. Options changed by set_params apply
        from the next call on; those of the network, except dropout, and of the encoding of the data cannot change.
        A loaded model begins with a new optimizer.

        Parameters
        ----------
        X : sequences
            New sequences, as in fit.
        y : targets
            As in fit.
        sample_weight : array of shape (n,), optional
            Weight of each example, 0 or more.

        Returns
        -------
        The model itself.
        """
        return self._partial_fit(X, y, sample_weight)

    def _checked(self, X: Any, y: Any, *, reset: bool = True) -> tuple[Any, Any]:
        if y is None:
            raise no_targets("the target of each source")
        X = self._sequences(X, reset=reset)
        same_number(X, y)
        return X, y

    def _form(self, X: Any, y: Any, tokens: str) -> DataForm:
        form = data_form(X, tokens)
        if form.kind not in ("word", "bpe"):
            return form
        return form._replace(words=len({word for x in X if isinstance(x, str) for word in x.split()}))

    def _groups(self, X: Any) -> Array:
        """Equal sources are one group, so that no source is both in the training and in the held-out part."""
        seen: dict[object, int] = {}
        keys = (x if isinstance(x, str) else x.tobytes() if isinstance(x, np.ndarray) else tuple(x) for x in X)
        return np.array([seen.setdefault(key, len(seen)) for key in keys], np.int64)

    def _spec(self, X: Any, y: Any, config: Config, rows: Array, classes: Any = None) -> TaskSpec:
        return TaskSpec(self.task, learn_inputs(X, config, rows), learn_token_targets(y, config, rows))

    def _examples(self, spec: TaskSpec, config: Config, X: Any, y: Any, sample_weight: Any, rows: Array) -> Examples:
        return Examples(spec.encode_inputs(X), spec.encode_targets(y), as_weights(sample_weight, len(y)))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of sources whose target is predicted exactly.

        Parameters
        ----------
        X : sequences
            As in fit.
        y : targets
            As in fit.
        sample_weight : array of shape (n,), optional
            Weight of each example, 0 or more.

        Returns
        -------
        float
        """
        predicted = self.predict(X)
        same_number(predicted, y)
        right = [found == list(target) if isinstance(found, list) else found == target
                 for found, target in zip(predicted, y, strict=True)]  # fmt: skip
        return float(np.average(right, weights=as_weights(sample_weight, len(right))))
