"""A model on its way: its weights by name, and the facts that every format carries along as one JSON text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elman.config import Config, SequenceConfig, from_json, to_json
from elman.data import Vocabulary, vocabulary_from_json
from elman.errors import CheckpointError, RunError
from elman.maths.arrays import Array
from elman.models import language_run, sequence_run
from elman.models.language_task import new_network
from elman.models.sequence_run import Fitted
from elman.models.task_spec import SHAPES, Terms
from elman.network import Network, Parameters
from elman.training.arrays import to_bytes
from elman.training.run import Run
from elman.training.storage import as_json, write_file

KEY = "elman"  # under which a file's metadata hold the facts
FORMAT = 1


class Portable(NamedTuple):
    """A model of any task, as it leaves a run and as it enters one."""

    parameters: Mapping[str, Array]
    config: Config | SequenceConfig
    terms: Vocabulary | Terms  # what its ids stand for

    @property
    def task(self) -> str:
        return self.terms.task if isinstance(self.terms, Terms) else "lm"

    @property
    def network(self) -> Network:
        return new(self.config, self.terms)

    def facts(self) -> str:
        """All but the weights, in ASCII."""
        config, vocabulary = to_json(self.config), self.terms.to_json()
        return json.dumps({"format": FORMAT, "task": self.task, "config": config, "vocabulary": vocabulary})

    def single(self) -> Portable:
        """The same in float32."""
        with np.errstate(over="ignore"):
            parameters = {name: array.astype(np.float32) for name, array in self.parameters.items()}
        if lost := [name for name, array in parameters.items() if not np.isfinite(array).all()]:
            raise RunError(f"{lost[0]} has numbers that are too large for float32")
        return self._replace(parameters=parameters, config=self.config.with_options(dtype="float32"))


class Wrote(NamedTuple):
    """What an export has left behind."""

    paths: list[Path]
    what: str  # one sentence for who uses it


def new(config: Config | SequenceConfig, terms: Vocabulary | Terms) -> Network:
    """The network that belongs to them."""
    if isinstance(config, SequenceConfig) and isinstance(terms, Terms):
        return sequence_run.new_shape(terms, config)
    assert isinstance(config, Config)
    assert isinstance(terms, Vocabulary)
    return new_network(config.network, len(terms))


def from_run(path: Path) -> Portable:
    """The best model of a run, whatever its task."""
    if Run(path).config.get("task") in SHAPES:
        _, fitted = sequence_run.load(path)
        return Portable(fitted.parameters, fitted.config, fitted.terms)
    run, _, parameters, vocabulary = language_run.load(path)
    return Portable(parameters, language_run.config_of(run), vocabulary)


def to_run(model: Portable, path: Path, *, force: bool = False) -> Run:
    """A run folder with this model, for everything that reads one."""
    network = model.network
    parameters = Parameters(network.shapes, np.dtype(model.config.network.dtype))
    for name, array in model.parameters.items():
        parameters[name][...] = array
    if isinstance(model.terms, Terms):
        fitted = Fitted(model.terms, model.config, network, parameters)  # type: ignore[arg-type]
        return sequence_run.save(fitted, path, force=force)
    files = {"vocabulary.json": as_json(model.terms.to_json()), "model.safetensors": to_bytes(parameters)}
    return Run.create(path, language_run.config_json(model.config, None), files, force=force)  # type: ignore[arg-type]


def read_facts(path: Path, text: str) -> tuple[Config | SequenceConfig, Vocabulary | Terms]:
    """What facts() wrote; CheckpointError for anything else."""
    try:
        facts: Any = json.loads(text)
    except (ValueError, RecursionError):
        raise CheckpointError(f"{path} is damaged: what it says of the model is not JSON") from None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        got = facts.get("format") if isinstance(facts, dict) else type(facts).__name__
        raise CheckpointError(f"{path}", expected=f"a model of format {FORMAT}", got=got)
    task, config, vocabulary = (facts.get(name) for name in ("task", "config", "vocabulary"))
    if task == "lm":
        return from_json(config), vocabulary_from_json(vocabulary)
    terms = Terms.from_json(vocabulary)
    if task != terms.task:
        raise CheckpointError(f"{path}", expected=f"a model to {terms.task}", got=repr(task))
    return from_json(config, SequenceConfig), terms


def fitting(
    path: Path, parameters: Mapping[str, Array], config: Config | SequenceConfig, terms: Vocabulary | Terms
) -> Portable:
    """The model, if its parameters are those of the network: names, shapes, finite numbers."""
    expected = new(config, terms).shapes
    if odd := sorted(set(parameters) ^ set(expected)):
        raise CheckpointError(f"{path}", expected=f"{len(expected)} parameters", got=f"a difference in {odd[:6]}")
    for name, shape in expected.items():
        array = parameters[name]
        if array.shape != shape:
            raise CheckpointError(f"{path}, {name}", expected=f"shape {shape}", got=array.shape)
        if array.dtype not in (np.float16, np.float32, np.float64):
            raise CheckpointError(f"{path}, {name}", expected="floating-point numbers", got=array.dtype)
        if not np.isfinite(array).all():
            raise CheckpointError(f"{path}, {name}", expected="finite numbers", got="NaN or infinity")
    double = any(array.dtype == np.float64 for array in parameters.values())
    return Portable(parameters, config.with_options(dtype="float64" if double else "float32"), terms)


def refuse_existing(out: Path, *, force: bool) -> None:
    """A file may be replaced if that is asked for, a folder never."""
    if out.is_dir():
        raise RunError(f"{out} is a folder", do="Say --out with the name of a file.")
    if out.exists() and not force:
        raise RunError(f"{out} exists already", do="Choose another --out; --force replaces it.")


def write_new(out: Path, data: bytes, *, force: bool = False) -> Path:
    refuse_existing(out, force=force)
    write_file(out, data)
    return out
