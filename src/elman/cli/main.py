"""From the words of the command line to a command, and from an error to a message and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NoReturn

from elman.cli.say import errors
from elman.errors import ElmanError

#            command: where it is, what it does
COMMANDS = {
    "train": ("elman.cli.train:Train", "train a language model on a text, or go on with a run"),
    "sample": ("elman.cli.sample:Sample", "write with a trained model"),
    "eval": ("elman.cli.evaluate:Evaluate", "measure a model on a text"),
    "show": ("elman.cli.show:Show", "what a run is and how it went"),
    "data": ("elman.cli.data:Data", "the texts that Elman knows by name"),
    "gradcheck": ("elman.cli.gradcheck:Gradcheck", "every gradient against numbers"),
}
SHORT = {"--lr": "--learning-rate"}


def main(words: Sequence[str] | None = None) -> NoReturn:
    """Run one command. Exit 0: all went well; 1: a check failed; 2: bad input; 130 and 143: interrupted."""
    words = list(sys.argv[1:] if words is None else words)
    try:
        status = run(words)
    except ElmanError as error:
        errors.print(f"elman: {error}", markup=False, style="red")
        status = 2
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:  # the reader of a pipe has enough
        sys.stderr.close()
        status = 0
    raise SystemExit(status)


def run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(overview())
        return 0
    if words[0] in ("-V", "--version"):
        from importlib.metadata import version

        print(f"elman {version('elman')}")
        return 0
    name, rest = words[0], [_long(word) for word in words[1:]]
    if name not in COMMANDS:
        near = get_close_matches(name, COMMANDS, 1)
        hint = f"Did you mean elman {near[0]}?" if near else "elman --help lists the commands."
        raise ElmanError(f"There is no command {name!r}", do=hint)
    module, kind = COMMANDS[name][0].split(":")
    command = getattr(import_module(module), kind)
    status: int = parse(command, name, rest).run()
    return status


def parse(command: Any, name: str, words: list[str]) -> Any:
    import tyro  # takes a while to import, and --version does not need it

    default = command.default(words) if hasattr(command, "default") else None
    config = (
        tyro.conf.FlagCreatePairsOff,
        tyro.conf.OmitArgPrefixes,
        tyro.conf.PositionalMetavarFromFieldName,
        tyro.conf.DisallowNone,
    )
    options = {} if default is None else {"default": default}
    return tyro.cli(command, prog=f"elman {name}", args=words, config=config, **options)


def overview() -> str:
    width = max(map(len, COMMANDS))
    lines = "\n".join(f"  elman {name:{width}}   {what}" for name, (_, what) in COMMANDS.items())
    return f"""Elman: vanilla recurrent networks that you can see through.

{lines}

  elman COMMAND --help tells more about each; elman --version.

Begin with:
  elman train --seconds 30
"""


def _long(word: str) -> str:
    name, equals, value = word.partition("=")
    return SHORT.get(name, name) + equals + value
