"""The parser of the command line and the help, both made from the fields of a command.

A command is a dataclass whose fields are made by `flag` and `argument`. A command with `takes_options = True` also has
the flags of the table of options; those that were given are in its field `options`, by name. If it has `only_task`, its
help shows the flags of that task.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from elman.config import ALL_TASKS, BY_FORM, GROUPS, OPTIONS, PRESETS, Option, defaults, in_words, kind_of, suggestion
from elman.errors import ArgumentError

DEPENDS = "depends on the data, see docs/options.md"
ABOUT_DEFAULTS = (
    "The defaults below are those of a language model; elman train --task TASK --help shows those of another task. "
    "An option with tasks in brackets, such as [classify and regress], exists for these tasks only."
)
ABOUT_LM_DEFAULTS = (
    "With --seconds or --preset, there are 2 layers by default, and the defaults of --hidden, --dropout and --lr "
    "depend on the time, the text and the cell. "
    "A text of fewer than 200,000 tokens is read in batches of 16 unless --batch-size is given."
)
KINDS = {int: ("INT", "a whole number"), float: ("NUMBER", "a number"), str: ("TEXT", "text"), Path: ("PATH", "a path")}


def flag(default: Any, help: str, **facts: Any) -> Any:
    """A field that is a flag, with the name of the field unless `name` is given; `facts` are other fields of Option."""
    name = facts.pop("name", None)
    return dataclasses.field(default=default, metadata={"option": Option(help, **facts), "name": name})


def argument(name: str, help: str, default: Any = MISSING) -> Any:
    """A field that is a positional argument; one of type tuple[…, ...] takes all remaining arguments."""
    facts = {"option": Option(help), "name": name, "argument": True}
    return dataclasses.field(default=default, metadata=facts)


@dataclass(frozen=True)
class Flag:
    """A flag or a positional argument of a command."""

    field: str
    name: str
    kind: Any
    default: Any
    option: Option
    many: bool = False  # takes several values
    positional: bool = False
    part: str = ""  # for a field of a nested dataclass: the field of the command that holds the dataclass
    table: bool = False  # from the table of options

    def names(self) -> list[str]:
        """All names of a flag, such as --learning-rate and --lr."""
        return [f"--{self.name}", *([f"--{self.option.alias}"] if self.option.alias else [])]


def flags_of(command: Any) -> list[Flag]:
    """All flags and arguments of a command, in the order of its help."""
    found = _fields(command, "")
    if getattr(command, "takes_options", False):
        for name, option in OPTIONS.items():
            if option.flags_of():
                found.append(Flag(name, name.replace("_", "-"), kind_of(name)[0], None, option, table=True))
    return found


def _fields(kind: Any, part: str) -> list[Flag]:
    found, hints = [], get_type_hints(kind)
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        if dataclasses.is_dataclass(hint):
            found += _fields(hint, field.name)
        elif "option" in field.metadata:
            kinds = get_args(hint) if get_origin(hint) in (UnionType, Union, tuple) else (hint,)
            found.append(
                Flag(
                    field.name,
                    field.metadata.get("name") or field.name.replace("_", "-"),
                    next(kind for kind in kinds if kind not in (NoneType, ...)),
                    field.default,
                    field.metadata["option"],
                    many=get_origin(hint) is tuple,
                    positional=field.metadata.get("argument", False),
                    part=part,
                )
            )
    return found


# -- parsing ----------------------------------------------------------------------------------------------------------


def parse(command: Any, name: str, words: Sequence[str]) -> Any:
    """Make the command from its command-line arguments; SystemExit(0) after --help."""
    flags = flags_of(command)
    by_name = {text: each for each in flags if not each.positional for text in each.names()}
    given: dict[Flag, Any] = {}
    left: list[str] = []
    rest, wants_help = list(words), False
    while rest:
        word = rest.pop(0)
        if word == "--":
            left += rest
            break
        if word in ("-h", "--help"):
            wants_help = True
            continue
        if not word.startswith("-") or word == "-" or re.fullmatch(r"-\.?\d.*", word):
            left.append(word)
            continue
        typed, has_value, value = word.partition("=")
        typed = typed.replace("_", "-")
        switched_off = typed.startswith("--no-") and typed not in by_name
        found = by_name.get(f"--{typed[5:]}" if switched_off else typed)
        if found is None or (switched_off and found.kind is not bool):
            raise _unknown(name, typed, by_name)
        if found.kind is bool:
            if has_value:
                raise ArgumentError(f"{typed} takes no value", do=f"Leave out {has_value + value!r}.")
            given[found] = not switched_off
        elif found.many and not has_value:
            taken = []
            while rest and not rest[0].startswith("--"):
                taken.append(_converted(found.kind, rest.pop(0), typed, name))
            if not taken:
                raise _missing(typed, name)
            given[found] = (*given.get(found, ()), *taken)
        else:
            if not has_value:
                if not rest or (found.kind is not str and rest[0].startswith("--")):
                    raise _missing(typed, name)
                value = rest.pop(0)
            one = _converted(found.kind, value, typed, name)
            given[found] = (*given.get(found, ()), one) if found.many else one
    if wants_help:
        chosen = {each.field: value for each, value in given.items()}
        task = chosen.get("task", getattr(command, "only_task", None))
        print(help_of(command, name, task, chosen.get("preset")))
        raise SystemExit(0)
    return _build(command, name, flags, given | _positional(flags, left, name))


def _positional(flags: list[Flag], words: list[str], name: str) -> dict[Flag, Any]:
    """The values of the positional arguments."""
    places = [each for each in flags if each.positional]
    given: dict[Flag, Any] = {}
    for place in places:
        if place.many:
            given[place] = tuple(_converted(place.kind, word, place.name, name) for word in words)
            words = []
        elif words:
            given[place] = _converted(place.kind, words.pop(0), place.name, name)
    if words:
        most = len(places)
        expected = f"{most} argument{'s' * (most != 1)}: {' '.join(place.name for place in places)}" if most else "none"
        raise ArgumentError(
            f"elman {name}: {words[0]!r} is one argument too many", expected=expected, do=_see_help(name)
        )
    return given


def _build(command: Any, name: str, flags: list[Flag], given: dict[Flag, Any]) -> Any:
    missing = [each for each in flags if each.default is MISSING and each not in given]
    if missing:
        names = " and ".join(each.name if each.positional else f"--{each.name}" for each in missing)
        raise ArgumentError(f"{names} {'are' if missing[1:] else 'is'} missing", do=_see_help(name))
    values: dict[str, Any] = {each.field: value for each, value in given.items() if not each.table and not each.part}
    hints = get_type_hints(command)
    for part in {each.part for each in flags} - {""}:
        values[part] = hints[part](**{each.field: value for each, value in given.items() if each.part == part})
    if getattr(command, "takes_options", False):
        values["options"] = {each.field: value for each, value in given.items() if each.table}
    return command(**values)


def _converted(kind: Any, text: str, typed: str, name: str) -> Any:
    if get_origin(kind) is Literal:
        if text not in get_args(kind):
            expected = f"one of {', '.join(get_args(kind))}"
            raise ArgumentError(typed, expected=expected, got=repr(text), do=_see_help(name))
        return text
    try:
        return kind(text)
    except ValueError:
        got = repr(text if len(text) < 200 else f"{text[:200]}…")
        raise ArgumentError(typed, expected=KINDS[kind][1], got=got, do=_see_help(name)) from None


def _unknown(name: str, typed: str, known: dict[str, Flag]) -> ArgumentError:
    near = suggestion(typed.lstrip("-").removeprefix("no-"), [text[2:] for text in known]) if len(typed) > 3 else None
    do = f"Did you mean --{near}?" if near else _see_help(name)
    return ArgumentError(f"elman {name} has no flag {typed}", do=do)


def _missing(typed: str, name: str) -> ArgumentError:
    return ArgumentError(typed, expected="a value", got="none", do=_see_help(name))


def _see_help(name: str) -> str:
    return f"See elman {name} --help."


# -- help -------------------------------------------------------------------------------------------------------------


def help_of(command: Any, name: str, task: str | None = None, preset: str | None = None) -> str:
    """The help of a command; with a task, its flags and defaults; with a preset, the values that it sets."""
    width = min(shutil.get_terminal_size().columns, 100)
    flags = flags_of(command)
    if task is not None:
        flags = [each for each in flags if not each.table or task in each.option.flags_of()]
    places = [each for each in flags if each.positional]
    usage = " ".join(_usage(each) for each in places)
    parts = [_wrapped(command.__doc__, width), f"usage: elman {name} {usage + ' ' if usage else ''}[flags]"]
    own = [each for each in flags if not each.table and not each.positional]
    shown = (defaults(task or "lm") | PRESETS.get(preset or "", {})) if any(each.table for each in flags) else {}
    shown |= dict.fromkeys(BY_FORM.get(task, ()) if task not in (None, "lm") else (), DEPENDS)
    sections = {"": places, "flags": own}
    first = [each for each in flags if each.table and each.option.first]
    if first:
        sections["main options"] = first
        for group, title in GROUPS.items():
            rest = [each for each in flags if each.table and each.option.group == group and not each.option.first]
            sections[title] = rest
    for title, members in sections.items():
        if title == "flags" and first and name == "train":
            notes = {None: [ABOUT_DEFAULTS, ABOUT_LM_DEFAULTS], "lm": [ABOUT_LM_DEFAULTS]}.get(task, [])
            parts += [textwrap.fill(" ".join(notes), width)] if notes else []
        if members:
            rows = [_row(each, shown, task, width) for each in members]
            parts.append("\n".join(([f"{title}:"] if title else []) + rows))
    return "\n\n".join(parts)


def _usage(each: Flag) -> str:
    text = f"{each.name} …" if each.many else each.name
    return text if each.default is MISSING else f"[{text}]"


def _row(each: Flag, shown: dict[str, Any], task: str | None, width: int) -> str:
    default = shown.get(each.field) if each.table else each.default
    if each.table and task is None and "lm" not in each.option.tasks and each.kind is not bool:
        default = None  # each task has its own default, which elman train --task TASK --help shows
    if each.positional:
        head = _usage(each)
    elif each.kind is bool:
        head = {True: f"--no-{each.name}", DEPENDS: f"--{each.name}, --no-{each.name}"}.get(default, f"--{each.name}")
    else:
        head = ", ".join(f"{text} {_metavar(each)}" for text in reversed(each.names()))
    text = each.option.help
    if each.table and task is None and each.option.flags_of() != ALL_TASKS:
        text += f" [{in_words(each.option.flags_of())}]"
    if each.kind is bool and default != DEPENDS:
        text += " (on; this turns it off)" if default is True else ""
    elif default is not MISSING and default not in (None, "", ()):
        text += f" (default: {f'{default:g}' if isinstance(default, float) else default})"
    lines = textwrap.wrap(text, max(width - 34, 20))
    first, *more = [f"  {head:<31} {lines[0]}"] if len(head) < 32 else [f"  {head}", f"{'':34}{lines[0]}"]
    return "\n".join([first, *more, *(f"{'':34}{line}" for line in lines[1:])])


def _metavar(each: Flag) -> str:
    if get_origin(each.kind) is Literal:
        return "{" + ",".join(get_args(each.kind)) + "}"
    return KINDS[each.kind][0] + (" …" if each.many else "")


def _wrapped(text: str, width: int) -> str:
    """A docstring wrapped to this width; paragraphs with indented lines, which are examples, are not wrapped."""
    paragraphs = inspect.cleandoc(text).split("\n\n")
    return "\n\n".join(p if "\n    " in p else textwrap.fill(p, width) for p in paragraphs)
