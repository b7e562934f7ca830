"""Runs student code in a separate process, with limits on time and memory."""

from __future__ import annotations

import faulthandler
import io
import json
import os
import select
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import CodeType

from elman.lab.checker import Verdict, judge
from elman.lab.gaps import Function, Gap

PACKAGE = Path(__file__).parent.parent
SECONDS = 10.0  # for one gap
MEMORY = 2**30  # bytes, in addition to those that the process has at its start
PRINTED = 2000  # characters

Find = Callable[[str], Function | None]  # from the name of a gap to the student's function


def verdicts(
    gaps: Sequence[Gap], load: Callable[[], Find], seed: int, seconds: float = SECONDS, memory: int = MEMORY
) -> Iterator[Verdict]:
    """The verdict on each gap, in order; after one that hangs or crashes, the next runs in a new process.

    On a system without fork (Windows) everything runs in this process, without limits.
    """
    if not hasattr(os, "fork"):
        yield from _run(gaps, load, seed)
        return
    left = list(gaps)
    while left:
        reading, writing = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads: the child uses none
            child = os.fork()
        if child == 0:
            _child(reading, writing, left, load, seed, memory)
        os.close(writing)
        why = None
        with os.fdopen(reading, "rb") as stream:
            while left:
                line = _line(stream, seconds)
                if line is None:
                    why = f"it takes longer than {seconds:g} s"
                    break
                if not line:
                    break
                gap, kind, message, mistakes, printed = json.loads(line)
                yield Verdict(gap, kind, message, tuple(mistakes), printed)
                left.pop(0)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if left:
            code = os.waitstatus_to_exitcode(status)
            yield Verdict(left.pop(0).name, "error", why or f"the process ended with code {code}")


def _line(stream: io.BufferedReader, seconds: float) -> bytes | None:
    """The next line; empty if the other side is closed, None after the time limit."""
    end, line = time.monotonic() + seconds, b""
    while not line.endswith(b"\n"):
        if not select.select([stream], [], [], max(end - time.monotonic(), 0))[0]:
            return None
        piece = os.read(stream.fileno(), 1)  # one byte, because select does not see what is buffered
        if not piece:
            return b""
        line += piece
    return line


def _child(reading: int, writing: int, gaps: Sequence[Gap], load: Callable[[], Find], seed: int, memory: int) -> None:
    """The body of the child process: never returns."""
    code = 1
    try:
        os.close(reading)
        faulthandler.disable()  # a crash is reported as a verdict
        _limit_memory(memory)
        with os.fdopen(writing, "wb", buffering=0) as stream:
            for verdict in _run(gaps, load, seed):
                stream.write(json.dumps(verdict).encode() + b"\n")
        code = 0
    finally:
        os._exit(code)


def _limit_memory(memory: int) -> None:
    try:
        import resource

        with open("/proc/self/statm", encoding="ascii") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
    except (ImportError, OSError, ValueError):  # a system that has no such limit
        pass


def _run(gaps: Sequence[Gap], load: Callable[[], Find], seed: int) -> Iterator[Verdict]:
    find: Find | None = None
    for gap in gaps:
        printed = io.StringIO()
        with redirect_stdout(printed), redirect_stderr(printed):
            try:
                find = find or load()
                function = find(gap.name)
                verdict = (
                    Verdict(gap.name, "missing", f"there is no function {gap.name}")
                    if function is None
                    else judge(gap, function, seed)
                )
            except MemoryError:
                verdict = Verdict(gap.name, "error", "it needs too much memory")
            except BaseException as error:
                verdict = Verdict(gap.name, "error", _reason(error))
        yield verdict._replace(printed=printed.getvalue()[:PRINTED])


def _reason(error: BaseException) -> str:
    """The message of an error, with the line of the student's code if it is known."""
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    message = " ".join([message, *getattr(error, "__notes__", ())])  # a note of checker.py, such as "in problem 2"
    others = str(PACKAGE), "<solution>"  # Elman's own files, and the code that lab/gaps.py compiles
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(others)]
    own = [frame for frame in frames if "site-packages" not in frame.filename]
    return f"{message} (line {own[-1].lineno}: {own[-1].line})" if own and own[-1].line else message


def load_file(code: CodeType, path: str) -> Callable[[], Find]:
    """A function that runs a student's file and returns a lookup of its functions by name."""

    def load() -> Find:
        namespace: dict[str, object] = {"__name__": "student", "__file__": path}
        sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
        exec(code, namespace)

        def find(name: str) -> Function | None:
            function = namespace.get(name)
            return function if callable(function) else None

        return find

    return load
