"""The architecture: packages import in one direction only, pickle stays out, and tests contain no benchmarks."""

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
CONTRACT = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]


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


def test_every_package_has_a_place_in_the_import_order():
    packages = {path.parent.name for path in (ROOT / "src" / "elman").glob("*/__init__.py")}
    modules = {path.stem for path in (ROOT / "src" / "elman").glob("*.py")} - {"__init__", "__main__"}
    assert {re.sub(r"[()\s]", "", layer) for layer in CONTRACT["layers"]} == packages | modules
    assert CONTRACT["exhaustive"] is True  # import-linter refuses a new package without a place
    assert CONTRACT["layers"][-1] == "errors"
    assert CONTRACT["layers"][0] == "cli"


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


def test_the_packages_keep_the_import_order(copy):
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


def test_a_package_without_a_place_is_found(copy):
    (copy / "src" / "elman" / "cellar.py").write_text("")
    assert lint(copy).returncode == 1


@pytest.mark.parametrize("path", [path for path in SOURCES if path != ROOT / "src/elman/__init__.py"], ids=shown)
def test_no_module_imports_the_root_or_relatively(path):
    """The root's lazy names would hide which package is used."""
    wrong = [name for name in imported(path) if name == "elman" or name.startswith(".")]
    assert not wrong


@pytest.mark.parametrize("path", SOURCES, ids=shown)
def test_every_module_has_a_docstring(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


def test_pickle_is_only_in_the_kernel_cache():
    modules = {name.split(".")[0] for path in SOURCES for name in imported(path)}
    # Numba keeps compiled code as pickles; kernels/compile.py reads them only if nobody else can have written them
    assert {path.name for path in SOURCES if "pickle" in imported(path)} == {"compile.py"}
    assert not modules & {"cPickle", "dill", "joblib", "shelve", "marshal", "jax", "pandas"}
    # PyTorch's own files are opened by PyTorch, in one module, with weights_only=True
    assert {path.name for path in SOURCES if "torch" in imported(path)} == {"pytorch.py"}


def test_the_tests_contain_no_benchmarks():
    for path in sorted((ROOT / "tests").rglob("*.py")):
        assert not {"pytest_benchmark", "timeit"} & {name.split(".")[0] for name in imported(path)}, path
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert settings["tool"]["pytest"]["ini_options"]["testpaths"] == ["tests"]
    assert not list((ROOT / "benchmarks").rglob("test_*.py"))


def test_names_of_test_files_are_unique():
    """They are imported by their bare names."""
    names = [path.name for path in (ROOT / "tests").rglob("*.py") if path.name != "conftest.py"]
    assert len(set(names)) == len(names)
    assert not list((ROOT / "tests").rglob("__init__.py"))
