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
from elman.models.evaluation import mean_loss
from elman.models.shared_evaluation import shared_mean_loss
from elman.network import Network, Parameters
from elman.network.stack import Reach
from elman.training import distributed
from elman.training.distributed import World
from elman.training.task import Validation, generator

MOST_PARAMETERS = 1 << 31  # more are a slip of the hand, or a damaged file


def new_network(config: NetworkConfig, tokens: int) -> Network:
    size = config.layers * 2 * config.hidden**2 + 2 * tokens * config.hidden
    if size > MOST_PARAMETERS:
        what = f"a network of {config.layers} × {config.hidden} units for {tokens} tokens"
        raise RangeError(what, expected=f"at most {MOST_PARAMETERS:,} parameters", got=f"about {size:,}")
    return Network(tokens, config.hidden, config.layers, tokens, activation=config.activation)


def new_parameters(network: Network, config: NetworkConfig, seed: int) -> Parameters:
    return network.initial(
        generator(seed, "initial"),
        recurrent=config.initial,
        gain=config.gain,
        input_gain=config.input_gain,
        dtype=np.dtype(config.precision),
    )


class LanguageTask:
    def __init__(
        self,
        network: Network,
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
                do="Take fewer ranks, a larger --batch, or a longer text if it has no more windows.",
            )
        self.batch, self.lanes = batch, world.share(batch)  # those that this rank reads
        self.network, self.parameters, self.validation = network, parameters, validation
        self.dropout, self.config, self._sample = dropout, config, sample
        self.stream = LaneStream(train, batch=batch, window=config.window, lanes=self.lanes)
        self.carried = network.zero_state(self.lanes.stop - self.lanes.start, parameters.buffer.dtype)
        self.steps_per_epoch = self.stream.windows_per_epoch / config.accumulate
        self.tokens_per_step = batch * config.window * config.accumulate
        self.ignorance = math.log(network.outputs)

    def add_gradients(self, gradients: Parameters, step: int) -> float:
        c = self.config
        loss = 0.0
        for number in range(c.accumulate):
            x, y, first = self.stream.next()
            if first:
                for state in self.carried:
                    state[...] = 0
            loss += self.network.loss_and_gradients(
                self.parameters,
                x,
                y,
                self.carried,
                gradients,
                normaliser=len(y) * self.batch * c.accumulate,
                masks=self._masks(step * c.accumulate + number, len(y)) if self.dropout else None,
                reach=Reach(c.k1, c.k2),
            )
        return loss

    def _masks(self, draw: int, T: int) -> list[Array]:
        """What leaves each layer is kept with probability 1 - dropout, and made up for: E[mask] = 1."""
        dtype = self.parameters.buffer.dtype
        rng = generator(self.config.seed, "dropout", draw)
        keep = 1 - self.dropout
        size = (T, self.batch, self.network.hidden)
        return [
            (uniform_lanes(rng, size, self.lanes, number) < keep).astype(dtype) / dtype.type(keep)
            for number in range(len(self.carried))
        ]

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
        carried = {f"carried.{layer}": self.world.joined(h) for layer, h in enumerate(self.carried)}
        return carried, {"cursor": self.stream.cursor}

    def restore(self, arrays: dict[str, Array], facts: dict[str, Any]) -> None:
        for layer, h in enumerate(self.carried):
            h[...] = arrays[f"carried.{layer}"][self.lanes]
        self.stream.seek(facts["cursor"])


def uniform_lanes(rng: np.random.Generator, size: tuple[int, int, int], lanes: slice, number: int) -> Array:
    """These lanes of array `number` of those that rng.random(size, float32) gives one after the other, nothing else.

    A float32 takes half of the generator's 64 bits: an odd place begins in the middle of a draw.
    """
    T, B, H = size
    if lanes.stop - lanes.start == B:
        return rng.random(size, np.float32)
    start, parts = rng.bit_generator.state, []
    for t in range(T):
        place = ((number * T + t) * B + lanes.start) * H
        rng.bit_generator.state = start
        rng.bit_generator.advance(place // 2)  # type: ignore[attr-defined]
        drawn = rng.random((lanes.stop - lanes.start) * H + place % 2, np.float32)
        parts.append(drawn[place % 2 :].reshape(-1, H))
    rng.bit_generator.state = start
    return np.stack(parts)  # (T, lanes, H)
