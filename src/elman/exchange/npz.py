"""A file of plain NumPy arrays, which np.load reads without Elman and without pickle."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from elman.exchange.model_file import KEY, ExportResult, load_run, write_new


def export_npz(run: str | Path, out: str | Path, *, force: bool = False) -> ExportResult:
    """Export the best model of a run as NumPy arrays.

    The file has every parameter under its name, and the task, the config and the vocabulary as JSON under "elman".

    Parameters
    ----------
    run : str or Path
        The run folder.
    out : str or Path
        The .npz file to write.
    force : bool
        Replace the file if it exists.

    Returns
    -------
    ExportResult

    Examples
    --------
    >>> import elman, numpy
    >>> from elman.exchange import export_npz
    >>> model = elman.LanguageModel(hidden=8, steps=5).fit("hello world\\n" * 40, listeners=[])
    >>> folder = model.save("runs/hello")
    >>> file = export_npz("runs/hello", "hello.npz").paths[0]
    >>> numpy.load(file)["layers.0.W_hh"].shape
    (8, 8)
    """
    model = load_run(Path(run))
    file = io.BytesIO()
    np.savez(file, **{**model.parameters, KEY: np.array(model.metadata())})  # type: ignore[arg-type]
    path = write_new(Path(out), file.getvalue(), force=force)
    return ExportResult([path], "np.load reads it: one array for each parameter, by name.")
