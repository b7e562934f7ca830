"""A model in the form between a run folder and a file format: its weights by name, and its metadata as one JSON text.

Every import makes such a PortableModel; every export except that to HTML writes one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elman.config import Config, from_json, to_json
from elman.errors import CheckpointError, RunError, option
from elman.maths.arrays import Array
from elman.models import runs
from elman.models.fitted import FittedModel, build_network
from elman.models.task_spec import TaskSpec
from elman.network import Network, Parameters
from elman.training.run import Run
from elman.training.storage import write_file

KEY = "elman"  # key of the metadata in a file
FORMAT = 2  # version of the metadata


class PortableModel(NamedTuple):
    """A model of any task, independent of file formats."""

    parameters: Mapping[str, Array]
    config: Config
    spec: TaskSpec  # the task, and the vocabularies, classes and scales of inputs and targets

    @property
    def task(self) -> str:
        return self.spec.task

    @property
    def network(self) -> Network:
        return build_network(self.spec, self.config)

    def metadata(self) -> str:
        """Everything except the weights, as ASCII JSON."""
        config, vocabulary = to_json(self.config), self.spec.to_json()
        return json.dumps({"format": FORMAT, "task": self.task, "config": config, "vocabulary": vocabulary})

    def to_float32(self) -> PortableModel:
        """The same model in float32; RunError if a number is too large."""
        with np.errstate(over="ignore"):
            parameters = {name: array.astype(np.float32) for name, array in self.parameters.items()}
        if lost := [name for name, array in parameters.items() if not np.isfinite(array).all()]:
            do = "Export it to npz, which keeps float64."
            raise RunError(f"{lost[0]} has numbers that are too large for float32", do=do)
        return self._replace(parameters=parameters, config=self.config.with_options(dtype="float32"))


class ExportResult(NamedTuple):
    """The result of an export.

    Attributes
    ----------
    paths : list of Path
        The files written: one; for ONNX models of the tasks generate and translate two, encoder and decoder.
    description : str
        One sentence for the user: what the files are, or how to use them.
    """

    paths: list[Path]
    description: str


def load_run(path: Path) -> PortableModel:
    """The best model of a run, whatever its task."""
    _, fitted = runs.load(path)
    return PortableModel(fitted.parameters, fitted.config, fitted.spec)


def save_run(model: PortableModel, path: Path, *, force: bool = False) -> Run:
    """Save a model as a run folder."""
    network = model.network
    parameters = Parameters(network.shapes, np.dtype(model.config.dtype))
    for name, array in model.parameters.items():
        parameters[name][...] = array
    return runs.save(FittedModel(model.spec, model.config, network, parameters), path, force=force)


def read_metadata(path: Path, text: str) -> tuple[Config, TaskSpec]:
    """The config and the spec from the text that `PortableModel.metadata` made; CheckpointError for any other text."""
    try:
        metadata: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is damaged: its metadata are not JSON") from None
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        got = metadata.get("format") if isinstance(metadata, dict) else type(metadata).__name__
        raise CheckpointError(f"{path}", expected=f"metadata of format {FORMAT}", got=got)
    task, config, vocabulary = (metadata.get(name) for name in ("task", "config", "vocabulary"))
    return from_json(config), TaskSpec.from_json(str(task), vocabulary)


def checked_model(path: Path, parameters: Mapping[str, Array], config: Config, spec: TaskSpec) -> PortableModel:
    """The model with these parameters, in float64 if one of them is, else in float32.

    CheckpointError unless they have the names and shapes of the network's parameters and are finite.
    """
    expected = build_network(spec, config).shapes
    check_names(path, "parameters", parameters, expected)
    for name, shape in expected.items():
        array = parameters[name]
        if array.shape != shape:
            raise CheckpointError(f"{path}, {name}", expected=f"shape {shape}", got=array.shape)
        if array.dtype not in (np.float16, np.float32, np.float64):
            raise CheckpointError(f"{path}, {name}", expected="floating-point numbers", got=array.dtype)
        if not np.isfinite(array).all():
            raise CheckpointError(f"{path}, {name}", expected="finite numbers", got="NaN or infinity")
    double = any(array.dtype == np.float64 for array in parameters.values())
    return PortableModel(parameters, config.with_options(dtype="float64" if double else "float32"), spec)


def check_names(path: Path, what: str, found: Iterable[str], expected: Iterable[str]) -> None:
    """Raise CheckpointError unless a file has exactly the expected parameters, or tensors, by their names."""
    found, expected = set(found), set(expected)
    lists = [("missing", expected - found), ("unknown", found - expected)]
    if got := "; ".join(f"{kind}: {first_few(sorted(names))}" for kind, names in lists if names):
        raise CheckpointError(f"{path}", expected=f"the {len(expected)} {what} of its network", got=got)


def first_few(names: Iterable[str]) -> str:
    """The first six names, for messages."""
    names = list(names)
    return ", ".join(names[:6]) + ", …" * (len(names) > 6) or "nothing"


def refuse_existing(out: Path, *, force: bool) -> None:
    """Raise RunError if `out` is a folder, or a file and force is not set."""
    if out.is_dir():
        raise RunError(f"{out} is a folder", do="Give the name of a file.")
    if out.exists() and not force:
        raise RunError(f"{out} exists already", do=f"Choose another name; {option('force', True)} replaces it.")


def write_new(out: Path, data: bytes, *, force: bool = False) -> Path:
    refuse_existing(out, force=force)
    write_file(out, data)
    return out
