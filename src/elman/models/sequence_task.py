"""A model of whole sequences in training: batches of rows of like length, gradients, validation.

The batches of an epoch follow from the seed and its number, the dropout of a step from the seed and the step: there is
no position in the data that a checkpoint would have to keep. Ranks that train together each take some rows of a batch.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from elman.config import TrainingConfig
from elman.data.examples import Examples
from elman.data.ragged import Ragged
from elman.data.symbols import UNKNOWN_ID
from elman.maths.arrays import Array
from elman.network import Batch, Draw, Dropout, HeadNetwork, Network, Parameters
from elman.training import distributed
from elman.training.task import Validation, generator

BUCKET = 16  # batches whose rows are sorted by length together: close lengths, yet other neighbors in each epoch
ROWS_AT_ONCE = 256  # where nothing is learned
STEPS_AT_ONCE = 1 << 17  # of all rows, padded: one long row must not make 255 others as long


class SequenceTask:
    def __init__(
        self,
        network: Network,
        parameters: Parameters,
        train: Examples,
        validation: Examples,
        *,
        config: TrainingConfig,
        dropout: Dropout,
        rarity: Array | None = None,  # (X,) the probability with which each token is read as unknown
        ignorance: float,
        sample: Callable[[int], str] | None = None,
    ) -> None:
        self.network, self.parameters, self.train, self.held_out = network, parameters, train, validation
        self.config, self.dropout, self.rarity, self._sample = config, dropout, rarity, sample
        self.world = distributed.world()
        whole, self.lengths = without_values(train), train.lengths()
        self.rows = np.arange(len(train))
        empty = self.lengths == 0
        if not network.units(unweighted(without_values(train.take(np.flatnonzero(empty))))):
            self.rows = self.rows[~empty]  # where every step is judged they say nothing, and could fill a batch
        self.batches = -(-len(self.rows) // config.batch_size)  # of an epoch
        self.steps_per_epoch = self.batches / config.accumulate
        self.mean_weight = network.units(whole) / network.units(unweighted(whole))  # of one loss
        heaviest = train.weights.max() * (1 if train.class_weights is None else train.class_weights.max())
        self.ignorance = ignorance * float(heaviest / self.mean_weight)  # a batch may hold the heaviest alone
        self.is_judged = network.units(without_values(validation)) > 0
        self.passes = self.numbered = 0  # of another call of partial_fit: passes and batches before this one
        self.tokens_per_step = max(
            1, round(float(self.lengths[self.rows].mean()) * config.batch_size * config.accumulate)
        )
        self._plan: tuple[int, list[Array]] = (-1, [])

    @property
    def paced(self) -> TrainingConfig:
        """Judged once an epoch at least, unless it was said how often: a small set is soon known by heart."""
        if self.config.validate_every != TrainingConfig().validate_every:
            return self.config
        epoch = math.ceil(self.steps_per_epoch)
        return dataclasses.replace(self.config, validate_every=min(epoch, self.config.validate_every))

    def add_gradients(self, gradients: Parameters, step: int) -> float:
        numbers = [step * self.config.accumulate + i for i in range(self.config.accumulate)]
        drawn = [(number, self.batch_of(number)) for number in numbers]
        # by the mean weight of all examples, not of these: a batch of heavy ones pulls harder
        sizes = [self.network.units(unweighted(batch)) for _, batch in drawn]
        normalizer = sum(sizes) * self.mean_weight
        loss = 0.0
        gradients.buffer[:] = 0
        for number, batch in drawn:
            # drawn for all rows, so that the number of ranks changes nothing
            batch = batch._replace(x=self._hidden(batch, generator(self.config.seed, "unknown", number)))
            own = self.world.share(batch.rows)
            if own.start < own.stop:
                loss += self.network.loss_and_gradients(
                    self.parameters,
                    batch.take(own)._replace(first=own.start),
                    gradients,
                    normalizer=normalizer,
                    draw=Draw(self.dropout, self.config.seed, number),
                    add=True,
                )
        return loss

    def batch_of(self, number: int) -> Batch:
        epoch, place = divmod(number - self.numbered, self.batches)
        epoch += self.passes
        if self._plan[0] != epoch:
            self._plan = epoch, self.rows_of(epoch)
        return as_batch(self.train, self._plan[1][place], self.parameters.buffer.dtype)

    def rows_of(self, epoch: int) -> list[Array]:
        """The rows of each batch of an epoch: shuffled, then rows of like length put together."""
        rng = generator(self.config.seed, "order", epoch)
        rows, size = self.rows[rng.permutation(len(self.rows))], self.config.batch_size
        for start in range(0, len(rows), BUCKET * size):
            bucket = rows[start : start + BUCKET * size]
            rows[start : start + BUCKET * size] = bucket[np.argsort(self.lengths[bucket], kind="stable")]
        batches = [rows[start : start + size] for start in range(0, len(rows), size)]
        return [batches[i] for i in rng.permutation(len(batches))]

    def _hidden(self, batch: Batch, rng: np.random.Generator) -> Array:
        """Now and then a token is read as unknown, so that the unknown has been met before it comes."""
        if batch.x_lengths is None or batch.x.ndim != 2:
            return batch.x
        shares = np.zeros(1) if self.rarity is None else self.rarity[batch.x]  # (T, B)
        if self.dropout.inputs and self.parameters_are_one_hot:
            shares = 1 - (1 - shares) * (1 - self.dropout.inputs)
        if not shares.any():
            return batch.x
        return np.where(rng.random(batch.x.shape) < shares, UNKNOWN_ID, batch.x)

    @property
    def parameters_are_one_hot(self) -> bool:
        return not any(name.endswith("embedding.W") for name in self.parameters)

    def validate(self) -> Validation | None:
        if not self.is_judged:
            return None
        return self.world.first(validation(self.network, self.parameters, self.held_out))

    def sample(self, step: int) -> str | None:
        return self._sample(step) if self._sample else None

    def state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        return {}, {}

    def restore(self, arrays: dict[str, Array], facts: dict[str, Any]) -> None:
        pass


def as_batch(examples: Examples, rows: Array, dtype: np.dtype[Any]) -> Batch:
    """Rows side by side, padded; numbers in the network's precision."""

    def side_by_side(part: Ragged | Array) -> tuple[Array, Array | None]:
        values, lengths = (part.padded(rows), part.lengths[rows]) if isinstance(part, Ragged) else (part[rows], None)
        return values.astype(dtype if values.dtype.kind == "f" else np.int64), lengths

    (x, x_lengths), (y, y_lengths) = side_by_side(examples.x), side_by_side(examples.y)
    y_weights = None if examples.class_weights is None else examples.class_weights[y]
    return Batch(x, y, examples.weights[rows], x_lengths, y_lengths, y_weights)


def without_values(examples: Examples) -> Batch:
    """As one batch, of which only lengths and weights are known; a row's are the mean of its steps'."""
    x, y = (part.lengths if isinstance(part, Ragged) else None for part in (examples.x, examples.y))
    weights = examples.weights
    if examples.class_weights is not None and isinstance(examples.y, Ragged):
        lengths = examples.y.lengths
        rows, steps = np.repeat(np.arange(len(lengths)), lengths), examples.class_weights[examples.y.values]
        weights = weights * np.bincount(rows, steps, minlength=len(lengths)) / np.maximum(lengths, 1)
    return Batch(np.empty(0), np.empty(0), weights, x, y)


def unweighted(batch: Batch) -> Batch:
    """Each loss once."""
    rows = 0 if batch.weights is None else len(batch.weights)
    return batch._replace(weights=np.ones(rows), y_weights=None)


def by_length(examples: Examples, size: int = ROWS_AT_ONCE) -> list[Array]:
    """All rows, those of like length together, where their order does not matter."""
    lengths = examples.lengths()
    rows, batches, start = np.argsort(lengths, kind="stable"), [], 0
    while start < len(rows):
        own = rows[start : start + size]
        padded = lengths[own] * np.arange(1, len(own) + 1)  # (rows,) the size of a batch that ends with each
        count = max(1, int(np.searchsorted(padded, STEPS_AT_ONCE, side="right")))
        batches.append(own[:count])
        start += count
    return batches


def mean_loss(network: Network, parameters: Parameters, examples: Examples) -> float:
    """The weighted mean over all examples, of whatever the network is judged by."""
    return validation(network, parameters, examples).loss


def validation(network: Network, p: Parameters, examples: Examples) -> Validation:
    """The mean loss, as it is weighted; and of classes or tags the share that is right, each counted once."""
    total = units = right = count = 0.0
    packed = network.pack(p)
    for rows in by_length(examples):
        batch = as_batch(examples, rows, p.buffer.dtype)
        loss, found = network.evaluate(packed, batch)
        total, right = total + loss, right + found
        units, count = units + network.units(batch), count + network.units(unweighted(batch))
    labels = isinstance(network, HeadNetwork) and network.loss_name == "cross_entropy"
    return Validation(total / max(units, 1e-30), right / max(count, 1) if labels else None)
