"""The command `elman`: one module per command; flags are made from the fields of dataclasses."""

from elman.cli.main import main

__all__ = ["main"]
