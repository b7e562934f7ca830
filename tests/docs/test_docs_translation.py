"""The Python of docs/translation.md runs, and its commands have their flags; scripts/crosscheck runs the module."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from elman.cli.flags import parse
from elman.cli.main import COMMANDS

TEXT = (Path(__file__).parents[2] / "docs" / "translation.md").read_text("utf-8")


def test_its_python_runs():
    namespace: dict = {}
    exec(re.search(r"```python\n(.*?)```", TEXT, re.DOTALL)[1], namespace)
    assert namespace["model"].predict(["two cats"], beam=4) == ["deux chats"]


def test_its_commands_have_their_flags():
    commands = re.findall(r"^ {4}(?:.*\| )?elman (\w+) (.*?)(?: {2,}.*)?$", TEXT, re.MULTILINE)
    assert len(commands) == 5
    for name, words in commands:
        module, kind = COMMANDS[name][0].split(":")
        assert parse(getattr(import_module(module), kind), name, words.split())
