"""Any run, as the model that it is."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from elman.errors import RunError
from elman.training.run import Run

MODELS = {
    "lm": ("language_model", "LanguageModel"),
    "classify": ("classifier", "SequenceClassifier"),
    "regress": ("classifier", "SequenceRegressor"),
    "tag": ("tagger", "SequenceTagger"),
    "generate": ("generator", "SequenceGenerator"),
    "translate": ("seq2seq", "Seq2Seq"),
}


def model_class(task: str) -> Any:
    module, name = MODELS[task]
    return getattr(import_module(f"elman.models.{module}"), name)


def load_model(path: str | Path) -> Any:
    """The best model of a run, whatever its task."""
    run = Run(Path(path))
    task = run.config.get("task")
    if task not in list(MODELS):
        raise RunError(f"{run.path}", expected=f"a run to {', '.join(MODELS)}", got=repr(task))
    return model_class(task).load(path)
