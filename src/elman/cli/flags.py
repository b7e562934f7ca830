"""Flags made from a command's dataclass by tyro, and a help that says no more than a reader needs."""

from __future__ import annotations

import dataclasses
import inspect
import io
import os
import shutil
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stderr
from functools import cache
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_type_hints

import tyro

from elman.cli.usage_errors import refusal
from elman.errors import ArgumentError

NAMES: dict[str, Any] = {
    "learning_rate": {"aliases": ("--lr",)},
    "run_folder": {"metavar": "RUN"},
    "run_folders": {"metavar": "[RUN …]"},
    "from_": {"name": "from"},
    "trained": {"name": "run", "metavar": "RUN"},
}
TEXTS = ("--prompt", "--stop", "--text")  # whose value may begin with a dash


def parse(command: Any, name: str, words: list[str]) -> Any:
    """The command with the values that the words give it."""
    command = command.chosen(words) if hasattr(command, "chosen") else command
    wants_help = bool({"-h", "--help"} & set(words))
    if wants_help:
        print(_laid_out(command.__doc__), end="\n\n")
    options = {"default": command.default(words)} if hasattr(command, "default") else {}
    _annotate(command, options["default"].refused() if hasattr(command, "refused") else set())
    config = (
        tyro.conf.FlagCreatePairsOff,
        tyro.conf.OmitArgPrefixes,
        tyro.conf.PositionalMetavarFromFieldName,
        tyro.conf.DisallowNone,
    )
    words, said = _joined(words), io.StringIO()
    _refuse_values(words, _switches(command))
    try:
        with redirect_stderr(said), nullcontext() if wants_help else _wide():
            return tyro.cli(command, prog=f"elman {name}", description="", args=words, config=config, **options)
    except SystemExit as leave:
        if leave.code == 2:
            raise refusal(said.getvalue(), name, words) from None
        raise


@contextmanager
def _wide() -> Iterator[None]:
    """A terminal on which tyro breaks no line, and so no word, of what it refuses."""
    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "1000000"
    try:
        yield
    finally:
        del os.environ["COLUMNS"]
        if before is not None:
            os.environ["COLUMNS"] = before


def _switches(kind: Any) -> set[str]:
    """The flags that are there or not."""
    found: set[str] = set()
    for name, hint in _hints(kind).items():
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            found |= _switches(hint)
        elif hint is bool:
            found |= {f"--{name.replace('_', '-')}", f"--no-{name.replace('_', '-')}"}
    return found


def _refuse_values(words: list[str], switches: set[str]) -> None:
    """Of --force=no tyro would make --force and a word more."""
    for word in words:
        flag, given, value = word.partition("=")
        if given and flag.replace("_", "-") in switches:
            raise ArgumentError(f"{flag} takes no value", do=f"Leave out {given + value!r}.")


def _laid_out(text: str) -> str:
    """A docstring in the width of the terminal; indented paragraphs, which are examples, as they are."""
    width = min(shutil.get_terminal_size().columns, 100)
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(p if "\n    " in p else textwrap.fill(p, width) for p in paragraphs)


@cache  # before the first of them is replaced
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _annotate(kind: Any, refused: set[str]) -> None:
    """Tell tyro of better names, and to be silent about defaults that say nothing and flags that are refused."""
    for name, hint in _hints(kind).items():
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            _annotate(hint, refused)
        elif name in {field.name for field in dataclasses.fields(kind)}:
            if isinstance(hint, UnionType):  # which tyro would check with typeguard: a tenth of a second to import
                hint = Union[get_args(hint)]  # noqa: UP007
            marks: list[Any] = [tyro.conf.arg(help_behavior_hint=_hint, **NAMES.get(name, {}))]
            marks += [tyro.conf.Suppress] if name in refused else []
            kind.__annotations__[name] = Annotated[hint, *marks]


def _hint(default: str) -> str:
    if default == "True":  # then the flag is called --no-…
        return "(on; this turns it off)"
    return "" if default in ("None", "False", "''", "") else f"(default: {default})"


def _joined(words: list[str]) -> list[str]:
    """--prompt TEXT as --prompt=TEXT, else a text that begins with a dash would be taken for a flag."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] in TEXTS:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined
