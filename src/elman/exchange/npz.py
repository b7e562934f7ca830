"""A file of plain NumPy arrays: np.load reads it, without Elman and without pickle."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from elman.exchange.model_file import KEY, Wrote, from_run, write_new


def write_npz(run: Path, out: Path, *, force: bool = False) -> Wrote:
    """Every parameter by its name, and under "elman" config and vocabulary as JSON."""
    model = from_run(run)
    file = io.BytesIO()
    np.savez(file, **{**model.parameters, KEY: np.array(model.facts())})  # type: ignore[arg-type]
    return Wrote([write_new(out, file.getvalue(), force=force)], "np.load reads it: every parameter by its name.")
