"""The public errors and warnings of Elman, in one tree.

    ElmanError                          the base class of all errors
    ├── ArgumentError     (ValueError)  an invalid argument
    │   ├── ShapeError                  an array of the wrong shape
    │   ├── DtypeError    (TypeError)   an array of the wrong dtype
    │   ├── RangeError                  a number outside its bounds
    │   ├── NotFiniteError              NaN or infinity in an input or an output
    │   └── UnknownNameError            an unknown name of an option, cell, optimizer …
    ├── DataError         (ValueError)  data that cannot be used
    │   ├── EncodingError               bytes that are not valid text in the given encoding
    │   ├── VocabularyError             tokens that are not in the vocabulary
    │   └── DownloadError (OSError)     a download that failed or is incomplete
    ├── RunError          (ValueError)  a run folder or another file of a model that cannot be used
    │   ├── CheckpointError             a file of a run or a model is damaged, missing or of another format
    │   └── StorageError  (OSError)     a run or another file could not be written
    ├── NotFittedError    (ValueError, AttributeError)   a method was called before fit
    ├── DivergenceError   (ArithmeticError)  training diverged more often than allowed
    ├── GradientError     (AssertionError)   a gradient disagrees with finite differences
    └── MissingExtraError (ImportError)      an optional dependency is not installed

    ElmanWarning          (UserWarning)  the base class of all warnings
    ├── CostWarning                      a training that needs much memory or time
    └── InterruptedWarning               Ctrl-C ended fit; the model has the best weights so far

Each message says what is wrong and, where it applies, what was expected, what was given and what to do. Options are
named as the user writes them: `tokens='byte'` in Python, `--tokens byte` on the command line.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Literal

_style = "python"  # how messages name options


@contextlib.contextmanager
def options_as(style: Literal["python", "flags", "json"]) -> Iterator[None]:
    """Name options in this style in all messages created inside a `with` block, in every thread.

    Parameters
    ----------
    style : {"python", "flags", "json"}
        As arguments of a function, as flags of the command line, or as fields of a request to the service.

    Examples
    --------
    >>> with options_as("flags"):
    ...     print(option("batch_size"), option("tokens", "byte"))
    --batch-size --tokens byte
    """
    global _style  # noqa: PLW0603
    before, _style = _style, style
    try:
        yield
    finally:
        _style = before


def option(name: str, value: object = None) -> str:
    """The name of an option for a message, in the style that `options_as` has chosen.

    Parameters
    ----------
    name : str
        Its name in Python.
    value : object, optional
        A value to suggest.

    Returns
    -------
    str

    Examples
    --------
    >>> option("batch_size"), option("tokens", "byte"), option("force", True)
    ('batch_size', "tokens='byte'", 'force=True')
    """
    if _style == "flags":
        flag = f"--{name.replace('_', '-')}"
        return flag if value is None or value is True else f"{flag} {value}"
    if value is None:
        return name
    return f'"{name}": {json.dumps(value)}' if _style == "json" else f"{name}={value!r}"


class ElmanError(Exception):
    """The base class of all errors; its message is made of the given parts.

    Parameters
    ----------
    what : str
        What is wrong: the argument, file or option.
    expected : object, optional
        What was expected.
    got : object, optional
        What was given instead; kept as the attribute `got`.
    do : str, optional
        What to do about it, a whole sentence.

    Examples
    --------
    >>> print(ElmanError("hidden", expected="a number above 0", got=-3, do="Give at least 1."))
    hidden: expected a number above 0, got -3. Give at least 1.
    """

    def __init__(self, what: str, *, expected: object = None, got: object = None, do: str | None = None) -> None:
        self.got = got
        message = what
        if expected is not None:
            message += f": expected {expected}"
        if got is not None:
            message += f"{':' if expected is None else ','} got {got}"
        if do is not None:
            message += f". {do}" if not message.endswith((".", "\n")) else f" {do}"
        super().__init__(message)


class ArgumentError(ElmanError, ValueError):
    """An invalid argument."""


class ShapeError(ArgumentError):
    """An array of the wrong shape."""


class DtypeError(ArgumentError, TypeError):
    """An array of the wrong dtype."""


class RangeError(ArgumentError):
    """A number outside its bounds."""


class NotFiniteError(ArgumentError):
    """NaN or infinity in an input or an output."""


class UnknownNameError(ArgumentError):
    """An unknown name of an option, cell, optimizer …"""


class DataError(ElmanError, ValueError):
    """Data that cannot be used."""


class EncodingError(DataError):
    """Bytes that are not valid text in the given encoding."""


class VocabularyError(DataError):
    """Tokens that are not in the vocabulary."""


class DownloadError(DataError, OSError):
    """A download that failed or is incomplete."""


class RunError(ElmanError, ValueError):
    """A run folder or another file of a model that cannot be used."""


class CheckpointError(RunError):
    """A file of a run or a model is damaged, missing or of another format."""


class StorageError(RunError, OSError):
    """A run or another file could not be written."""


class NotFittedError(ElmanError, ValueError, AttributeError):
    """A method was called before fit."""


class DivergenceError(ElmanError, ArithmeticError):
    """Training diverged more often than allowed."""


class GradientError(ElmanError, AssertionError):
    """A gradient disagrees with finite differences."""


class MissingExtraError(ElmanError, ImportError):
    """An optional dependency is not installed."""


class ElmanWarning(UserWarning):
    """The base class of all warnings."""


class CostWarning(ElmanWarning):
    """A training that needs much memory or time."""


class InterruptedWarning(ElmanWarning):
    """Ctrl-C ended fit; the model has the best weights so far."""
