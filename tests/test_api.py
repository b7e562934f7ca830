"""The public API as type checkers and help() see it."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

MISTAKES = """from elman import LanguageModel, SequenceClassifier

LanguageModel(hiden=3)
LanguageModel().fti("x")
SequenceClassifier(layerz=2)
SequenceClassifier().epsilon.strip()
"""
PUBLIC = {  # the promised modules, and the names of each; None: all of __all__
    "elman": None,
    "elman.models": None,
    "elman.exchange": None,
    "elman.look": None,
    "elman.maths": None,
    "elman.data": (
        "open_corpus",
        "corpus_from_text",
        "Corpus",
        "Split",
        "read_examples",
        "LabeledData",
        "guess_task",
        "read_table",
        "Table",
        "read_series",
        "Series",
        "find_source",
        "fetch",
        "list_corpora",
    ),
    "elman.errors": ("ElmanError", "option", "options_as"),
    "elman.lab": None,
    "elman.training": ("Started", "Stepped", "RolledBack", "Saved", "Finished", "Failed", "ProgressLine"),
}


def test_a_type_checker_reports_misspelled_arguments_and_methods(tmp_path):
    pytest.importorskip("mypy")
    file = tmp_path / "mistakes.py"
    file.write_text(MISTAKES)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        f"--cache-dir={tmp_path / 'cache'}",
        str(file),
    ]
    output = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False).stdout
    for line, name in ((3, "hiden"), (4, "fti"), (5, "layerz"), (6, "strip")):
        assert re.search(rf"mistakes.py:{line}: error: .*{name}", output), output


def described(name: str) -> Iterator[tuple[str, Any, str]]:
    """Every public function, and the constructor and methods of every public class: name, callable, docstring."""
    module_name, _, short = name.rpartition(".")
    value = getattr(importlib.import_module(module_name), short)
    if inspect.ismodule(value) or not (inspect.isclass(value) or inspect.isfunction(value)):
        return
    text = inspect.getdoc(value) or ""
    if not inspect.isclass(value):
        yield name, value, text
        return
    if not issubclass(value, BaseException) or value.__module__ == "elman.errors":
        yield name, value, text + (inspect.getdoc(value.__init__) or "")
    for attribute in dir(value):
        member = inspect.getattr_static(value, attribute)
        member = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if inspect.isfunction(member) and not attribute.startswith("_") and member.__module__.startswith("elman"):
            yield f"{name}.{attribute}", member, inspect.getdoc(getattr(value, attribute)) or ""


def names() -> list[str]:
    found = []
    for module, chosen in PUBLIC.items():
        for name in chosen or importlib.import_module(module).__all__:
            if not name.startswith("_"):
                found.append(f"{module}.{name}")
    return found


@pytest.mark.parametrize("name", names())
def test_help_describes_every_parameter(name):
    missing = []
    for what, value, text in described(name):
        missing += [] if text else [what]
        for parameter in inspect.signature(value).parameters:
            if parameter not in ("self", "cls") and not re.search(rf"\b{parameter}\b( :|,|$)", text, re.MULTILINE):
                missing.append(f"{what}: {parameter}")
    assert missing == []
