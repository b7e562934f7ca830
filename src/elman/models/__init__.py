"""The public models. A name loads its module when it is first used: a language model needs no scikit-learn."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elman.models.classifier import SequenceClassifier as SequenceClassifier
    from elman.models.classifier import SequenceRegressor as SequenceRegressor
    from elman.models.evaluation import Evaluation as Evaluation
    from elman.models.generator import SequenceGenerator as SequenceGenerator
    from elman.models.language_model import LanguageModel as LanguageModel
    from elman.models.loading import load_model as load_model
    from elman.models.memorization import CopyReport as CopyReport
    from elman.models.sampling import Sampling as Sampling
    from elman.models.seq2seq import Seq2Seq as Seq2Seq
    from elman.models.tagger import SequenceTagger as SequenceTagger

_MODULES = {
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

__all__ = [*_MODULES]  # noqa: PLE0604


if not TYPE_CHECKING:  # so that a type checker still reports names that do not exist

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        globals()[name] = value
        return value
