"""docs/shapes.md and docs/lab.md: the Python in them runs; the diagrams are those of their script."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
DIAGRAMS = runpy.run_path(str(DOCS / "figures" / "diagrams.py"))["DIAGRAMS"]


@pytest.mark.parametrize("page", ["shapes.md", "lab.md"])
def test_the_python_of_a_page_runs(page, capsys):
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text("utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), {"__name__": "page"})
    if page == "lab.md":
        assert "1 − h² is missing" in capsys.readouterr().out


@pytest.mark.parametrize("name", DIAGRAMS)
def test_a_diagram_is_what_its_script_draws_and_has_colors_for_dark(name):
    drawn = DIAGRAMS[name]()
    assert (DOCS / "figures" / f"{name}.svg").read_text("utf-8") == drawn, "run python docs/figures/diagrams.py"
    root = ElementTree.fromstring(drawn)
    assert "prefers-color-scheme: dark" in drawn
    _, _, width, height = (float(n) for n in root.attrib["viewBox"].split())
    for text in root.iter("{http://www.w3.org/2000/svg}text"):
        assert 0 < float(text.attrib["x"]) < width
        assert 0 < float(text.attrib["y"]) < height
