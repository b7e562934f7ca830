"""Trained models of all tasks but language modeling, which predict without scikit-learn.

The estimators are subclasses that can also be fitted. Commands that predict, and the service, use these classes: to
import scikit-learn takes longer than the prediction of a small model.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from elman.data.examples import Examples
from elman.data.inputs import form_of, number_sequences
from elman.data.ragged import Ragged
from elman.data.symbols import Symbols
from elman.data.targets import Labels, Numbers, TokenTargets
from elman.errors import ArgumentError, NotFiniteError, ShapeError
from elman.maths.arrays import Array
from elman.maths.loss import softmax
from elman.models import runs
from elman.models.batches import rows_by_length
from elman.models.class_weights import as_weights
from elman.models.evaluation import evaluate_examples
from elman.models.fitted import FittedModel
from elman.models.sampling import UNKNOWN, Decoder, Hypothesis, Sampling, beam_search, check_beam, max_length
from elman.models.task_spec import TaskSpec
from elman.network import DecoderState, EncoderDecoder, HeadNetwork, Stack
from elman.training.run import Run
from elman.training.task import generator

LENGTH_PENALTY = 1.0  # of beam search in translation: sequences are compared by the mean log probability of a token


class Predictor:
    """A trained model of any task but language modeling."""

    task: ClassVar[str]
    fitted_: FittedModel
    run_: Run | None = None  # where it was loaded from

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load the best model of a run, or a saved model.

        Parameters
        ----------
        path : str or Path
            The run folder.

        Returns
        -------
        The model, ready to predict.
        """
        run, fitted = runs.load(Path(path), cls.task)
        model = cls()._set_fitted(fitted)
        model.run_ = run
        return model

    def _set_fitted(self, fitted: FittedModel) -> Self:
        self.fitted_ = fitted
        return self

    def _fitted_model(self) -> FittedModel:
        return self.fitted_

    @property
    def history_(self) -> list[dict[str, Any]]:
        """Rows of metrics: step, epoch, loss, validation_loss, validation_accuracy and so on."""
        return self._fitted_model().history

    @property
    def summary_(self) -> str:
        """One line about the training."""
        return self._fitted_model().summary()

    def _sequences(self, X: Any, *, reset: bool) -> Any:
        """The sequences, those of numbers as arrays (T, F). `reset` is for estimators: whether fit reads X."""
        return number_sequences(X) if len(X) and form_of(X) == "numbers" else X

    def _encoded(self, X: Any) -> Ragged:
        """The sequences, encoded; those that are encoded already are not changed."""
        if isinstance(X, Ragged):
            return X
        encoded = self._fitted_model().spec.encode_inputs(self._sequences(X, reset=False))
        assert isinstance(encoded, Ragged)
        return encoded

    def _in_batches(self, x: Ragged, compute: Callable[[Array, Array], Any]) -> list[Any]:
        """Call `compute` on padded batches of sequences of similar length; returns its value for each sequence of x."""
        dtype = self._fitted_model().parameters.buffer.dtype
        found: list[Any] = [np.empty(0)] * len(x)
        nothing = np.zeros(len(x))
        for rows in rows_by_length(Examples(x, nothing, nothing)):
            padded = x.padded(rows)
            padded = padded.astype(dtype if padded.dtype.kind == "f" else np.int64)
            with np.errstate(over="ignore", invalid="ignore"):  # reported below
                values = compute(padded, x.lengths[rows])
            for row, value in zip(rows, values, strict=True):
                numbers = value if isinstance(value, np.ndarray) else [one.score for one in value]
                if not np.isfinite(numbers).all():
                    raise NotFiniteError(
                        f"the prediction for sequence {row}",
                        expected="finite numbers",
                        got="NaN or infinity",
                        do="The weights, or the numbers of the input, are too large.",
                    )
                found[row] = value
        return found

    def transform(self, X: Any, *, steps: bool = False) -> Any:
        """The states h of all layers after reading sequences; of a translator, those of the encoder.

        Parameters
        ----------
        X : sequences
            As in fit.
        steps : bool
            Return the states after every step instead of the final ones.

        Returns
        -------
        array of shape (n, L·D·H), or list of arrays of shape (T_i, L·D·H)
            L layers, D directions, H hidden units.
        """
        fitted = self._fitted_model()
        network = fitted.network
        encoder: Stack | None = (
            network.stacks[0] if len(network.stacks) > 1 or isinstance(network, HeadNetwork) else None
        )
        if encoder is None:
            raise ArgumentError(f"{type(self).__name__} reads no input sequence, so there are no states to return")

        def states(x: Array, lengths: Array) -> Array | list[Array]:
            trace = encoder.forward(packed.stacks[0], fitted.parameters, x, lengths=lengths)
            if not steps:
                return np.concatenate(trace.final[:, 0], axis=1)  # (B, L·D·H)
            every = np.concatenate([cell.s[0, 1:] for cell in trace.traces], axis=2)  # (T, B, L·D·H)
            return [every[:length, row].copy() for row, length in enumerate(lengths)]

        packed = network.pack(fitted.parameters)
        found = self._in_batches(self._encoded(X), states)
        if steps:
            return found
        nothing = np.empty((0, encoder.hidden * len(encoder.names)), fitted.parameters.buffer.dtype)
        return np.stack(found) if found else nothing


class LabelPredictor(Predictor):
    """A predictor of classes or tags."""

    classes_: Array

    def _set_fitted(self, fitted: FittedModel) -> Self:
        assert isinstance(fitted.spec.targets, Labels)
        self.classes_ = fitted.spec.targets.classes
        return super()._set_fitted(fitted)


# -- one output per sequence ------------------------------------------------------------------------------------------


class SequencePredictor(Predictor):
    """A predictor with one output per sequence."""

    def _outputs(self, X: Any) -> Array:
        """Logits, or standardized numbers, (n, Y)."""
        fitted = self._fitted_model()
        network = fitted.head_network
        packed = network.pack(fitted.parameters)
        found = self._in_batches(self._encoded(X), lambda x, lengths: network.outputs_of(packed, x, lengths))
        return np.stack(found).astype(np.float64) if found else np.empty((0, network.outputs))


class ClassPredictor(SequencePredictor, LabelPredictor):
    """Predicts the class of a sequence."""

    task = "classify"

    def predict_proba(self, X: Any) -> Array:
        """The probability of each class.

        Parameters
        ----------
        X : sequences
            As in fit.

        Returns
        -------
        array of shape (n, classes)
            In the order of classes_.
        """
        return softmax(self._outputs(X))

    def predict_log_proba(self, X: Any) -> Array:
        """The log probability of each class.

        Parameters
        ----------
        X : sequences
            As in fit.

        Returns
        -------
        array of shape (n, classes)
            In the order of classes_.
        """
        from scipy.special import log_softmax  # here: it takes a third of a second to import

        return np.asarray(log_softmax(self._outputs(X), axis=1))  # finite even for probabilities that round to 0

    def predict(self, X: Any) -> Array:
        """The most probable class of each sequence.

        Parameters
        ----------
        X : sequences
            As in fit.

        Returns
        -------
        array of shape (n,)
        """
        best = self._outputs(X).argmax(axis=1)
        return np.asarray(self.classes_[best])


class NumberPredictor(SequencePredictor):
    """Predicts numbers from a sequence."""

    task = "regress"

    def predict(self, X: Any) -> Array:
        """The number, or numbers, of each sequence.

        Parameters
        ----------
        X : sequences
            As in fit.

        Returns
        -------
        array of shape (n,) or (n, Y)
        """
        targets = self._fitted_model().spec.targets
        assert isinstance(targets, Numbers)
        return targets.decode(self._outputs(X))


# -- one output per step ----------------------------------------------------------------------------------------------


class TagPredictor(LabelPredictor):
    """Predicts a tag for every step of a sequence."""

    task = "tag"

    def predict_proba(self, X: Any) -> list[Array]:
        """The probability of each tag at each step.

        Parameters
        ----------
        X : sequences
            As in fit.

        Returns
        -------
        list of arrays of shape (T_i, tags)
            In the order of classes_.
        """
        fitted = self._fitted_model()
        network = fitted.head_network
        packed = network.pack(fitted.parameters)

        def probabilities(x: Array, lengths: Array) -> list[Array]:
            y_hat = softmax(network.outputs_of(packed, x, lengths).astype(np.float64))  # (T, B, Y)
            return [y_hat[:length, row].copy() for row, length in enumerate(lengths)]

        return self._in_batches(self._encoded(X), probabilities)

    def predict(self, X: Any) -> list[list[Any]]:
        """The most probable tag of each step.

        Parameters
        ----------
        X : sequences
            As in fit.

        Returns
        -------
        list of lists
        """
        return [self.classes_[y_hat.argmax(axis=1)].tolist() for y_hat in self.predict_proba(X)]


# -- output sequences ---------------------------------------------------------------------------------------


class DecoderPredictor(Predictor):
    """A predictor of sequences of tokens."""

    @property
    def symbols_(self) -> Symbols:
        targets = self._fitted_model().spec.targets
        assert isinstance(targets, TokenTargets)
        return targets.symbols

    def _network(self) -> EncoderDecoder:
        network = self._fitted_model().network
        assert isinstance(network, EncoderDecoder)
        return network

    def _decoder(self) -> Decoder:
        return Decoder(self._network(), self._fitted_model().parameters, UNKNOWN)

    def _decode(
        self, decoder: Decoder, start: DecoderState, beam: int, limit: int | None, length_penalty: float = 0.0
    ) -> list[list[int]]:
        """The ids of a sequence for each row, from greedy decoding (beam 1) or a beam search."""
        check_beam(beam)
        if beam == 1:
            return decoder.generate(self._network().edge, start, limit=self._limit(limit))
        found = self._beams(decoder, start, beam, limit, length_penalty)
        return [best[0].tokens if best else [] for best in found]

    def _beams(
        self, decoder: Decoder, start: DecoderState, beam: int, limit: int | None, length_penalty: float
    ) -> list[list[Hypothesis]]:
        """The sequences that a beam search finds for each row: those that end, or, if none does, incomplete ones."""
        if not (np.isfinite(length_penalty) and length_penalty >= 0):
            raise ArgumentError("length_penalty", expected="0 or more", got=length_penalty)
        edge, rows = self._network().edge, start.state.shape[2]
        if not rows:
            return []
        o, state = decoder.step(np.full(rows, edge), start)
        return beam_search(
            decoder, o, state, width=beam, limit=self._limit(limit), edge=edge, length_penalty=length_penalty
        )

    def _limit(self, limit: int | None) -> int:
        return max_length(self.symbols_) if limit is None else limit


class GeneratingPredictor(DecoderPredictor):
    """Generates a sequence for a label or a vector."""

    task = "generate"

    def predict(self, X: Any, *, beam: int = 1, limit: int | None = None) -> list[Any]:
        """A sequence for each label or vector, from greedy decoding or a beam search.

        Parameters
        ----------
        X : array of shape (n,) or (n, F)
            Labels or vectors.
        beam : int
            The width of the beam; 1 takes the most probable token at each step (greedy).
        limit : int, optional
            The maximum number of tokens; by default 10 more than twice the longest target in training.

        Returns
        -------
        list of str, or of lists of tokens
        """
        decoder = self._decoder()
        return [self.symbols_.decode(ids) for ids in self._decode(decoder, self._start(decoder, X), beam, limit)]

    def sample(self, X: Any, *, temperature: float = 0.8, seed: int = 0, limit: int | None = None) -> list[Any]:
        """A sampled sequence for each label or vector; sequence i depends only on X[i], the seed and i.

        Parameters
        ----------
        X : array of shape (n,) or (n, F)
            Labels or vectors.
        temperature : float
            Divides the logits: below 1 favors probable tokens, above 1 gives more variety; 0 takes the most probable.
        seed : int
            The same seed gives the same sequences.
        limit : int, optional
            The maximum number of tokens; by default 10 more than twice the longest target in training.

        Returns
        -------
        list of str, or of lists of tokens
        """
        if not (np.isfinite(temperature) and temperature >= 0):
            raise ArgumentError("temperature", expected="0 or more", got=temperature)
        decoder = self._decoder()
        start = self._start(decoder, X)
        generators = [generator(seed, "generate", i) for i in range(start.state.shape[2])]
        how = Sampling(temperature=float(temperature))
        edge, limit = self._network().edge, self._limit(limit)
        sampled = decoder.generate(edge, start, limit=limit, how=how, generators=generators)
        return [self.symbols_.decode(ids) for ids in sampled]

    def nats(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The mean loss of these sequences in nats per token, the end token included.

        Parameters
        ----------
        X : array of shape (n,) or (n, F)
            Labels or vectors.
        y : sequences
            Strings or lists of tokens.
        sample_weight : array of shape (n,), optional
            Weight of each example, 0 or more.

        Returns
        -------
        float
        """
        fitted = self._fitted_model()
        examples = generator_examples(fitted.spec, conditions(X), y, sample_weight)
        return evaluate_examples(fitted.network, fitted.parameters, examples).loss

    def _start(self, decoder: Decoder, X: Any) -> DecoderState:
        """The initial state of the decoder for each label or vector."""
        c = self._fitted_model().spec.encode_inputs(conditions(X))
        assert isinstance(c, np.ndarray)
        return self._network().begin(decoder.packed, c)


class TranslatingPredictor(DecoderPredictor):
    """Predicts a target sequence from a source sequence."""

    task = "translate"

    def predict(
        self, X: Any, *, beam: int = 1, limit: int | None = None, length_penalty: float = LENGTH_PENALTY
    ) -> list[Any]:
        """The predicted target of each source.

        Parameters
        ----------
        X : list
            Sources, as in fit.
        beam : int
            The width of the beam; 1 takes the most probable token at each step (greedy).
        limit : int, optional
            The maximum number of tokens; by default 10 more than twice the longest target in training.
        length_penalty : float
            Sequences of a beam are compared by Σ log probability / length^penalty; 0 favors short ones.

        Returns
        -------
        list
            Strings, or lists of tokens if the targets in training were lists.
        """
        symbols, penalty = self.symbols_, length_penalty
        found = self.predict_ids(X, beam=beam, limit=limit, length_penalty=penalty)
        return [symbols.decode(ids.tolist()) for ids in found]

    def predict_ids(
        self, X: Any, *, beam: int = 1, limit: int | None = None, length_penalty: float = LENGTH_PENALTY
    ) -> list[Array]:
        """The predicted target of each source as token ids.

        Parameters
        ----------
        X : list
            Sources, as in fit.
        beam : int
            The width of the beam; 1 takes the most probable token at each step (greedy).
        limit : int, optional
            The maximum number of tokens; by default 10 more than twice the longest target in training.
        length_penalty : float
            Sequences of a beam are compared by Σ log probability / length^penalty; 0 favors short ones.

        Returns
        -------
        list of arrays of shape (S_i,)
        """
        decoder = self._decoder()

        def decode(x: Array, lengths: Array) -> list[Array]:
            start = self._network().begin(decoder.packed, x, lengths)
            found = self._decode(decoder, start, beam, limit, length_penalty)
            return [np.array(ids, np.int64) for ids in found]

        return self._in_batches(self._encoded(X), decode)

    def n_best(
        self,
        X: Any,
        *,
        n: int = 5,
        beam: int | None = None,
        limit: int | None = None,
        length_penalty: float = LENGTH_PENALTY,
    ) -> list[list[tuple[Any, float]]]:
        """Several predicted targets of each source with their scores, the best first.

        Parameters
        ----------
        X : list
            Sources, as in fit.
        n : int
            The maximum number of targets of each source.
        beam : int, optional
            The width of the beam; n unless given.
        limit, length_penalty
            As in predict.

        Returns
        -------
        list of lists of (target, score)
            The score is Σ log probability / length^penalty, where the end counts as a token; if no target ends within
            `limit` tokens, it is Σ log probability.
        """
        width = n if beam is None else beam
        check_beam(n)
        check_beam(width)
        decoder, symbols = self._decoder(), self.symbols_

        def search(x: Array, lengths: Array) -> list[list[Hypothesis]]:
            return self._beams(decoder, self._network().begin(decoder.packed, x, lengths), width, limit, length_penalty)

        found = self._in_batches(self._encoded(X), search)
        return [[(symbols.decode(one.tokens), one.score) for one in best[:n]] for best in found]


def conditions(X: Any) -> Array:
    """The conditions of generated sequences: labels (n,) or vectors (n, F)."""
    if isinstance(X, str | bytes):
        raise ArgumentError("X", expected="a list of labels", got=f"one {type(X).__name__}")
    try:
        array = np.asarray(X)
    except ValueError:  # NumPy raises it if rows have different lengths
        raise ArgumentError("X", expected="(n,) labels or (n, F) numbers", got="rows of different lengths") from None
    if array.ndim not in (1, 2) or (array.ndim == 2 and array.dtype.kind not in "biuf"):
        raise ArgumentError("X", expected="(n,) labels or (n, F) numbers", got=f"{array.dtype} of shape {array.shape}")
    return array


def generator_examples(spec: TaskSpec, X: Array, y: Any, sample_weight: Any) -> Examples:
    """The examples of a generator: conditions, and a sequence for each of them."""
    same_number(X, y)
    return Examples(spec.encode_inputs(X), spec.encode_targets(y), as_weights(sample_weight, len(y)))


def same_number(x: Any, y: Any) -> None:
    """Raise ShapeError unless x and y have the same length."""
    if len(x) != len(y):
        raise ShapeError("y", expected=f"as many as X has, {len(x)}", got=len(y))
