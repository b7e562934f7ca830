"""A language model in training: windows of text with carried state, as the loop wants them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from elman.config import NetworkConfig, TrainingConfig
from elman.data import LaneStream
from elman.errors import RangeError
from elman.maths.arrays import Array
from elman.maths.truncation import Truncation
from elman.models.evaluation import mean_loss
from elman.models.shared_evaluation import shared_mean_loss
from elman.network import Batch, Draw, Dropout, HeadNetwork, Parameters
from elman.network.network import language_network
from elman.training import distributed
from elman.training.distributed import World
from elman.training.task import Validation, generator

MOST_PARAMETERS = 1 << 31  # more are a typing error, or a damaged file


def new_network(config: NetworkConfig, tokens: int) -> HeadNetwork:
    size = config.layers * 2 * config.hidden**2 + 2 * tokens * config.hidden
    if size > MOST_PARAMETERS:
        what = f"a network of {config.layers} × {config.hidden} units for {tokens} tokens"
        raise RangeError(what, expected=f"at most {MOST_PARAMETERS:,} parameters", got=f"about {size:,}")
    return language_network(tokens, config.hidden, config.layers, cell=config.cell, activation=config.activation)


def new_parameters(network: HeadNetwork, config: NetworkConfig, seed: int) -> Parameters:
    return network.initial(
        generator(seed, "initial"),
        recurrent=config.recurrent_init,
        gain=config.recurrent_init_scale,
        token_scale=config.input_init_scale,
        dtype=np.dtype(config.dtype),
    )


class LanguageTask:
    def __init__(
        self,
        network: HeadNetwork,
        parameters: Parameters,
        train: Array,
        validation: Array,
        *,
        batch: int,
        dropout: float,
        config: TrainingConfig,
        sample: Callable[[int], str] | None = None,
        world: World | None = None,
    ) -> None:
        self.world = world = world or distributed.world()
        if batch < world.size:
            raise RangeError(
                "lanes of the batch",
                expected=f"at least one for each of the {world.size} ranks",
                got=batch,
                do="Take fewer ranks, a larger --batch-size, or a longer text if it has no more windows.",
            )
        self.batch, self.lanes = batch, world.share(batch)  # those that this rank reads
        self.network, self.parameters, self.validation = network, parameters, validation
        self.dropout, self.config, self._sample = Dropout(layers=dropout), config, sample
        self.stream = LaneStream(train, batch=batch, window=config.window, lanes=self.lanes)
        self.carried = network.stack.zero_state(self.lanes.stop - self.lanes.start, parameters.buffer.dtype)
        self.steps_per_epoch = self.stream.windows_per_epoch / config.accumulate
        self.tokens_per_step = batch * config.window * config.accumulate
        self.ignorance = math.log(network.outputs)

    def add_gradients(self, gradients: Parameters, step: int) -> float:
        c = self.config
        loss = 0.0
        for number in range(c.accumulate):
            x, y, first = self.stream.next()
            if first:
                self.carried[...] = 0
            loss += self.network.loss_and_gradients(
                self.parameters,
                Batch(x, y, state=self.carried, first=self.lanes.start),
                gradients,
                normalizer=len(y) * self.batch * c.accumulate,
                draw=Draw(self.dropout, c.seed, step * c.accumulate + number),
                truncation=Truncation(c.k1, c.k2),
                add=number > 0,
            )
        return loss

    def validate(self) -> Validation | None:
        if len(self.validation) < 2:
            return None
        if self.world.size > 1:
            return Validation(shared_mean_loss(self.network, self.parameters, self.validation, self.world))
        return Validation(mean_loss(self.network, self.parameters, self.validation))

    def sample(self, step: int) -> str | None:
        return self._sample(step) if self._sample else None

    def state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Of all lanes, so that any number of ranks can go on from it."""
        return {"carried": self.world.joined(self.carried, axis=2)}, {"cursor": self.stream.cursor}

    def restore(self, arrays: dict[str, Array], facts: dict[str, Any]) -> None:
        self.carried[...] = arrays["carried"][:, :, self.lanes]
        self.stream.seek(facts["cursor"])
