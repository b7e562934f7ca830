"""A run as a PyTorch state dict in a safetensors file: no pickle, and no torch is needed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors.numpy import save

from elman.exchange.cells import format_of
from elman.exchange.model_file import KEY, Wrote, from_run, write_new
from elman.exchange.torch_names import to_torch


def write_torch(run: Path, out: Path, *, force: bool = False) -> Wrote:
    """In the run's own precision. The facts are one entry of the metadata: of several the order is left to chance."""
    model = from_run(run)
    state = to_torch(model.network, model.parameters)
    data = save({name: np.ascontiguousarray(array) for name, array in state.items()}, {KEY: model.facts()})
    what = f"A state dict for nn.{format_of(model.network.stacks[0].cell).name} and nn.Linear: {', '.join(state)}."
    return Wrote([write_new(out, data, force=force)], what)
