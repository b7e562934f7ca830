"""The served runs by name; a model is loaded when it is first used, and again when its file changes."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from elman.data.inputs import TokenInputs
from elman.data.targets import Labels, Numbers
from elman.errors import RunError
from elman.models.loading import MODELS, load_predictor
from elman.models.runs import read_config, read_spec
from elman.serve.errors import ApiError
from elman.serve.metrics_stream import is_training
from elman.serve.stepper import Stepper
from elman.training.metrics import UNITS
from elman.training.run import Run

if TYPE_CHECKING:
    from elman.models import LanguageModel

RECHECK_SECONDS = 1.0  # between two checks of the file of a model


class Loaded(NamedTuple):
    model: Any  # LanguageModel, ClassPredictor …
    stepper: Stepper | None  # of a language model


class ServedRun:
    """A run that is served under a name."""

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.path = name, path
        self.run = Run(path)
        self.task = str(self.run.config.get("task"))
        if self.task not in MODELS:
            raise RunError(f"{path}", expected=f"a run with a task of {', '.join(MODELS)}", got=repr(self.task))
        self.vocabulary = None
        if self.task == "lm":
            read_config(self.run)  # raises if it is damaged
            self.vocabulary = read_spec(self.run).vocabulary
        self._lock = threading.Lock()
        self._loaded: Loaded | None = None
        self._stamp: tuple[int, ...] = ()
        self._checked = float("-inf")

    @property
    def file(self) -> Path:
        return self.path / "model.safetensors"

    @property
    def ready(self) -> bool:
        return self.file.is_file()

    @property
    def created(self) -> int:
        return int((self.file if self.ready else self.path).stat().st_mtime)

    @property
    def recent(self) -> Loaded | None:
        """The model, if its file was checked a moment ago; a check lets other threads take the GIL, so it is slow."""
        return self._loaded if time.monotonic() - self._checked < RECHECK_SECONDS else None

    def load(self) -> Loaded:
        """The current model: a run in training saves a new one from time to time."""
        with self._lock:
            found = self.file.stat()
            stamp = found.st_ino, found.st_size, found.st_mtime_ns
            if self._loaded is None or stamp != self._stamp:
                model = load_predictor(self.path)
                stepper = Stepper(model.text_sampler) if self.task == "lm" else None
                self._loaded, self._stamp = Loaded(model, stepper), stamp
            self._checked = time.monotonic()
            return self._loaded

    def summary(self) -> dict[str, Any]:
        """What the page shows about the run, most of it from config.json."""
        config, corpus = self.run.config, self.run.config.get("data")
        return {
            "name": self.name,
            "task": self.task,
            "loss_unit": UNITS[self.task],
            "ready": self.ready,
            "steps": config.get("steps"),
            "batch_size": config.get("batch_size"),
            "corpus": corpus.get("name") if isinstance(corpus, dict) else None,
            "tokens": corpus.get("tokens") if isinstance(corpus, dict) else None,
            "vocabulary": None if self.vocabulary is None else len(self.vocabulary),
            "inputs": self.inputs,
            "config": config.get("config"),
        }

    @cached_property
    def inputs(self) -> dict[str, Any] | None:
        """What predict takes: the kind of its inputs, and the labels of a generator; None for a language model.

        The kinds are char, byte, word, bpe, list (of tokens), numbers, vector and label.
        """
        if self.task == "lm":
            return None
        found = read_spec(self.run).inputs
        if isinstance(found, Labels):
            return {"kind": "label", "labels": found.classes.tolist()}
        kind = found.symbols.kind if isinstance(found, TokenInputs) else "numbers"
        return {"kind": "vector" if isinstance(found, Numbers) else kind, "labels": None}


class Registry:
    def __init__(self, paths: Iterable[Path] = ()) -> None:
        self._runs: dict[str, ServedRun] = {}
        for path in paths:
            served = self.add(path)
            if served.ready:
                served.load()  # a damaged model is refused at the start

    def __iter__(self) -> Iterator[ServedRun]:
        return iter(list(self._runs.values()))

    def __len__(self) -> int:
        return len(self._runs)

    def add(self, path: Path) -> ServedRun:
        """Serve a run under the name of its folder, or NAME-2, NAME-3 … if that is taken."""
        path = Path(os.path.abspath(path))
        name, number = path.name, 1
        while name in self._runs:
            number += 1
            name = f"{path.name}-{number}"
        if not name:
            raise RunError(f"{path} has no name")
        served = self._runs[name] = ServedRun(name, path)
        return served

    def get(self, name: str | None) -> ServedRun:
        """The run with this name; the first one if the name is None."""
        if name is None and self._runs:
            return next(iter(self._runs.values()))
        if name not in self._runs:
            known = f"The runs are {', '.join(list(self._runs)[:20])}" if self._runs else "No run is served"
            what = "" if name is None else f"There is no run {name[:100]!r}. "
            raise ApiError(404, f"{what}{known}.", code="model_not_found", param="model")
        return self._runs[name]

    async def model(self, name: str | None) -> Loaded:
        """The model of a run; ApiError if there is none or if it cannot be loaded."""
        served = self.get(name)
        recent = served.recent
        return recent if recent is not None else await asyncio.to_thread(self._load, served)

    def _load(self, served: ServedRun) -> Loaded:
        if not served.path.is_dir():
            raise ApiError(404, f"{served.name!r} was deleted", code="model_not_found", param="model")
        if not served.ready:
            why = "it is still in training" if is_training(served.path) else "its training ended before it saved one"
            raise ApiError(409, f"{served.name!r} has no model yet: {why}", code="model_not_ready")
        try:
            return served.load()
        except (RunError, OSError) as error:
            why = str(error).replace(str(served.path), served.name)  # without paths of this machine
            raise ApiError(409, f"{served.name!r} cannot be loaded: {why}", code="model_not_ready") from None

    async def language_model(self, name: str | None) -> tuple[LanguageModel, Stepper]:
        served = self.get(name)
        if served.task != "lm":
            message = f"{served.name!r} is a run for {served.task}, not a language model. Use /v1/elman/predict."
            raise ApiError(400, message, code="wrong_task", param="model")
        model, stepper = await self.model(name)
        assert stepper is not None
        return model, stepper
