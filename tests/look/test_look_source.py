"""Lines of the source that are quoted elsewhere: found by function and marker, however they are written."""

from __future__ import annotations

from pathlib import Path

import pytest

import elman
from elman.errors import ElmanError
from elman.look.source import MARKER, find_line, marked_lines

SOURCE = """
LIMIT = 3

def forward(x, h):
    a = x + h  # (B, H) [a]
    for t in range(
        3
    ):  # [loop]
        a += t  # the state s[t] is no marker: s[t]
    try:
        b = product(
            a,  # first
            [
                1,
            ],
        )  # (B,) [b]
    except ValueError:
        b = "(  #"
        c = 1  # [c]
    return a

class Cell:
    def forward(self, x):
        return x  # [a]

TABLE = {
    "tanh": (1, 2),  # [tanh]
    "relu": max(
        0,
    ),  # cheap [relu]
}
"""


@pytest.fixture
def write(tmp_path):
    def write(text: str) -> Path:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.py"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_a_line_is_found_by_function_and_marker_and_shown_without_its_comment(write):
    found = marked_lines(write(SOURCE))
    assert {name: (line.first, line.last, line.code) for name, line in found.items()} == {
        "forward a": (5, 5, "a = x + h"),
        "forward loop": (6, 8, "for t in range(3):"),
        "forward b": (11, 16, "b = product(a, [1])"),
        "forward c": (19, 19, "c = 1"),
        "Cell.forward a": (24, 24, "return x"),
        "TABLE tanh": (27, 27, '"tanh": (1, 2),'),
        "TABLE relu": (28, 30, '"relu": max(0),'),
    }


def test_a_line_that_moves_and_is_written_in_another_way_is_still_found(write):
    moved = SOURCE.replace("LIMIT = 3", "LIMIT = 3\n\n").replace("a = x + h  #", "a = (\n        x + h\n    )  #")
    before, after = (find_line(write(text), "forward a") for text in (SOURCE, moved))
    assert (before.first, before.code) == (5, "a = x + h")
    assert (after.first, after.last, after.code) == (7, 9, "a = (x + h)")


def test_a_marker_that_is_missing_or_used_twice_is_an_error(write):
    with pytest.raises(ElmanError, match=r"the line 'forward z': expected a line of .* with this marker, got none"):
        find_line(write(SOURCE), "forward z")
    with pytest.raises(ElmanError, match=r"the marker 'forward a' of .*: expected once, got twice"):
        find_line(write(SOURCE.replace("[c]", "[a]")), "forward a")


def test_every_marker_of_the_package_names_one_line():
    for path in sorted(Path(elman.__file__).parent.rglob("*.py")):
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(marked_lines(path)) == sum(MARKER.search(line) is not None for line in lines), path
