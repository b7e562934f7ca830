"""What tyro says of the flags, in boxes, as errors of ours."""

from __future__ import annotations

import re

from elman.errors import ArgumentError

KINDS = {"INT": "a whole number", "FLOAT": "a number"}


def refusal(box: str, command: str) -> ArgumentError:
    """What is wrong with the words of a command; what tyro says in a form unknown here is passed on as it is."""
    lines = [line.strip(" │╭╮╰╯─") for line in re.sub(r"\x1b\[[\d;]*m", "", box).splitlines()]
    said = " ".join(" ".join(line for line in lines if line.strip("-")).split()).partition(" For full helptext")[0]
    more = f"elman {command} --help tells more."
    if "Missing from" in said:
        names = [line.split()[0] for line in lines if re.fullmatch(r"--[a-z].*|[A-Z][A-Z-]*", line)]
        return ArgumentError(f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} missing", do=more)
    if found := re.search(r"Unrecognized options: ([^ ,=]+)(?:.*:.*? (--[a-z-]+))?", said):
        what, near = found.groups()
        if not what.startswith("-"):
            return ArgumentError(f"{what!r} is one word too many for elman {command}", do=more)
        return ArgumentError(f"elman {command} has no flag {what}", do=f"Did you mean {near}?" if near else more)
    if found := re.search(r"Missing value for argument '(.+?)'", said):
        return ArgumentError(found[1], expected="a value", got="none", do=more)
    if found := re.search(r"invalid choice '(.*)' for argument '(.+?)'. Expected one of \((.*?),?\)", said):
        return ArgumentError(found[2], expected=f"one of {found[3].replace(chr(39), '')}", got=repr(found[1]), do=more)
    if found := re.search(r"Error parsing ([^ /:]+).*: ('.*'|\".*\") Argument helptext: .*?\b(INT|FLOAT)\b", said):
        return ArgumentError(found[1], expected=KINDS[found[3]], got=found[2], do=more)
    return ArgumentError(said, do=more)
