"""Models that a person uses. A name loads its module when it is first used: a language model needs no scikit-learn."""

from importlib import import_module
from typing import Any

_HOME = {
    "LanguageModel": "language_model",
    "Sampling": "sampling",
    "Evaluation": "evaluation",
    "CopyReport": "memorization",
    "SequenceClassifier": "classifier",
    "SequenceRegressor": "classifier",
    "SequenceTagger": "tagger",
    "SequenceGenerator": "generator",
    "Seq2Seq": "seq2seq",
    "load_model": "loading",
}

__all__ = [*_HOME]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value
