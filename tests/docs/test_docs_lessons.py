"""docs/lessons: every script runs, and its page quotes what it prints.

    python tests/docs/test_docs_lessons.py --fix      after an edit of the code: quote it again

Scripts run on quick settings: what takes long training ("trained …", and all of the lesson on the novel) is then
compared by its words, everything else by its numbers too.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from functools import cache
from pathlib import Path

import pytest
from test_docs_maths import LINK, TO_CODE, fixed, stale_links

from elman import kernels  # noqa: F401 - before a test has a cache of its own, which holds no compiled kernels
from elman.data import find_source
from elman.errors import DataError

LESSONS = Path(__file__).resolve().parents[2] / "docs" / "lessons"
PAGES = sorted(LESSONS.glob("[0-9]-*.md"))
NOVEL = "7-a-unit"
PRINTED = re.compile(r"<!-- printed -->\n```\n(.*?)```\n", re.DOTALL)
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[-+]\d+)?")
EXACT = re.compile(r"(?<![\w.])\d+\.\d{2,}|\d(?:\.\d+)?e[-+]\d+")  # what a sentence can only have from the script


@cache
def script(name):
    sys.path.insert(0, str(LESSONS))
    spec = importlib.util.spec_from_file_location(name.replace("-", "_"), LESSONS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def result(request, monkeypatch, tmp_path):
    monkeypatch.setenv("ELMAN_CACHE", str(tmp_path))
    if request.param == NOVEL:
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")  # no test waits for a download
        try:
            find_source("pride-and-prejudice")
        except DataError:
            pytest.skip("no pride-and-prejudice.txt: set ELMAN_DATA to a folder that has it")
    return request.param, script(request.param).lesson(quick=True)


def words(line):
    return re.sub(r"#(, #)+", "#", re.sub(r"\s+", " ", NUMBER.sub("#", line))).strip()


def numbers(line):
    return [float(number.replace(",", "")) for number in NUMBER.findall(line)]


def printed(name):
    return PRINTED.search((LESSONS / f"{name}.md").read_text("utf-8"))[1].splitlines()


@pytest.mark.parametrize("result", [page.stem for page in PAGES], indirect=True)
def test_a_page_quotes_what_its_script_prints(result):
    name, (lines, figure) = result
    quoted = printed(name)
    trained, long = ([line for line in some if line.startswith("trained") or name == NOVEL] for some in (lines, quoted))
    measured = [line for line in lines if line not in trained]
    assert [words(line) for line in quoted if line not in long] == [words(line) for line in measured]
    for line, page_line in zip(measured, quoted, strict=False):
        assert numbers(page_line) == pytest.approx(numbers(line), rel=0.06, abs=1e-3 if "e-" not in line else 0), line
    if name == NOVEL:
        features = [line[:28].strip() for line in quoted[1:-1]]
        assert len(lines) > 8
        assert {line[:28].strip() for line in lines[1:-1]} <= set(features) | {"inside parentheses", "a digit"}
        assert words(lines[-1]).replace("None", "#") == words(quoted[-1])
    else:
        assert {words(line) for line in trained} <= {words(line) for line in quoted}
    assert figure.startswith("<svg")
    assert figure.count("<polyline") >= 2 or name == NOVEL


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_sentences_take_their_numbers_from_the_script(page):
    prose = PRINTED.sub("", page.read_text("utf-8")).split("```python")[0]
    prose = LINK.sub("", prose)
    block = "\n".join(printed(page.stem))
    assert [number for number in EXACT.findall(prose) if number not in block] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_shows_its_figure_and_links_what_is_there(page):
    text = page.read_text("utf-8")
    figure = f"figures/{page.stem}.svg"
    assert f"]({figure})" in text
    assert (LESSONS / figure).read_text("utf-8").startswith("<svg")
    assert f"]({page.stem}.py)" in text
    for target in re.findall(r"\]\(([^)\s#]+)", text):
        assert (LESSONS / target).exists(), target
    assert len(TO_CODE.findall(text)) == len(LINK.findall(text))
    assert not stale_links(text, LESSONS), "run python tests/docs/test_docs_lessons.py --fix"


def test_the_index_names_every_lesson():
    index = (LESSONS / "README.md").read_text("utf-8")
    assert len(PAGES) == 9
    for page in PAGES:
        assert f"({page.name})" in index


if __name__ == "__main__" and "--fix" in sys.argv:
    for document in PAGES:
        document.write_text(fixed(document.read_text("utf-8"), LESSONS), encoding="utf-8")
        print("\n".join([document.name, *stale_links(document.read_text("utf-8"), LESSONS)]))
