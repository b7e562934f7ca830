"""A lab: exercises in backpropagation through time, with a checker that names the mistake.

`start` writes files with gaps, `check_file` checks each gap separately, and `check` checks one function, in a notebook
for instance. If a result equals that of a known mistake, the checker names the mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from elman.errors import ArgumentError, DataError, UnknownNameError
from elman.lab.checker import Verdict
from elman.lab.gaps import FILES, GAPS, solution_text, student_text, without_marks
from elman.lab.mistakes import MISTAKES, Mistake
from elman.lab.process import load_file, verdicts

__all__ = ["GAPS", "MISTAKES", "Mistake", "Verdict", "check", "check_file", "start"]


def start(folder: str | PathLike[str], *, solutions: bool = False) -> list[Path]:
    """Write the files of the lab into a folder.

    Parameters
    ----------
    folder : path
        Where to write rnn.py and lstm.py; created if it is missing. If one of them exists, nothing is written.
    solutions : bool
        Write them with all gaps filled.

    Returns
    -------
    list of Path
        The files that were written.

    Examples
    --------
    >>> import tempfile
    >>> [path.name for path in start(tempfile.mkdtemp())]
    ['rnn.py', 'lstm.py']
    """
    paths = {file: Path(folder) / f"{file}.py" for file in FILES}
    for path in paths.values():
        if path.exists():
            raise ArgumentError(f"{path} exists", do="Choose another folder; your work is not replaced.")
    Path(folder).mkdir(parents=True, exist_ok=True)
    for file, path in paths.items():
        text = without_marks(solution_text(file)) if solutions else student_text(file)
        with path.open("x", encoding="utf-8") as stream:
            stream.write(text)
    return list(paths.values())


def check_file(path: str | PathLike[str], *, seed: int = 0, seconds: float = 10.0) -> Iterator[Verdict]:
    """Check each gap of a student's file, in the order in which `start` writes them.

    Parameters
    ----------
    path : path
        A file that `start` wrote and the student changed.
    seed : int
        Seed of the random problems.
    seconds : float
        The time limit for one gap; Windows has none.

    Yields
    ------
    Verdict
        One for each gap.

    Examples
    --------
    >>> import tempfile
    >>> rnn, lstm = start(tempfile.mkdtemp(), solutions=True)
    >>> all(verdict.right for verdict in check_file(lstm))
    True
    """
    try:
        code = compile(Path(path).read_bytes(), fspath(path), "exec")
    except FileNotFoundError:
        raise DataError(f"There is no file {path}", do="elman lab start FOLDER writes one.") from None
    except IsADirectoryError:
        do = f"Give the file, for instance {Path(path) / 'rnn.py'}."
        raise DataError(f"{path} is a folder", expected="a file to check", do=do) from None
    except SyntaxError as error:
        line = f"line {error.lineno}: " if error.lineno else ""
        raise DataError(f"{path} is not valid Python: {line}{error.msg}") from None
    except ValueError as error:  # null bytes, in some versions of Python
        raise DataError(f"{path} is not valid Python: {error}") from None
    names = set(code.co_names)
    gaps = [gap for gap in GAPS.values() if gap.name in names]
    if not gaps:
        raise DataError(f"{path} has no function of the lab", do="elman lab start FOLDER writes a file that has them.")
    gaps = [gap for gap in GAPS.values() if gap.file in {gap.file for gap in gaps}]
    return verdicts(gaps, load_file(code, fspath(path)), seed, seconds)


def check(function: Callable[..., Any], *, gap: str | None = None, seed: int = 0, seconds: float = 10.0) -> Verdict:
    """Check one function, in a notebook for instance.

    Parameters
    ----------
    function : callable
        The student's function.
    gap : str, optional
        The name of the gap that it fills; by default the name of the function.
    seed : int
        Seed of the random problems.
    seconds : float
        The time limit; Windows has none.

    Returns
    -------
    Verdict
        Printing it shows its message.

    Examples
    --------
    >>> def preactivation_gradient(d_h, h_next):
    ...     return d_h
    >>> print(check(preactivation_gradient))
    preactivation_gradient: wrong: your d_a is what you get if 1 − h² is missing: docs/maths.md, section 6
    """
    name = gap or getattr(function, "__name__", "")
    if name not in GAPS:
        raise UnknownNameError("gap", expected=f"one of {', '.join(GAPS)}", got=repr(name))
    (verdict,) = verdicts([GAPS[name]], lambda: lambda _: function, seed, seconds)
    return verdict
