"""A model: network, parameters, config, and the vocabularies and classes of its inputs and targets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from elman.config import Config
from elman.data import Vocabulary
from elman.data.inputs import TokenInputs
from elman.data.symbols import EDGE_ID
from elman.errors import RangeError
from elman.maths.cells import make_cell
from elman.models.task_spec import TaskSpec
from elman.network import EncoderDecoder, HeadNetwork, Network, Parameters, Stack
from elman.network.network import Pooling
from elman.training.events import Finished
from elman.training.metrics import UNITS
from elman.training.task import generator

MAX_PARAMETERS = 1 << 31  # more are taken for a typing error or a damaged file


@dataclass
class FittedModel:
    """A model of any task, before or after training."""

    spec: TaskSpec
    config: Config
    network: Network
    parameters: Parameters
    finished: Finished | None = None
    steps_before: int = 0  # updates of earlier trainings
    # arguments of the estimator that the config does not have, or has with another value
    estimator_params: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)  # rows of metrics
    limit: str = ""  # why a training with a time limit took fewer steps than the time allows
    # the losses on the "old" and the "new" data, each before and after fine-tuning
    fine_tuning: dict[str, tuple[float | None, float | None]] | None = None

    @property
    def steps(self) -> int:
        """The number of updates so far."""
        return self.steps_before + (0 if self.finished is None else self.finished.step)

    def summary(self) -> str:
        """One line: the number of all updates, and time and losses from the rows of metrics (none of partial_fit)."""
        if not self.history:
            return f"{self.steps:,} steps"
        last, unit = self.history[-1], UNITS[self.spec.task]
        text = f"{self.steps:,} steps in {last['seconds']:.1f} s"
        validated = [row for row in self.history if row.get("validation_loss") is not None]
        if not validated:
            return f"{text}: training loss {last['loss']:.4f} {unit} (nothing is held out to validate)"
        best = min(validated, key=lambda row: float(row["validation_loss"]))
        accuracy = best.get("validation_accuracy")
        share = "" if accuracy is None else f", accuracy {accuracy:.4f}"
        early = f"; {self.limit}" if self.limit else ""
        if self.finished is not None and self.finished.why == "patience":
            early = f"; stopped: validation has not improved since step {best['step']:,}"
        loss = f"validation loss {best['validation_loss']:.4f} {unit}{share} (best, at step {best['step']:,})"
        return f"{text}: {loss}{early}"

    @property
    def head_network(self) -> HeadNetwork:
        """The network of a language model, classifier, regressor or tagger."""
        assert isinstance(self.network, HeadNetwork)
        return self.network


def build_network(spec: TaskSpec, config: Config) -> Network:
    """The network of a task, without parameters."""
    c, inputs, outputs = config, spec.n_inputs, spec.n_outputs
    # a rough estimate of the number of parameters, the same for every cell
    directions, width = 1 + c.bidirectional, max(c.hidden, c.embedding)
    first = (inputs + outputs) * width * 2 * directions + c.embedding * c.hidden * (1 + directions)
    size = first + c.layers * c.hidden**2 * 4 * directions
    size += (c.layers * c.hidden) ** 2 * directions * (spec.task != "lm")
    if size > MAX_PARAMETERS:
        what = f"a network of {c.layers} × {c.hidden} hidden units for {inputs} inputs and {outputs} outputs"
        raise RangeError(what, expected=f"at most {MAX_PARAMETERS:,} parameters", got=f"about {size:,}")

    def stack(width: int, prefix: str, *, tokens: bool, **options: bool) -> Stack:
        cell = make_cell(c.cell, c.activation)
        used = c.embedding if tokens else 0
        return Stack(width, c.hidden, c.layers, cell=cell, embedding=used, tokens=tokens, prefix=prefix, **options)

    def encoder(prefix: str = "") -> Stack:
        tokens = isinstance(spec.inputs, TokenInputs | Vocabulary)
        return stack(inputs, prefix, tokens=tokens, bidirectional=c.bidirectional, learned_state=c.learned_state)

    if spec.task in ("generate", "translate"):
        source = encoder("encoder.") if spec.task == "translate" else inputs
        decoder = stack(outputs, "decoder.", tokens=True)
        kind = "none" if isinstance(source, int) else c.attention
        return EncoderDecoder(source, decoder, outputs, edge=EDGE_ID, attention=kind)
    pooling: Pooling = "none" if spec.task in ("lm", "tag") else c.pooling
    loss = "squared" if spec.task == "regress" else "cross_entropy"
    end = spec.vocabulary.end if spec.task == "lm" else None
    return HeadNetwork(encoder(), outputs, pooling=pooling, loss=loss, end=end)


def new_model(spec: TaskSpec, config: Config) -> FittedModel:
    """A model with its initial parameters."""
    network, c = build_network(spec, config), config
    p = network.initial(
        generator(c.seed, "initial"),
        recurrent=c.recurrent_init,
        gain=c.recurrent_init_scale,
        token_scale=c.input_init_scale,
        forget_bias=c.forget_bias,
        dtype=np.dtype(c.dtype),
    )
    return FittedModel(spec, config, network, p)
