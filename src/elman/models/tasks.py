"""Networks with their data, as the training loop sees them: implementations of the protocol Task of training/task.py.

A text is cut into as many equal parts as a batch has rows, called lanes, which are read in parallel, window by window,
with carried state; many sequences are read one after another in each lane. Examples are read in batches of rows of
similar length; the batches of an epoch depend only on the seed and the epoch, so that a checkpoint needs no position in
the examples. Dropout depends on the seed and the number of the batch. With several ranks, each takes some lanes of the
text or some rows of a batch of examples.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from elman.config import LONG_TEXT, Config, DataForm, useful_epochs
from elman.data import LaneStream
from elman.data.examples import Examples
from elman.data.streams import SequenceStream, edges_of
from elman.data.symbols import UNKNOWN_ID
from elman.errors import RangeError, option
from elman.maths.arrays import Array
from elman.maths.truncation import Truncation
from elman.models.batches import lengths_and_weights, to_batch, unweighted
from elman.models.evaluation import evaluate_examples, mean_loss, shared_mean_loss
from elman.models.fitted import FittedModel
from elman.network import Batch, Draw, Dropout, Parameters
from elman.training import distributed
from elman.training.cost import timed
from elman.training.distributed import World
from elman.training.task import Validation, generator

BUCKET = 16  # batches whose rows are sorted by length together: rows have similar lengths, and batches still vary
EPOCHS, VALIDATIONS = 10, 25
# The time of a step or a validation is estimated from that of a small part of it: the first steps of a window, the
# first tokens or examples for validation, or a fraction of the rows of a batch of examples.
FEW_STEPS, FEW_TOKENS, FEW_EXAMPLES, ROW_FRACTION = 4, 64, 16, 1 / 16


class NetworkTask(ABC):
    """The base class of TextTask and ExampleTask."""

    steps_per_epoch: float
    tokens_per_step: int
    baseline_loss: float  # of a trivial prediction; training/divergence.py explains it

    def __init__(
        self, model: FittedModel, *, sample: Callable[[int], str] | None = None, world: World | None = None
    ) -> None:
        self.network, self.parameters, self.config = model.network, model.parameters, model.config
        self.dropout = Dropout(self.config.input_dropout, self.config.dropout, self.config.recurrent_dropout)
        self.world, self._sample = world or distributed.world(), sample

    @property
    @abstractmethod
    def trainer_config(self) -> Config:
        """The config for the trainer: if validate_every is the default, small data are validated more often."""

    def _validated_every(self, most: float) -> Config:
        """The config with a validation at least every `most` steps; unchanged if validate_every is not the default."""
        if self.config.validate_every != Config().validate_every:
            return self.config
        return dataclasses.replace(self.config, validate_every=min(math.ceil(most), self.config.validate_every))

    def sample(self, step: int) -> str | None:
        return self._sample(step) if self._sample else None

    def state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Arrays and JSON values for a checkpoint."""
        return {}, {}

    def restore(self, arrays: dict[str, Array], metadata: dict[str, Any]) -> None:  # noqa: B027
        """Restore what state() has returned."""

    @abstractmethod
    def loss_and_gradients(self, gradients: Parameters, step: int) -> float: ...

    @abstractmethod
    def validate(self) -> Validation | None: ...

    @abstractmethod
    def small_step(self) -> tuple[Callable[[], object], float]:
        """A function that computes the gradients of a part of a batch, and the number of such parts in a batch."""

    @abstractmethod
    def small_validation(self) -> tuple[Callable[[], object], float]:
        """A function that evaluates a part of the validation data, and the number of such parts; 0 without data."""

    def validation_seconds(self) -> float:
        """Seconds of a validation, estimated from a small part; its first run, which may compile, is not counted."""
        part, parts = self.small_validation()
        return min([timed(part) for _ in range(4)][1:]) * parts if parts else 0.0


class TextTask(NetworkTask):
    """A text, or sequences, in windows with carried state."""

    def __init__(
        self,
        model: FittedModel,
        train: Array,
        validation: Array,
        *,
        batch: int,
        sample: Callable[[int], str] | None = None,
        world: World | None = None,
    ) -> None:
        super().__init__(model, sample=sample, world=world)
        if batch < self.world.size:
            raise RangeError(
                "rows of the batch",
                expected=f"at least one for each of the {self.world.size} ranks",
                got=batch,
                do=f"Use fewer ranks, a larger {option('batch_size')}, or a longer text: a row needs a window of it.",
            )
        config, self.head_network = self.config, model.head_network
        self.batch, self.lanes = batch, self.world.share(batch)  # the lanes that this rank reads
        self.validation = validation
        self.stream: LaneStream | SequenceStream
        if self.head_network.end is None:
            self.stream = LaneStream(train, batch=batch, window=config.window, lanes=self.lanes)
        else:
            end, lengths = self.head_network.end, np.diff(edges_of(train, self.head_network.end))

            def order(epoch: int) -> Array:
                rows = np.arange(len(lengths))
                return np.concatenate(by_length(rows, lengths, batch, generator(config.seed, "order", epoch)))

            self.stream = SequenceStream(train, end, batch=batch, window=config.window, order=order, lanes=self.lanes)
        rows = self.lanes.stop - self.lanes.start
        self.carried = self.head_network.stack.zero_state(rows, self.parameters.buffer.dtype)
        self.steps_per_epoch = self.stream.windows_per_epoch / config.accumulate
        self.tokens_per_step = max(1, round(self.stream.tokens_per_epoch / self.steps_per_epoch))
        self.baseline_loss = math.log(self.network.outputs)

    @property
    def trainer_config(self) -> Config:
        """If validate_every is the default, VALIDATIONS validations in the useful epochs of a short text.

        At least one in an epoch of it, and at most EPOCHS epochs lie between two of any text.
        """
        epochs, form = float(EPOCHS), DataForm(self.config.tokens, 1, self.stream.tokens_per_epoch)
        if form.length < LONG_TEXT:
            useful = useful_epochs(form, self.config.cell, self.steps_per_epoch)
            epochs = min(epochs, max(1.0, useful / VALIDATIONS))
        return self._validated_every(epochs * self.steps_per_epoch)

    def loss_and_gradients(self, gradients: Parameters, step: int) -> float:
        c = self.config
        windows = [self.stream.next() for _ in range(c.accumulate)]
        normalizer, loss = sum(window.tokens for window in windows), 0.0
        for number, window in enumerate(windows):
            self.carried[:, :, window.begins] = 0
            x, y, lengths = window.x, window.y, window.lengths
            loss += self.network.loss_and_gradients(
                self.parameters,
                Batch(x, y, None, lengths, lengths, state=self.carried, first=self.lanes.start),
                gradients,
                normalizer=normalizer,
                draw=Draw(self.dropout, c.seed, step * c.accumulate + number),
                truncation=Truncation(c.k1, c.k2),
                add=number > 0,
            )
        return loss

    def validate(self) -> Validation | None:
        if len(self.validation) < 2:
            return None
        if self.world.size > 1 and self.head_network.end is None:
            return Validation(shared_mean_loss(self.head_network, self.parameters, self.validation, self.world))
        loss = mean_loss(self.head_network, self.parameters, self.validation)
        return self.world.broadcast(Validation(loss))

    def state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """The position in the text, and the carried states of the lanes of all ranks: their number may change later."""
        return {"carried": self.world.gather(self.carried, axis=2)}, {"cursor": self.stream.cursor}

    def restore(self, arrays: dict[str, Array], metadata: dict[str, Any]) -> None:
        self.carried[...] = arrays["carried"][:, :, self.lanes]
        self.stream.seek(metadata["cursor"])

    def small_step(self) -> tuple[Callable[[], object], float]:
        window = self.stream.next()
        steps = len(window.x)
        x, y = window.x[:FEW_STEPS], window.y[:FEW_STEPS]
        batch, gradients = Batch(x, y, state=self.carried), self.parameters.zeros()

        def part() -> object:
            return self.network.loss_and_gradients(self.parameters, batch, gradients, normalizer=y.size)

        return part, steps / len(y)

    def small_validation(self) -> tuple[Callable[[], object], float]:
        few = self.validation[: FEW_TOKENS + 1]
        if self.head_network.end is not None and len(few):
            few = np.append(few[:-1], np.array(self.head_network.end, few.dtype))
        parts = (len(self.validation) - 1) / (len(few) - 1) if len(few) > 1 else 0
        return lambda: mean_loss(self.head_network, self.parameters, few), parts


class ExampleTask(NetworkTask):
    """Examples in batches of rows of similar length."""

    def __init__(
        self,
        model: FittedModel,
        train: Examples,
        validation: Examples,
        *,
        unknown_rates: Array | None = None,  # (X,) the probability with which each token is read as unknown
        baseline_loss: float,
        sample: Callable[[int], str] | None = None,
    ) -> None:
        super().__init__(model, sample=sample)
        self.train, self.validation, self.unknown_rates = train, validation, unknown_rates
        network, config = self.network, self.config
        whole, self.lengths = lengths_and_weights(train), train.lengths()
        self.rows = np.arange(len(train))
        empty = self.lengths == 0
        if not network.loss_count(unweighted(lengths_and_weights(train.take(np.flatnonzero(empty))))):
            self.rows = self.rows[~empty]  # empty sequences are left out if they have no loss
        self.batches = -(-len(self.rows) // config.batch_size)  # of an epoch
        self.steps_per_epoch = self.batches / config.accumulate
        self.mean_weight = network.loss_count(whole) / network.loss_count(unweighted(whole))  # of the losses
        heaviest = train.weights.max() * (1 if train.class_weights is None else train.class_weights.max())
        self.baseline_loss = baseline_loss * float(heaviest / self.mean_weight)  # a batch may have only heavy examples
        self.has_validation = network.loss_count(lengths_and_weights(validation)) > 0
        # set by partial_fit: the epochs of its earlier calls, and those of their batches that `step` counts
        self.passes = self.batches_before = 0
        steps = float(self.lengths[self.rows].mean())
        self.tokens_per_step = max(1, round(steps * config.batch_size * config.accumulate))
        self._plan: tuple[int, list[Array]] = (-1, [])  # an epoch and the rows of its batches

    @property
    def trainer_config(self) -> Config:
        """At least one validation per epoch if validate_every is the default: small data are soon overfitted."""
        return self._validated_every(self.steps_per_epoch)

    def loss_and_gradients(self, gradients: Parameters, step: int) -> float:
        numbers = [step * self.config.accumulate + i for i in range(self.config.accumulate)]
        drawn = [(number, self.batch_of(number)) for number in numbers]
        # the mean weight of all examples, not of this batch: a batch of heavy examples has a larger gradient
        sizes = [self.network.loss_count(unweighted(batch)) for _, batch in drawn]
        normalizer = sum(sizes) * self.mean_weight
        loss, begun = 0.0, False
        for number, batch in drawn:
            # unknown tokens are drawn for the rows of all ranks: the result does not depend on the number of ranks
            batch = batch._replace(x=self._drop_tokens(batch, generator(self.config.seed, "unknown", number)))
            share = self.world.share(batch.rows)  # the rows of this rank
            if share.start < share.stop:
                loss += self.network.loss_and_gradients(
                    self.parameters,
                    batch.take(share)._replace(first=share.start),
                    gradients,
                    normalizer=normalizer,
                    draw=Draw(self.dropout, self.config.seed, number),
                    add=begun,
                )
                begun = True
        if not begun:
            gradients.buffer[:] = 0  # this rank has no row of these batches
        return loss

    def batch_of(self, number: int) -> Batch:
        """The batch with this number, counted from 0 over all epochs."""
        epoch, place = divmod(number - self.batches_before, self.batches)
        epoch += self.passes
        if self._plan[0] != epoch:
            self._plan = epoch, self.rows_of(epoch)
        return to_batch(self.train, self._plan[1][place], self.parameters.buffer.dtype)

    def rows_of(self, epoch: int) -> list[Array]:
        """The rows of each batch of an epoch: shuffled, then sorted by length within buckets."""
        return by_length(self.rows, self.lengths, self.config.batch_size, generator(self.config.seed, "order", epoch))

    def _drop_tokens(self, batch: Batch, rng: np.random.Generator) -> Array:
        """The inputs with tokens replaced by the unknown token.

        Each is replaced with its probability in unknown_rates, so that the network learns to handle unknown tokens,
        and with that of input dropout if tokens are one-hot: an embedding has dropout of its entries instead.
        """
        if batch.x_lengths is None or batch.x.ndim != 2:
            return batch.x
        rates = np.zeros(1) if self.unknown_rates is None else self.unknown_rates[batch.x]  # (T, B)
        if self.dropout.inputs and not any(name.endswith("embedding.W") for name in self.parameters):
            rates = 1 - (1 - rates) * (1 - self.dropout.inputs)
        if not rates.any():
            return batch.x
        return np.where(rng.random(batch.x.shape) < rates, UNKNOWN_ID, batch.x)

    def validate(self) -> Validation | None:
        if not self.has_validation:
            return None
        return self.world.broadcast(evaluate_examples(self.network, self.parameters, self.validation))

    def small_step(self) -> tuple[Callable[[], object], float]:
        batch, gradients = self.batch_of(0), self.parameters.zeros()
        few = batch.take(slice(0, max(1, int(batch.rows * ROW_FRACTION))))

        def part() -> object:
            return self.network.loss_and_gradients(self.parameters, few, gradients, normalizer=1.0)

        return part, batch.rows / few.rows

    def small_validation(self) -> tuple[Callable[[], object], float]:
        few = self.validation.take(np.arange(len(self.validation))[:FEW_EXAMPLES])
        tokens = float(few.lengths().sum())
        parts = float(self.validation.lengths().sum()) / tokens if self.has_validation and tokens else 0
        return lambda: evaluate_examples(self.network, self.parameters, few), parts


def by_length(rows: Array, lengths: Array, size: int, rng: np.random.Generator) -> list[Array]:
    """The rows of each batch of an epoch: shuffled, then sorted by length within buckets; the batches are shuffled."""
    rows = rows[rng.permutation(len(rows))]
    for start in range(0, len(rows), BUCKET * size):
        bucket = rows[start : start + BUCKET * size]
        rows[start : start + BUCKET * size] = bucket[np.argsort(lengths[bucket], kind="stable")]
    batches = [rows[start : start + size] for start in range(0, len(rows), size)]
    return [batches[i] for i in rng.permutation(len(batches))]
