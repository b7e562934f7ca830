"""docs/*.md quote the line of code that they link to, and the numbers that docs/mistakes.py prints.

    python tests/docs/test_docs_maths.py --fix      after an edit of the code: aim the links anew

A link is [`code of the line`](path#L57 "function"): the line has this code and lies within this function.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
sys.path.insert(0, str(DOCS))
import mistakes  # noqa: E402

TO_CODE = re.compile(r"\.py#L\d+")
LINK = re.compile(r"\[`(?P<code>[^`]+)`\]\((?P<path>[^)\s#]+\.py)#L(?P<line>\d+) \"(?P<name>[\w.]+)\"\)")
BOUND = re.compile(r"(?P<number>[\d.e-]+)<!-- (?P<id>(?:below|above):[\w.-]+) -->")
LISTED = {
    "000": "minus softmax-minus n dropped-p b_o diag x W_xh past",
    "001": "sizes-4 W_xh b_h no-y sum-inside recursion trained",
    "002": "activation products last clip",
    "003": "parse alias s recursion biases",
    "004": "x product sum immediate b_h outer",
}


@cache
def places(path: Path) -> dict[str, range]:
    """The lines of each function, class and table of a module, by qualified name."""
    found = {}

    def visit(node: ast.AST, prefix: str) -> None:
        for child in ast.iter_child_nodes(node):
            name = getattr(child, "name", None)
            if isinstance(child, ast.Assign) and isinstance(child.targets[0], ast.Name):
                name = child.targets[0].id
            if name is not None and isinstance(child, ast.stmt):
                found[prefix + name] = range(child.lineno, (child.end_lineno or child.lineno) + 1)
                visit(child, f"{prefix}{name}.")

    visit(ast.parse(path.read_text("utf-8")), "")
    return found


def lines_with(code: str, path: Path, name: str) -> list[int]:
    lines = path.read_text("utf-8").splitlines()
    return [n for n in places(path).get(name, ()) if lines[n - 1].split("  #")[0].strip() == code]


def wrong_links(text: str, folder: Path = DOCS) -> list[str]:
    wrong = []
    for link in LINK.finditer(text):
        path = folder / link["path"]
        found = lines_with(link["code"], path, link["name"]) if path.is_file() else []
        if int(link["line"]) not in found:
            wrong.append(f"{link[0]}: that code is at {found or 'no line'} of {link['name']}")
    return wrong


def aimed(text: str, folder: Path = DOCS) -> str:
    def aim(link: re.Match[str]) -> str:
        found = lines_with(link["code"], folder / link["path"], link["name"]) or [int(link["line"])]
        nearest = min(found, key=lambda n: abs(n - int(link["line"])))
        return link[0].replace(f"#L{link['line']} ", f"#L{nearest} ")

    return LINK.sub(aim, text)


@pytest.mark.parametrize("document", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_links_quote_their_lines(document: Path) -> None:
    text = document.read_text("utf-8")
    assert len(TO_CODE.findall(text)) == len(LINK.findall(text)), "a link to a line without its code or its function"
    assert not wrong_links(text), "run python tests/docs/test_docs_maths.py --fix"


def test_a_wrong_link_is_found_and_mended() -> None:
    text = '[`d_h_next = d_a[t] @ W_hh.T`](../src/elman/maths/cell.py#L1 "rnn_backward")'
    assert len(wrong_links(text)) == 1
    assert not wrong_links(aimed(text))
    for other in (text.replace("rnn_backward", "rnn_forward"), text.replace(".T`", "`"), text.replace("cell", "none")):
        assert len(wrong_links(other)) == 1
    elsewhere = aimed(text).replace("rnn_backward", "rnn_forward")
    assert len(wrong_links(elsewhere)) == 1


@pytest.fixture(scope="module")
def maths_md() -> str:
    return (DOCS / "maths.md").read_text("utf-8")


@pytest.fixture(scope="module")
def numbers() -> dict[str, float]:
    return mistakes.numbers()


def test_numbers_are_those_of_the_script(maths_md: str, numbers: dict[str, float]) -> None:
    shown = {match["id"]: float(match["number"]) for match in mistakes.NUMBER.finditer(maths_md)}
    assert shown.keys() == numbers.keys()
    for name, value in numbers.items():
        assert shown[name] == pytest.approx(value, rel=0.01, abs=0), name


def test_bounds_hold(maths_md: str) -> None:
    bounds = {match["id"]: float(match["number"]) for match in BOUND.finditer(maths_md)}
    below, above = mistakes.below(), mistakes.above()
    assert bounds.keys() == {f"below:{name}" for name in below} | {f"above:{name}" for name in above}
    assert all(value < bounds[f"below:{name}"] for name, value in below.items()), below
    assert all(value > bounds[f"above:{name}"] for name, value in above.items()), above


def test_every_listed_mistake_has_a_row_with_a_number(maths_md: str) -> None:
    for note, names in LISTED.items():
        rows = [line for line in maths_md.splitlines() if line.startswith(f"| {note} |")]
        assert len(rows) == len(names.split())
        for name, row in zip(names.split(), rows, strict=True):
            assert re.search(rf"<!-- (above:)?{note}-{name} -->", row)
            assert row.count(" | ") == 3, "note, what it says, what is right, the number"


def test_what_the_table_claims(numbers: dict[str, float]) -> None:
    n = numbers
    assert n["001-trained-right"] < n["001-frozen"] < 1, "the document says that note 001's rules end above 2"
    assert n["clip-explodes-clipped"] < n["clip-explodes-loss"] < n["clip-explodes-plain"]
    assert n["clip-vanishes-first-clipped"] == n["clip-vanishes-first"]


if __name__ == "__main__" and "--fix" in sys.argv:
    for document in sorted(DOCS.glob("*.md")):
        document.write_text(aimed(document.read_text("utf-8")), encoding="utf-8")
        print("\n".join([document.name, *wrong_links(document.read_text("utf-8"))]))
