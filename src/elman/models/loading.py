"""Load a run of any task."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from elman.errors import RunError
from elman.training.run import Run

MODELS = {  # task: module, class
    "lm": ("language_model", "LanguageModel"),
    "classify": ("classifier", "SequenceClassifier"),
    "regress": ("classifier", "SequenceRegressor"),
    "tag": ("tagger", "SequenceTagger"),
    "generate": ("generator", "SequenceGenerator"),
    "translate": ("seq2seq", "Seq2Seq"),
}
PREDICTORS = {
    "lm": MODELS["lm"],
    "classify": ("predictors", "ClassPredictor"),
    "regress": ("predictors", "NumberPredictor"),
    "tag": ("predictors", "TagPredictor"),
    "generate": ("predictors", "GeneratingPredictor"),
    "translate": ("predictors", "TranslatingPredictor"),
}


def model_class(task: str) -> Any:
    """The public class of a task."""
    return _import_class(MODELS[task])


def load_model(path: str | Path) -> Any:
    """Load the best model of a run, or a saved model, whatever its task.

    Parameters
    ----------
    path : str or Path
        The run folder.

    Returns
    -------
    LanguageModel, SequenceClassifier, SequenceRegressor, SequenceTagger, SequenceGenerator or Seq2Seq

    Examples
    --------
    >>> import elman
    >>> model = elman.LanguageModel(hidden=8, steps=5).fit("hello world\\n" * 40, listeners=[])
    >>> run = model.save("runs/hello")
    >>> elman.load_model("runs/hello").sample(10) == model.sample(10)
    True
    """
    return model_class(_task(path)).load(path)


def load_predictor(path: str | Path) -> Any:
    """Load a model to predict with, without the slow import of scikit-learn; except for lm it cannot be trained."""
    return _import_class(PREDICTORS[_task(path)]).load(path)


def _task(path: str | Path) -> str:
    run = Run(Path(path))
    task = run.config.get("task")
    if task not in list(MODELS):
        raise RunError(f"{run.path}", expected=f"a run with one of the tasks {', '.join(MODELS)}", got=repr(task))
    return str(task)


def _import_class(address: tuple[str, str]) -> Any:
    module, name = address
    return getattr(import_module(f"elman.models.{module}"), name)
