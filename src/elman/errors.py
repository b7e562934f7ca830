"""Everything that Elman raises, in one tree.

    ElmanError                          catch this to catch them all
    ├── ArgumentError     (ValueError)  an argument that does not fit
    │   ├── ShapeError                  an array of the wrong shape
    │   ├── DtypeError    (TypeError)   an array of the wrong kind of numbers
    │   ├── RangeError                  a number outside its bounds
    │   ├── NotFiniteError              NaN or infinity, in an input or in what a model says
    │   └── UnknownNameError            a name that is not in the table
    ├── DataError         (ValueError)  a text that cannot be used
    │   ├── EncodingError               bytes that are not text in the encoding named
    │   ├── VocabularyError             tokens that the vocabulary does not hold
    │   └── DownloadError (OSError)     a corpus that could not be fetched whole
    ├── RunError          (ValueError)  a run folder that cannot be used
    │   ├── CheckpointError             a file of it is damaged, foreign or missing
    │   └── StorageError  (OSError)     it could not be written
    ├── NotFittedError    (ValueError, AttributeError)   used before fit
    ├── DivergenceError   (ArithmeticError)  training diverged more often than allowed
    ├── GradientError     (AssertionError)   a gradient disagrees with the numbers
    └── MissingExtraError (ImportError)      an optional dependency is not installed

    ElmanWarning          (UserWarning)  catch or filter this for them all
    ├── CostWarning                      a training that takes much memory or time
    └── InterruptedWarning               Ctrl-C ended fit; the model is the best so far

Each says what it is about and, where it applies, what was expected, what came, and what to do.
"""

from __future__ import annotations


class ElmanError(Exception):
    """What it is about, what was expected, what came, what to do: one message made of the parts that are given."""

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
    """An argument that does not fit."""


class ShapeError(ArgumentError):
    """An array of the wrong shape."""


class DtypeError(ArgumentError, TypeError):
    """An array of the wrong kind of numbers."""


class RangeError(ArgumentError):
    """A number outside its bounds."""


class NotFiniteError(ArgumentError):
    """NaN or infinity, in an input or in what a model says."""


class UnknownNameError(ArgumentError):
    """A name that is not in the table."""


class DataError(ElmanError, ValueError):
    """A text that cannot be used."""


class EncodingError(DataError):
    """Bytes that are not text in the encoding named."""


class VocabularyError(DataError):
    """Tokens that the vocabulary does not hold."""


class DownloadError(DataError, OSError):
    """A corpus that could not be fetched whole."""


class RunError(ElmanError, ValueError):
    """A run folder that cannot be used."""


class CheckpointError(RunError):
    """A file of a run is damaged, foreign or missing."""


class StorageError(RunError, OSError):
    """A run could not be written."""


class NotFittedError(ElmanError, ValueError, AttributeError):
    """Used before fit."""


class DivergenceError(ElmanError, ArithmeticError):
    """Training diverged more often than allowed."""


class GradientError(ElmanError, AssertionError):
    """A gradient disagrees with the numbers."""


class MissingExtraError(ElmanError, ImportError):
    """An optional dependency is not installed."""


class ElmanWarning(UserWarning):
    """All warnings of Elman."""


class CostWarning(ElmanWarning):
    """A training that takes much memory or time."""


class InterruptedWarning(ElmanWarning):
    """Ctrl-C ended fit; the model is the best so far."""
