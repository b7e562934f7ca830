"""What tyro says of the flags, in boxes, as errors of ours."""

from __future__ import annotations

import re
from difflib import get_close_matches
from itertools import pairwise

from elman.errors import ArgumentError

KINDS = {"INT": "a whole number", "FLOAT": "a number"}


def refusal(box: str, command: str, words: list[str]) -> ArgumentError:
    """What is wrong with the words of a command; what tyro says in a form unknown here is passed on as it is."""
    box = re.sub(r"\x1b\[[\d;]*m", "", box)
    lines = [inner for line in box.splitlines() if (inner := line.strip(" │╭╮╰╯─")).strip("-")]
    ends = (number for number, line in enumerate(lines) if line.startswith("For full helptext"))
    lines = lines[: next(ends, None)]
    said = " ".join(lines)
    more = f"elman {command} --help tells more."
    if any(line.startswith("Missing from") for line in lines):
        names = [line.split()[0] for line in lines if re.fullmatch(r"--[a-z].*|[A-Z][A-Z-]*", line)]
        return ArgumentError(f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} missing", do=more)
    if found := re.search(r"Unrecognized options: ([^ ,]+)", said):
        what, near = found[1].partition("=")[0], _nearest(found[1], lines)
        if not what.startswith("-"):
            rest = f"{said[found.start(1) :]} "
            word = max((word for word in words if re.match(re.escape(word) + "[ ,]", rest)), key=len, default=found[1])
            return ArgumentError(f"{word!r} is one word too many for elman {command}", do=more)
        return ArgumentError(f"elman {command} has no flag {what}", do=f"Did you mean {near}?" if near else more)
    if found := re.search(r"Missing value for argument '(.+?)'", said):
        return ArgumentError(_typed(found[1], words), expected="a value", got="none", do=more)
    if found := re.search(r"invalid choice '(.*)' for argument '(.+?)'. Expected one of \((.*?),?\)", said):
        choices = found[3].replace("'", "")
        return ArgumentError(_typed(found[2], words), expected=f"one of {choices}", got=repr(found[1]), do=more)
    # Python itself cuts a text of more than 200 characters that is no number, with its quote
    if found := re.search(r"Error parsing ([^ :]+).*: ('.*'|\".*\"|'.*) Argument helptext: .*?\b(INT|FLOAT)\b", said):
        return ArgumentError(_typed(found[1], words), expected=KINDS[found[3]], got=found[2], do=more)
    return ArgumentError(said, do=more)


def _typed(names: str, words: list[str]) -> str:
    """Of --lr/--learning-rate the one that the reader has typed."""
    flags = [word.partition("=")[0].replace("_", "-") for word in words]
    return next((flag for flag in reversed(flags) if flag in names.split("/")), names)


def _nearest(flag: str, lines: list[str]) -> str | None:
    """Of the names of the flag that tyro thinks of first."""
    heads = ("Perhaps you meant:", f"Arguments similar to {flag}:")
    thought_of = next((after for line, after in pairwise(lines) if line in heads), "")
    return next(iter(get_close_matches(flag, re.findall(r"--[a-z-]+", thought_of), 1, 0)), None)
