"""The tree of errors is as its docstring draws it, speaks in parts, and survives a process boundary."""

from __future__ import annotations

import ast
import builtins
import inspect
import pickle
import re
from pathlib import Path

import pytest

from elman import errors

EVERY = {name: c for name, c in vars(errors).items() if inspect.isclass(c) and issubclass(c, Exception)}
CLASSES = {name: c for name, c in EVERY.items() if not issubclass(c, Warning)}


def drawn():
    """(name, parent, builtin bases) of each line of the tree in the docstring."""
    above: list[str] = []
    for line in errors.__doc__.splitlines():
        if match := re.match(r"^    ((?:│   |    )*(?:[├└]── )?)(\w+(?:Error|Warning))\s*(?:\(([\w, ]+)\))?", line):
            depth = len(match[1]) // 4
            above[depth:] = [match[2]]
            yield match[2], above[depth - 1] if depth else "Exception", (match[3] or "").replace(" ", "").split(",")


def test_the_docstring_draws_every_class_once():
    names = [name for name, _, _ in drawn()]
    assert sorted(names) == sorted(EVERY)


@pytest.mark.parametrize(("name", "parent", "conventions"), [row for row in drawn() if row[0] in CLASSES])
def test_each_class_has_the_bases_that_are_drawn(name, parent, conventions):
    bases = CLASSES[name].__bases__
    assert bases[0].__name__ == parent
    assert bases[1:] == tuple(getattr(builtins, base) for base in conventions if base)
    assert issubclass(CLASSES[name], errors.ElmanError)
    assert CLASSES[name].__doc__


def test_each_warning_is_a_user_warning_below_the_one_that_is_drawn_first():
    warned = [name for name, _, _ in drawn() if name not in CLASSES]
    assert issubclass(EVERY[warned[0]], UserWarning)
    assert all(issubclass(EVERY[name], EVERY[warned[0]]) and EVERY[name].__doc__ for name in warned)


@pytest.mark.parametrize(("parts", "message"), [
    ({}, "x"),
    ({"expected": "2"}, "x: expected 2"),
    ({"got": 0}, "x: got 0"),
    ({"expected": 1, "got": 3}, "x: expected 1, got 3"),
    ({"do": "Turn it round."}, "x. Turn it round."),
    ({"expected": 1, "got": 3, "do": "Turn it round."}, "x: expected 1, got 3. Turn it round."),
])  # fmt: skip
def test_a_message_is_made_of_the_parts_that_are_given(parts, message):
    assert str(errors.ElmanError("x", **parts)) == message


def test_a_sentence_that_ends_is_not_ended_twice():
    assert str(errors.ElmanError("It ends.", do="Go on.")) == "It ends. Go on."


@pytest.mark.parametrize("name", CLASSES)
def test_each_error_pickles_and_prints(name):
    error = CLASSES[name]("lengths", expected="from 0 to 4", got=5, do="Shorten them.")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error) == "lengths: expected from 0 to 4, got 5. Shorten them."


@pytest.mark.parametrize("name", CLASSES)
def test_each_error_is_caught_as_its_convention(name):
    for base in CLASSES[name].__mro__[1:-1]:
        with pytest.raises(base):
            raise CLASSES[name]("x")


def test_options_are_named_as_they_are_written_where_the_message_is_shown():
    def named():
        return errors.option("batch_size"), errors.option("tokens", "byte"), errors.option("force", True)

    assert named() == ("batch_size", "tokens='byte'", "force=True")
    with errors.options_as("flags"):
        assert named() == ("--batch-size", "--tokens byte", "--force")
        with errors.options_as("json"):
            assert named() == ("batch_size", '"tokens": "byte"', '"force": true')
        assert named()[0] == "--batch-size"
    assert named()[0] == "batch_size"


def test_messages_outside_the_command_line_name_no_flags():
    """A flag may stand in a whole command, as in `elman train --resume RUN`, and is named by `option` otherwise."""
    package = Path(errors.__file__).parent
    command = re.compile(r"\b(elman|pip|srun)\b[^.;]*--")
    found = []
    for path in package.rglob("*.py"):
        if path.is_relative_to(package / "cli") or path.name == "errors.py":
            continue
        nodes = [*ast.walk(ast.parse(path.read_text("utf-8")))]
        inside = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in nodes:
            texts = node.values if isinstance(node, ast.JoinedStr) else [node]
            text = "".join(str(t.value) if isinstance(t, ast.Constant) else "{}" for t in texts)
            flag = re.search(r"(?<![\w-])--[a-z-]+(?!=)\b", text)
            if flag and id(node) not in inside and not command.search(text):
                found.append(f"{path.relative_to(package)}: {text[:80]}")
    assert not found, "\n".join(found)
