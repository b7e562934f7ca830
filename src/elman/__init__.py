"""Elman: recurrent networks on a CPU, with every gradient derived by hand.

Importing is cheap: a public name loads its module when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from elman import errors as errors
    from elman import lab as lab
    from elman import look as look
    from elman import maths as maths
    from elman.errors import ElmanError as ElmanError
    from elman.maths import gradcheck as gradcheck
    from elman.models import LanguageModel as LanguageModel
    from elman.models import Sampling as Sampling
    from elman.models import Seq2Seq as Seq2Seq
    from elman.models import SequenceClassifier as SequenceClassifier
    from elman.models import SequenceGenerator as SequenceGenerator
    from elman.models import SequenceRegressor as SequenceRegressor
    from elman.models import SequenceTagger as SequenceTagger
    from elman.models import load_model as load_model

__version__ = "0.1.0"

_MODULES = {
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

__all__ = ["__version__", *_MODULES]  # noqa: PLE0604


if not TYPE_CHECKING:  # a type checker reports names that do not exist

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module 'elman' has no attribute {name!r}")
        module = import_module(_MODULES[name])
        value = module if module.__name__ == f"elman.{name}" else getattr(module, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
