"""The parser of the command line: every form of a flag, and the values that it gives."""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest

from elman.cli.flags import argument, flag, parse
from elman.cli.train import Train
from elman.errors import ArgumentError


@dataclass(frozen=True)
class Limits:
    most: int = flag(7, "a number in a part")


@dataclass(frozen=True)
class Command:
    """A command.

    For instance:
        elman command x
    """

    takes_options: ClassVar[bool] = True

    run_folder: Path = argument("RUN", "a folder")
    rest: tuple[str, ...] = argument("REST", "more", ())
    kind: Literal["a", "b"] = flag("a", "a choice")
    text: str | None = flag(None, "a text")
    count: int | None = flag(None, "a number", alias="n")
    names: tuple[str, ...] = flag((), "several")
    force: bool = flag(False, "a switch")
    from_: str | None = flag(None, "renamed", name="from")
    limits: Limits = field(default_factory=Limits)
    options: dict[str, Any] = field(default_factory=dict)


def parsed(*words):
    return parse(Command, "command", words)


@pytest.mark.parametrize(("words", "options"), [
    (["--bidirectional", "names"], {"bidirectional": True}),
    (["names", "--bidirectional"], {"bidirectional": True}),
    (["names", "--no-bidirectional"], {"bidirectional": False}),
    (["--batch_size", "32", "names"], {"batch_size": 32}),
    (["names", "--batch-size=32"], {"batch_size": 32}),
    (["--batch-size", "32", "names"], {"batch_size": 32}),
    (["names", "--batch_size=32"], {"batch_size": 32}),
    (["--lr", "1e-3", "names"], {"learning_rate": 1e-3}),
    (["names", "--learning_rate=1e-3"], {"learning_rate": 1e-3}),
])  # fmt: skip
def test_flags_work_before_and_after_the_source_with_dashes_and_underscores(words, options):
    command = parse(Train, "train", words)
    assert (command.source, command.options) == (("names",), options)


def test_the_same_flags_reach_config_json_in_every_form(elman):
    Path("names.tsv").write_text("".join(f"{name}\t{label}\n" for name, label in [("anna", "x"), ("otto", "y")] * 20))
    small = ["--steps", "1", "--hidden", "4"]
    forms = [
        ["--bidirectional", "--batch_size", "8", "names.tsv"],
        ["names.tsv", "--bidirectional", "--batch-size=8"],
        ["--batch_size=8", "names.tsv", "--bidirectional"],
    ]
    for number, words in enumerate(forms):
        assert elman("train", *words, *small, "--out", f"run-{number}").status == 0
        config = json.loads(Path(f"run-{number}/config.json").read_text())["config"]
        assert (config["bidirectional"], config["batch_size"]) == (True, 8)


def test_arguments_become_values_of_their_type():
    command = parsed(
        "--kind=b", "x", "--text", "--dashes", "--n", "3", "y", "z", "--names", "a", "b", "--names=c", "--force",
        "--from", "here", "--most", "9", "--hidden", "5",
    )  # fmt: skip
    assert command == Command(
        Path("x"), ("y", "z"), "b", "--dashes", 3, ("a", "b", "c"), True, "here", Limits(9), {"hidden": 5}
    )
    assert parsed("x") == Command(Path("x"))
    assert parsed("--", "--x").run_folder == Path("--x")
    assert parsed("-", "-5").rest == ("-5",)


@pytest.mark.parametrize(("words", "message"), [
    ([], "^RUN is missing. See elman command --help.$"),
    (["x", "--count"], "^--count: expected a value, got none"),
    (["x", "--count", "--force"], "^--count: expected a value, got none"),
    (["x", "--names", "--force"], "^--names: expected a value, got none"),
    (["x", "--count=three"], "^--count: expected a whole number, got 'three'"),
    (["x", "--n", "1.5"], "^--n: expected a whole number, got '1.5'"),
    (["x", "--kind", "c"], "^--kind: expected one of a, b, got 'c'"),
    (["x", "--force=yes"], "^--force takes no value. Leave out '=yes'.$"),
    (["x", "--no-kind"], "^elman command has no flag --no-kind"),
    (["x", "--forse"], r"^elman command has no flag --forse. Did you mean --force\?$"),
    (["x", "--second", "5"], r"^elman command has no flag --second. Did you mean --seconds\?$"),
    (["x", "--batch", "5"], r"^elman command has no flag --batch. Did you mean --batch-size\?$"),
    (["x", "-q"], "^elman command has no flag -q. See elman command --help.$"),
])  # fmt: skip
def test_arguments_that_cannot_be_parsed_are_refused(words, message):
    with pytest.raises(ArgumentError, match=message):
        parsed(*words)


def test_missing_flags_and_arguments_are_named_together_and_surplus_ones_refused():
    @dataclass(frozen=True)
    class Two:
        """Two."""

        file: Path = argument("FILE", "a file")
        out: Path = flag(MISSING, "a folder")

    with pytest.raises(ArgumentError, match=r"^FILE and --out are missing"):
        parse(Two, "two", [])
    with pytest.raises(ArgumentError, match=r"^elman two: 'b' is one argument too many: expected 1 argument: FILE"):
        parse(Two, "two", ["a", "b", "--out", "c"])


def test_flags_are_checked_before_a_file_is_opened(elman):
    status, _, err = elman("train", "missing.txt", "--hidden", "0")
    assert (status, err.startswith("elman: --hidden: expected a whole number above 0")) == (2, True)
    assert "missing.txt" not in err
