"""PyTorch's weights from a file: safetensors, which is only read, or .pt, which torch itself must open."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from elman.errors import CheckpointError
from elman.exchange.foreign_vocabulary import named, refuse_options
from elman.exchange.model_file import KEY, Portable, fitting, new, read_facts
from elman.exchange.torch_foreign import from_foreign
from elman.exchange.torch_names import from_torch
from elman.maths.arrays import Array
from elman.training.arrays import read_arrays

FLOATS = {"F16", "F32", "F64"}
MOST_HEADER = 100_000_000  # bytes, as safetensors itself allows: a vocabulary may be in it


def read_torch(path: Path, *, activation: str | None = None, vocabulary: Path | None = None) -> Portable:
    if path.suffix in (".pt", ".pth"):
        from elman.exchange.torch_pt import read_pt

        state, facts = read_pt(path), None
    else:
        state, facts = _read_safetensors(path)
    if facts is None:
        parameters, cell = from_foreign(path, state)
        return named(path, parameters, cell, activation or "tanh", vocabulary)
    refuse_options(path, activation=activation, vocabulary=vocabulary)
    config, terms = read_facts(path, facts)
    return fitting(path, from_torch(path, state, new(config, terms)), config, terms)


def _read_safetensors(path: Path) -> tuple[dict[str, Array], str | None]:
    """The arrays, and what an export of ours says of itself."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        text = file.read(size) if size <= MOST_HEADER else b""
    try:
        header: Any = json.loads(text)
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise CheckpointError(f"{path} is no safetensors file", do="A file of torch.save must be named .pt or .pth.")
    metadata = header.pop("__metadata__", None)
    kinds = {str(entry.get("dtype")) if isinstance(entry, dict) else "none" for entry in header.values()}
    if strange := sorted(kinds - FLOATS):
        expected, do = f"numbers of {', '.join(sorted(FLOATS))}", "Save model.float().state_dict() instead."
        raise CheckpointError(f"{path}", expected=expected, got=", ".join(strange), do=do)
    facts = metadata.get(KEY) if isinstance(metadata, dict) else None
    return read_arrays(path, most_header=MOST_HEADER), facts if isinstance(facts, str) else None
