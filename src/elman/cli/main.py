"""The entry point: finds the command, runs it, and turns errors into messages and exit codes."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

from elman.cli.console import errors, reason
from elman.errors import ElmanError, ElmanWarning, options_as

# command: its class, and what it does
COMMANDS = {
    "train": ("elman.cli.train:Train", "train a model on a text or on examples, or continue a run"),
    "sweep": ("elman.cli.sweep:Sweep", "search for the best options for a text, by many short training runs"),
    "sample": ("elman.cli.sample:Sample", "generate text with a trained model"),
    "predict": (
        "elman.cli.predict:Predict",
        "classify, tag, translate, generate or predict numbers with a trained model",
    ),
    "eval": ("elman.cli.evaluate:Evaluate", "evaluate a model on its held-out data, on a text or on examples"),
    "surprise": ("elman.cli.surprise:Surprise", "show how unexpected each line or token of a file is"),
    "runs": ("elman.cli.runs:Runs", "list and compare run folders"),
    "show": ("elman.cli.show:Show", "show a run: its data, network, progress and loss curve"),
    "look": ("elman.cli.look:Look", "analyze how a model reads a text: gradients, eigenvalues, units, attributions"),
    "serve": ("elman.cli.serve:Serve", "serve models over HTTP, with a web page"),
    "data": ("elman.cli.data:Data", "list and download the texts and examples that are known by name"),
    "export": ("elman.cli.export:Export", "export a trained model as a file for other tools"),
    "import": ("elman.cli.import_:Import", "import a model from PyTorch or ONNX as a run"),
    "steps": ("elman.cli.steps:Steps", "show every equation with its values and the code that computes it"),
    "lab": ("elman.cli.lab:Lab", "write backpropagation yourself, with a checker that names mistakes"),
    "card": ("elman.cli.card:Card", "write a model card (README.md) into a run folder"),
    "compile": ("elman.cli.compile_:Compile", "compile the kernels of every cell and task with default options"),
    "gradcheck": ("elman.cli.gradcheck:Gradcheck", "check every gradient against central differences"),
}


def main(words: Sequence[str] | None = None) -> NoReturn:
    """Run one command.

    Exit codes: 0 success; 1 a check failed (gradcheck, lab), no trial of a sweep was trained to its end, compiled
    kernels cannot be cached (compile), or a bug; 2 an error with a message: bad input, too little memory, a full disk;
    130 or 143 interrupted by SIGINT or SIGTERM (always 130 if a training has stopped after a step).
    """
    for stream, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, stream) is None:  # the stream was closed: read nothing, discard what is written
            setattr(sys, stream, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # show ? for characters that the terminal cannot print
    try:
        status = attempt(list(sys.argv[1:] if words is None else words))
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of the pipe has closed it; discard the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 0
    exec("")  # clears CPython's record of a KeyboardInterrupt: python -m would end by SIGINT, not with this status
    raise SystemExit(status)


def attempt(words: list[str]) -> int:
    """Run a command and return its exit code; print errors."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", ElmanWarning)
            warnings.showwarning = _note
            with options_as("flags"):
                return run(words)
    except SystemExit as leave:  # the help was shown, or SIGTERM came before the first step
        return leave.code if isinstance(leave.code, int) else 0
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        raise
    except (ElmanError, OSError, MemoryError) as error:
        return refuse(reason(error))


def _note(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
    """Print warnings of Elman as notes, others as Python prints them."""
    if issubclass(category, ElmanWarning):
        errors.print(f"Note: {message}", markup=False, style="yellow")
    else:
        errors.print(warnings.formatwarning(message, category, *place[:2]).rstrip(), markup=False)


def refuse(why: str) -> int:
    """Print an error and return the exit code."""
    errors.print(f"elman: {why}", markup=False, style="red")
    return 2


def run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    if words[0] in ("-V", "--version"):
        from importlib.metadata import version

        print(f"elman {version('elman')}")
        return 0
    name, rest = words[0], words[1:]
    if name not in COMMANDS:
        near = get_close_matches(name, COMMANDS, 1)
        hint = f"Did you mean elman {near[0]}?" if near else "elman --help lists the commands."
        raise ElmanError(f"There is no command {name!r}", do=hint)
    from elman.cli.flags import parse  # imported here because it takes time

    module, kind = COMMANDS[name][0].split(":")

    def command() -> int:
        status: int = parse(getattr(import_module(module), kind), name, rest).run()
        return status

    if name == "train":  # it may be one of several MPI processes
        from elman.cli.mpi import run_as_rank

        return run_as_rank(command)
    return command()


def overview() -> str:
    width = max(map(len, COMMANDS))
    lines = "\n".join(f"  elman {name:{width}}   {what}" for name, (_, what) in COMMANDS.items())
    return f"""Elman: recurrent networks with hand-derived backpropagation.

{lines}

  elman COMMAND --help explains a command; elman --version prints the version.

Begin with:
  elman train --seconds 30
"""
