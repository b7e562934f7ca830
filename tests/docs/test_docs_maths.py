"""docs/*.md quote the line of code that they link to, and the numbers that docs/mistakes.py prints.

    python tests/docs/test_docs_maths.py --fix      after an edit of the code: quote it again

A link is [`code of the line`](path#L57 "function marker"). The function and the marker, which ends the comment of the
line, say which line it is: code and line number are written by --fix.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from elman.lab.mistakes import MISTAKES
from elman.look.equations import equations
from elman.look.source import Marked, marked_lines
from elman.maths.cells import CELLS

DOCS = Path(__file__).resolve().parents[2] / "docs"
sys.path.insert(0, str(DOCS))
import mistakes  # noqa: E402

TO_CODE = re.compile(r"\.py#L\d+")
LINK = re.compile(r"\[`(?P<code>[^`]+)`\]\((?P<path>[^)\s#]+\.py)#L(?P<line>\d+) \"(?P<name>[\w.]+ \w+)\"\)")
BOUND = re.compile(r"(?P<number>[\d.e-]+)<!-- (?P<id>(?:below|above):[\w.-]+) -->")
LISTED = {
    "000": "minus softmax-minus n dropped-p b_o diag x W_xh past g2 entries distance logits",
    "001": "sizes-4 W_xh b_h no-y sum-inside recursion trained",
    "002": "activation products last own-loss one-step layers clip",
    "003": "parse alias s recursion biases z W",
    "004": "x product sum immediate b_h outer depends softmax",
}


def line_of(link: re.Match[str], folder: Path) -> Marked | None:
    """The line that a link names, if there is one."""
    path = folder / link["path"]
    return marked_lines(path.resolve()).get(link["name"]) if path.is_file() else None


def stale_links(text: str, folder: Path = DOCS) -> list[str]:
    wrong = []
    for link in LINK.finditer(text):
        found = line_of(link, folder)
        if found is None or (link["code"], int(link["line"])) != (found.code, found.first):
            wrong.append(f"{link[0]}: {'no line has that marker' if found is None else found}")
    return wrong


def fixed(text: str, folder: Path = DOCS) -> str:
    """The text with the code and the line number of every link as the source has them."""

    def fix(link: re.Match[str]) -> str:
        found = line_of(link, folder)
        return f'[`{found.code}`]({link["path"]}#L{found.first} "{link["name"]}")' if found else link[0]

    return LINK.sub(fix, text)


@pytest.mark.parametrize("document", sorted(DOCS.glob("*.md")), ids=lambda path: path.name)
def test_links_quote_their_lines(document: Path) -> None:
    text = document.read_text("utf-8")
    assert len(TO_CODE.findall(text)) == len(LINK.findall(text)), "a link to a line without its code or its marker"
    assert not stale_links(text), "run python tests/docs/test_docs_maths.py --fix"


def test_a_stale_link_is_found_and_fixed() -> None:
    right = fixed('[`?`](../src/elman/maths/recurrence.py#L1 "cell_backward d_h_next")')
    assert right.startswith("[`d_h_next = step.d_a_h @ W_hh.T`](../src/elman/maths/recurrence.py#L")
    assert not stale_links(right)
    for stale in (right.replace(".T`", "`"), re.sub(r"#L(\d+)", r"#L1\1", right)):
        assert len(stale_links(stale)) == 1
        assert fixed(stale) == right
    for lost in (right.replace('d_h_next"', 'nothing"'), right.replace("recurrence", "none")):
        assert len(stale_links(lost)) == 1
        assert fixed(lost) == lost


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


def test_links_to_other_files_and_sections_lead_somewhere() -> None:
    for document in sorted(DOCS.glob("*.md")):
        text = re.sub(
            r"^```.*?^```", "", document.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
        )  # code has no links
        anchors = {
            re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^#+ (.+)$", text, re.M)
        }
        for path, anchor in re.findall(r"\]\((?!https?:)([^)\s#]*)(?:#([\w-]+))?[^)]*\)", text):
            assert not path or (document.parent / path).exists(), f"{document.name}: {path}"
            assert path or anchor in anchors, f"{document.name}: {anchor}"


def text_and_box(maths_md: str) -> tuple[str, str]:
    """What stands before the section with all equations, and that section."""
    text, _, rest = re.split(r"^## (\d+)\. All equations$", maths_md, flags=re.MULTILINE)
    return text, rest.split("\n## ")[0]


def test_the_lab_s_mistakes_and_the_equations_have_their_place(maths_md: str) -> None:
    sections = {int(number) for number in re.findall(r"^## (\d+)\. ", maths_md, re.MULTILINE)}
    assert {mistake.section for mistake in MISTAKES} <= sections
    _, box = text_and_box(maths_md)
    assert [int(n) for n in re.findall(r"^ ?\((\d+)\)", box, re.MULTILINE)] == list(range(1, 44))


def test_an_equation_number_means_the_same_equation_in_the_text_and_in_the_box(maths_md: str) -> None:
    text, box = text_and_box(maths_md)
    symbol = re.compile(r"(to [hc]\[t\]|\w+)(?:\[[^\]]*\])?(?:, \w)*\s*(?:=|←|:)")
    named: dict[int, set[str]] = {}
    number = 0
    for line in box.splitlines():
        start = re.match(r" ?\((\d+)\)", line)
        number = int(start[1]) if start else number
        named.setdefault(number, set()).update(symbol.findall(line))
    for block in re.findall(r"```\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            if found := re.search(r"\((\d+)\)(?: |$)", line):
                symbols = {name.removesuffix("_i") if name == "y_hat_i" else name for name in symbol.findall(line)}
                assert symbols & named[int(found[1])], line


def test_the_numbers_of_the_steps_are_those_of_the_box(maths_md: str) -> None:
    box = text_and_box(maths_md)[1]
    box = box.replace("to h[t]", "d_h =").replace("to c[t]", "d_c =")
    entries = dict(re.findall(r"^ ?(\(\d+\))(.*?)(?=^ ?\(|\Z)", box, re.MULTILINE | re.DOTALL))
    for cell in CELLS.values():
        for equation in equations(cell()).values():
            name = {"d_h0": "d_h", "d_c0": "d_c", "o_gate": "o"}.get(equation.name, equation.name)
            for number in re.findall(r"\(\d+\)", equation.number)[-1:]:
                assert re.search(rf"\b{name}\b(\[[^\]]*\])?\s*[=←]|\b{name}, |, {name} =", entries[number]), equation


if __name__ == "__main__" and "--fix" in sys.argv:
    for document in sorted(DOCS.glob("*.md")):
        document.write_text(fixed(document.read_text("utf-8")), encoding="utf-8")
        print("\n".join([document.name, *stale_links(document.read_text("utf-8"))]))
