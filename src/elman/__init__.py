"""Elman: vanilla recurrent networks that you can see through.

Importing is cheap: a public name loads its module when it is first used.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOME = {
    "LanguageModel": "elman.models",
    "SequenceClassifier": "elman.models",
    "SequenceRegressor": "elman.models",
    "SequenceTagger": "elman.models",
    "SequenceGenerator": "elman.models",
    "Seq2Seq": "elman.models",
    "load_model": "elman.models",
    "Sampling": "elman.models",
    "maths": "elman.maths",
    "look": "elman.look",
    "lab": "elman.lab",
    "errors": "elman.errors",
    "ElmanError": "elman.errors",
    "gradcheck": "elman.maths",
}

__all__ = ["__version__", *_HOME]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'elman' has no attribute {name!r}")
    module = import_module(_HOME[name])
    value = module if module.__name__ == f"elman.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
