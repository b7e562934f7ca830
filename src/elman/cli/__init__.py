"""The command `elman`: one file a command, flags made from dataclasses."""

from elman.cli.main import main

__all__ = ["main"]
