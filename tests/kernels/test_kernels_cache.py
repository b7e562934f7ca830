"""Which code runs: compiled or not, for which vectors, and never what was compiled from other sources."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from kernels_tools import output_of, python

from elman.kernels import compile as compiling

HERE = Path(__file__).parent
SOURCES = sorted(path.name for path in Path(compiling.__file__).parent.glob("*.py"))

# the folder's name, whether it is used, and a kernel's result: 1 + 1 where nothing was changed
SCATTER = """
import numpy as np
from elman.kernels import layers
from elman.kernels.compile import CACHED, FOLDER
W = layers.embedding_backward(np.ones((2, 3)), np.zeros(2, int), np.zeros((1, 3)))
print(FOLDER.name, CACHED, W[0, 0], sum(layers.scatter.stats.cache_hits.values()), layers.__file__)
"""


# the name of the folder


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A copy of the kernels' sources, from which the key is made."""
    folder = tmp_path / "kernels"
    shutil.copytree(Path(compiling.__file__).parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(compiling, "__file__", str(folder / "compile.py"))
    return folder


def test_the_key_is_a_function_of_the_sources(sources):
    key = compiling.cache_key()
    assert key == compiling.cache_key() == compiling.FOLDER.name


@pytest.mark.parametrize("name", SOURCES)
def test_an_edit_in_any_source_changes_the_key(name, sources):
    key = compiling.cache_key()
    with (sources / name).open("a", encoding="utf-8") as file:
        file.write("\n")
    assert compiling.cache_key() != key


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [
        (compiling.numba, "__version__", "0.0.1"),
        (compiling, "VECTOR_BYTES", 8),
        (compiling.numba.config, "BOUNDSCHECK", 17),
        (compiling, "FASTMATH", {"fast"}),
        (compiling.sys, "version", "4.0"),
        (compiling.binding, "get_host_cpu_name", lambda: "another"),
    ],
)
def test_whatever_else_the_code_depends_on_changes_the_key(owner, name, value, monkeypatch):
    key = compiling.cache_key()
    monkeypatch.setattr(owner, name, value)
    assert compiling.cache_key() != key


@pytest.mark.parametrize("variable", ["ELMAN_VECTOR_BYTES", "NUMBA_BOUNDSCHECK"])
def test_flags_from_the_environment_have_a_folder_of_their_own(variable, tmp_path):
    code = "from elman.kernels.compile import FOLDER; print(FOLDER)"
    folders = {
        output_of(code, **{variable: value}, ELMAN_CACHE=tmp_path)
        for value in ((16, 32, 64) if variable == "ELMAN_VECTOR_BYTES" else (0, 1))
    }
    assert len(folders) == (3 if variable == "ELMAN_VECTOR_BYTES" else 2)
    assert all(Path(folder).is_relative_to(tmp_path) for folder in folders)


# what runs


def test_an_edit_in_a_callee_runs_and_taking_it_back_runs_the_old_code_from_the_cache(tmp_path):
    package = tmp_path / "src" / "elman"
    shutil.copytree(Path(compiling.__file__).parents[1], package, ignore=shutil.ignore_patterns("__pycache__"))
    steps, line = package / "kernels" / "steps.py", "to[j] += row[j]"
    text = steps.read_text(encoding="utf-8")
    assert text.count(line) == 1

    def run():
        environment = {"PYTHONPATH": package.parent, "ELMAN_CACHE": tmp_path / "cache", "PYTHONDONTWRITEBYTECODE": 1}
        folder, cached, result, hits, file = output_of(SCATTER, **environment).split()
        assert Path(file).is_relative_to(tmp_path)
        assert cached == "True"
        return folder, float(result), int(hits)

    first = run()
    assert first[1:] == (2, 0)
    assert run() == (first[0], 2, 1), "the second run compiles nothing"
    steps.write_text(text.replace(line, "to[j] += 3 * row[j]"), encoding="utf-8")
    edited = run()
    assert edited[0] != first[0]
    assert edited[1:] == (6, 0)
    steps.write_text(text, encoding="utf-8")
    assert run()[:2] == (first[0], 2)


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path):
    """A file where the folder should be: chmod would not stop root."""
    (tmp_path / "file").write_text("")
    _, cached, result, *_ = output_of(SCATTER, ELMAN_CACHE=tmp_path / "file").split()
    assert (cached, float(result)) == ("False", 2)


@pytest.mark.skipif("not hasattr(__import__('os'), 'geteuid') or __import__('os').geteuid() == 0")
def test_a_folder_that_may_not_be_written_is_done_without(tmp_path):
    tmp_path.chmod(0o500)
    _, cached, result, *_ = output_of(SCATTER, ELMAN_CACHE=tmp_path).split()
    assert (cached, float(result)) == ("False", 2)


REFERENCE = """
import sys
import numpy as np
import elman, elman.kernels, elman.network, elman.models, elman.training
from elman.network import Network
n = Network(5, 7, 2, 5)
p = n.initial(np.random.default_rng(0), recurrent="orthogonal", gain=1, input_gain=1, dtype=np.float32)
x = np.zeros((3, 4), int)
n.loss_and_gradients(p, x, x, n.zero_state(4, np.float32), p.zeros(), normaliser=1)
n.forward(p, x, n.zero_state(4, np.float32))
print(elman.kernels.KERNELS, elman.kernels.rnn_forward.__module__, "numba" in sys.modules, "llvmlite" in sys.modules)
"""


def test_the_reference_never_imports_numba():
    assert output_of(REFERENCE, ELMAN_KERNELS="reference") == "reference elman.maths.cell False False"


def test_the_compiled_engine_is_compiled():
    assert output_of(REFERENCE, ELMAN_KERNELS="compiled") == "compiled elman.kernels.cell True True"


def test_an_engine_that_does_not_exist():
    done = python("import elman.kernels", ELMAN_KERNELS="nonsense")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "ELMAN_KERNELS" in last
    assert "compiled or reference" in last
    assert "'nonsense'" in last


# every width that LLVM can lower to what this CPU has; its own one runs in all other tests


@pytest.mark.parametrize("width", [16, *(pytest.param(width, marks=pytest.mark.nightly) for width in (32, 64))])
def test_vectors_of_any_width(width):
    code = (HERE / "kernels_width_check.py").read_text(encoding="utf-8")
    environment = {"ELMAN_VECTOR_BYTES": width, "PYTHONPATH": HERE}
    assert output_of(code, width, **environment).splitlines()[-1] == "fine"
