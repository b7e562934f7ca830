"""A model from the ONNX file, or the two files, that export_onnx wrote for it.

The weights are read by their names. Then the graphs of the model are built again: a file that differs from them was
changed, and an ONNX runtime would compute something else with it than we do.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from elman.errors import CheckpointError
from elman.exchange.cells import format_of
from elman.exchange.model_file import KEY, PortableModel, checked_model, read_metadata, save_run
from elman.exchange.onnx_graph import require_onnx
from elman.exchange.onnx_write import graphs
from elman.maths.arrays import Array
from elman.models.fitted import build_network
from elman.network import Network


def import_onnx(file: str | Path, out: str | Path, *, force: bool = False) -> Path:
    """Make a run from an ONNX file that `export_onnx` wrote.

    The run has the same model, bit for bit (`export_onnx` rounds float64 to float32), whatever its task. If the export
    wrote an encoder and a decoder, either file stands for both. Needs the extra `onnx`.

    Parameters
    ----------
    file : str or Path
        The ONNX file.
    out : str or Path
        The run folder to write.
    force : bool
        Replace the folder if it is a run that is not being trained.

    Returns
    -------
    Path
        The run folder.

    Examples
    --------
    >>> import elman
    >>> from elman.exchange import export_onnx, import_onnx
    >>> model = elman.LanguageModel(hidden=8, steps=5).fit("hello world\\n" * 40, listeners=[])
    >>> folder = model.save("runs/hello")
    >>> file = export_onnx("runs/hello", "hello.onnx").paths[0]
    >>> again = elman.LanguageModel.load(import_onnx(file, "runs/again"))
    >>> again.sample(20, seed=1) == model.sample(20, seed=1)
    True
    """
    return save_run(read_onnx(Path(file)), Path(out), force=force).path


def read_onnx(path: Path) -> PortableModel:
    """The model in a file, or in two files (encoder and decoder); `path` may be either of them."""
    onnx = require_onnx()
    files = [_load(part, onnx) for part in _parts(path)]
    metadata = {entry.key: entry.value for entry in files[0].metadata_props}.get(KEY)
    if metadata is None:
        raise CheckpointError(
            f"{path} is not an ONNX file of elman export, and Elman reads no others",
            do="Import the PyTorch state dict of the model instead (.safetensors or .pt).",
        )
    config, spec = read_metadata(path, metadata)
    network = build_network(spec, config)
    try:
        weights = {
            weight.name: np.frombuffer(weight.raw_data, "<f4").reshape(weight.dims)
            for file in files
            for weight in file.graph.initializer
            if weight.data_type == weight.FLOAT
        }
        parameters = _parameters(network, weights)
    except (KeyError, IndexError, ValueError):
        raise CheckpointError(f"{path} is damaged: weights are missing, or of another shape") from None
    model = checked_model(path, parameters, config, spec)
    if files != [graph.to_model({KEY: metadata}) for graph in graphs(model).values()]:
        raise CheckpointError(
            f"{path}", expected="the graph that elman export writes", got="another graph", do="Export the run again."
        )
    return model


def _parts(path: Path) -> list[Path]:
    """The file; or encoder and decoder, in this order, from the path of either or that given to export_onnx."""
    stem = path.with_suffix("")
    if not path.exists() and stem.with_suffix(f".encoder{path.suffix}").exists():
        stem = stem.with_suffix(".encoder")
    if stem.suffix not in (".encoder", ".decoder"):
        return [path]
    return [stem.with_suffix(f".{part}{path.suffix}") for part in ("encoder", "decoder")]


def _load(path: Path, onnx: Any) -> Any:
    data = path.read_bytes()
    try:
        return onnx.load_from_string(data)
    except Exception as error:  # of protobuf, which only onnx imports
        raise CheckpointError(f"{path} is not a valid ONNX file: {error}") from None


def _parameters(network: Network, weights: Mapping[str, Array]) -> dict[str, Array]:
    """Our parameters, from the constants of graphs that export_onnx made."""
    p = {name: weights[name] for name in network.shapes if name in weights}
    for stack in network.stacks:
        D, row = len(stack.directions), format_of(stack.cell)
        for number, ours in enumerate(stack.names):
            layer, direction = divmod(number, D)
            name = f"{stack.prefix}layers.{layer}"
            found = row.from_onnx(*(weights[f"{name}.{part}"][direction] for part in "WRB"))
            if layer == 0 and f"{name}.W_xh" in weights:
                found["W_xh"] = np.split(weights[f"{name}.W_xh"], D, axis=1)[direction]  # (V, G·H)
            if stack.learned_state:
                found |= {f"{part}0": weights[f"{name}.{part}0"][direction, 0] for part in stack.cell.state_names}
            p |= {f"{ours}.{short}": array for short, array in found.items()}
    return p
