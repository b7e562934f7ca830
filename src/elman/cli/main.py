"""From the words of the command line to a command, and from an error to a message and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Protocol

import tyro

from elman.cli.gradcheck import Gradcheck
from elman.cli.say import errors
from elman.errors import ElmanError


class Command(Protocol):
    def run(self) -> int: ...


COMMANDS: dict[str, type[Command]] = {
    "gradcheck": Gradcheck,
}
DESCRIPTION = "Elman: vanilla recurrent networks that you can see through."


def main(words: Sequence[str] | None = None) -> None:
    """Run one command; exit 0 if all went well, 2 for bad input, 130 when interrupted."""
    words = sys.argv[1:] if words is None else list(words)
    if words in (["--version"], ["-V"]):
        from importlib.metadata import version

        print(f"elman {version('elman')}")
        raise SystemExit(0)
    command: Command = tyro.extras.subcommand_cli_from_dict(
        COMMANDS, args=words or ["--help"], prog="elman", description=DESCRIPTION
    )
    try:
        status = command.run()
    except ElmanError as error:
        errors.print(f"[bold red]elman:[/bold red] {error}", markup=True)
        status = 2
    except KeyboardInterrupt:
        status = 130
    raise SystemExit(status)
