"""The house: the order of its rooms is the design's and is kept, and tests are no benchmarks."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src" / "elman").rglob("*.py"))
# a room imports only from those before it: design, section 2
ROOMS = tuple("errors files config maths kernels network data training models look exchange serve cli".split())  # noqa: SIM905


def imported(path: Path) -> list[str]:
    """The modules that a file imports, wherever in it."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names.append("." * node.level + (node.module or ""))
    return names


def shown(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_contract_s_order_is_the_design_s():
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    rooms = [re.sub(r"[()\s]", "", layer) for layer in contract["layers"]]
    assert contract["type"] == "layers"
    assert contract["containers"] == ["elman"]
    assert contract["exhaustive"] is True  # a new room must say where it stands
    assert contract["exhaustive_ignores"] == ["__main__"]
    assert tuple(rooms) == ROOMS[::-1]


def test_there_are_no_other_rooms():
    packages = {path.parent.name for path in (ROOT / "src" / "elman").glob("*/__init__.py")}
    modules = {path.stem for path in (ROOT / "src" / "elman").glob("*.py")} - {"__init__", "__main__"}
    assert packages | modules <= set(ROOMS)


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    script = "from importlinter.cli import lint_imports_command; lint_imports_command(['--no-cache'])"
    return subprocess.run(
        [sys.executable, "-P", "-c", script],
        check=False,
        cwd=folder,
        env={"PYTHONPATH": str(folder / "src"), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    pytest.importorskip("importlinter")
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_rooms_as_they_are_keep_the_order(copy):
    done = lint(copy)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("module", "line"), [
    ("maths/cells/rnn.py", "from elman.kernels import update"),
    ("errors.py", "import elman.config"),
    ("training/events.py", "def late():\n    from elman.models import LanguageModel"),
])  # fmt: skip
def test_a_wrong_import_is_found(copy, module, line):
    path = copy / "src" / "elman" / module
    path.write_text(path.read_text() + f"\n{line}\n")
    done = lint(copy)
    assert done.returncode == 1
    assert "BROKEN" in done.stdout


def test_a_room_without_a_place_is_found(copy):
    (copy / "src" / "elman" / "cellar.py").write_text("")
    assert lint(copy).returncode == 1


@pytest.mark.parametrize("path", SOURCES, ids=shown)
def test_no_module_imports_the_root_or_by_dots(path):
    """The root's lazy names would hide which room is used."""
    wrong = [name for name in imported(path) if name == "elman" or name.startswith(".")]
    assert not wrong


@pytest.mark.parametrize("path", SOURCES, ids=shown)
def test_every_module_says_what_it_is_for(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_pickle_is_only_in_the_kernel_cache():
    modules = {name.split(".")[0] for path in SOURCES for name in imported(path)}
    # Numba keeps compiled code as pickles; kernels/compile.py reads them only where nobody else can have written them
    assert {path.name for path in SOURCES if "pickle" in imported(path)} == {"compile.py"}
    assert not modules & {"cPickle", "dill", "joblib", "shelve", "marshal", "jax", "pandas"}
    # PyTorch's own files are opened by PyTorch, and by one module, which is told to load weights only
    assert {path.name for path in SOURCES if "torch" in imported(path)} == {"torch_pt.py"}


def test_benchmarks_are_no_tests():
    for path in sorted((ROOT / "tests").rglob("*.py")):
        assert not {"pytest_benchmark", "timeit"} & {name.split(".")[0] for name in imported(path)}, path
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert settings["tool"]["pytest"]["ini_options"]["testpaths"] == ["tests"]
    assert not list((ROOT / "benchmarks").rglob("test_*.py"))


def test_test_files_have_names_of_their_own():
    """They are imported by their bare names."""
    names = [path.name for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py"]
    assert len(set(names)) == len(names)
    assert not list((ROOT / "tests").rglob("__init__.py"))
