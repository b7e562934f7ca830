"""Which code runs: compiled or not, for which vectors, and never code compiled from other sources."""

from __future__ import annotations

import importlib
import os
import runpy
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from kernels_tools import output_of, python

from elman.kernels import compile as compiling
from elman.kernels import layers
from elman.kernels.cells import rnn

HERE = Path(__file__).parent
PACKAGE = Path(compiling.__file__).parent
SOURCES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


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


def test_a_source_in_a_subfolder_changes_the_key(sources):
    key = compiling.cache_key()
    (sources / "cells").mkdir(exist_ok=True)
    (sources / "cells" / "one.py").write_text("a = 1\n")
    with_one = compiling.cache_key()
    (sources / "cells" / "one.py").write_text("a = 2\n")
    assert len({key, with_one, compiling.cache_key()}) == 3


@pytest.mark.parametrize(
    ("owner", "name", "value"),
    [
        (compiling.numba, "__version__", "0.0.1"),
        (compiling, "VECTOR_BYTES", 8),
        (compiling.numba.config, "BOUNDSCHECK", 17),
        (compiling, "FASTMATH", {"fast"}),
        (compiling.sys, "version", "4.0"),
        (compiling.binding, "get_host_cpu_name", lambda: "another"),
        (compiling.numba.config, "CPU_NAME", "another"),
        (compiling.numba.config, "CPU_FEATURES", "+another"),
    ],
)
def test_whatever_else_the_code_depends_on_changes_the_key(owner, name, value, monkeypatch):
    if name == "get_host_cpu_name":  # it is not asked where NUMBA_CPU_NAME names another CPU
        monkeypatch.setattr(compiling.numba.config, "CPU_NAME", None)
    key = compiling.cache_key()
    monkeypatch.setattr(owner, name, value)
    assert compiling.cache_key() != key


def test_flags_from_the_environment_have_a_folder_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setenv("ELMAN_CACHE", str(tmp_path))

    def folder(width):
        monkeypatch.setenv("ELMAN_VECTOR_BYTES", str(width))
        return runpy.run_path(compiling.__file__)["FOLDER"]

    folders = {folder(width) for width in (16, 32, 64)}
    assert len(folders) == 3
    assert all(folder.is_relative_to(tmp_path) for folder in folders)


@pytest.mark.parametrize(
    ("features", "expected"), [("", 16), ("+sse2,-avx2", 16), ("+avx,+avx2,-avx512f", 32), ("+avx2,+avx512f", 64)]
)
def test_the_vector_width_is_that_of_the_cpu_that_numba_compiles_for(features, expected, monkeypatch):
    monkeypatch.delenv("ELMAN_VECTOR_BYTES", raising=False)
    monkeypatch.setattr(compiling.numba.config, "CPU_FEATURES", features)
    assert compiling.vector_bytes() == expected


def test_checked_code_has_a_folder_of_its_own(tmp_path):
    code = "from elman.kernels.compile import FOLDER; print(FOLDER)"  # Numba reads its flags when it is imported
    other = 0 if compiling.numba.config.BOUNDSCHECK else 1
    folder = Path(output_of(code, NUMBA_BOUNDSCHECK=other, ELMAN_CACHE=tmp_path))
    assert folder.is_relative_to(tmp_path)
    assert folder.name != compiling.FOLDER.name


# the code that runs

STEPS = """
from tiny.compile import inline
@inline
def add(to, row):
    to += row
"""
LAYERS = """
from tiny.compile import kernel
from tiny.steps import add
@kernel
def twice(to, row):
    add(to, row)
    add(to, row)
"""
RUN = """
import numpy as np
from tiny.compile import FOLDER, UNUSED
from tiny.layers import twice
to = np.zeros(1)
twice(to, np.ones(1))
print(FOLDER.name, not UNUSED, to[0], sum(twice.stats.cache_hits.values()))
"""


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A package with a small kernel, compiled and kept as ours are."""
    package = tmp_path / "src" / "tiny"
    package.mkdir(parents=True)
    shutil.copy(compiling.__file__, package)
    for name, code in {"__init__": "", "steps": STEPS, "layers": LAYERS}.items():
        (package / f"{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setenv("ELMAN_CACHE", str(tmp_path / "cache"))
    yield package
    forget_tiny()


def forget_tiny():
    for name in [name for name in sys.modules if name.split(".")[0] == "tiny"]:
        del sys.modules[name]
    importlib.invalidate_caches()


def run_anew(capsys):
    """All modules of the package imported anew: folder, whether it is used, a result, what came from the cache."""
    forget_tiny()
    exec(RUN, {})
    return parsed(capsys.readouterr().out)


def parsed(output):
    folder, cached, result, hits = output.split()
    return folder, cached == "True", float(result), int(hits)


def test_an_edit_in_a_callee_runs_and_taking_it_back_runs_the_old_code_from_the_cache(tiny, capsys):
    steps, line = tiny / "steps.py", "to += row"
    folder, *first = run_anew(capsys)
    assert first == [True, 2, 0]
    in_a_process = output_of(RUN, PYTHONPATH=tiny.parent, PYTHONDONTWRITEBYTECODE=1)
    assert parsed(in_a_process) == (folder, True, 2, 1), "the second run compiles nothing"
    steps.write_text(STEPS.replace(line, "to -= row"), encoding="utf-8")
    other, *edited = run_anew(capsys)
    assert other != folder
    assert edited == [True, -2, 0]
    steps.write_text(STEPS, encoding="utf-8")
    assert run_anew(capsys) == (folder, True, 2, 1)


FACTORY = """
from tiny.compile import inline, kernel
def made(step, factor):
    @kernel
    def twice(to, row):
        step(to, row)
        to *= factor
    return twice
@inline
def add(to, row):
    to += row
@inline
def subtract(to, row):
    to -= row
"""


def test_kernels_of_one_factory_are_kept_apart(tiny):
    (tiny / "factory.py").write_text(FACTORY, encoding="utf-8")
    for hits in (0, 1):
        forget_tiny()
        factory = importlib.import_module("tiny.factory")
        for step, factor, expected in ((factory.add, 2, 2), (factory.subtract, 2, -2), (factory.add, 3, 3)):
            kernel, to = factory.made(step, factor), np.zeros(1)
            kernel(to, np.ones(1))
            assert (to[0], sum(kernel.stats.cache_hits.values())) == (expected, hits)


# problems with the folder

POWERLESS = """
import ctypes, os, sys
if sys.platform == "linux" and os.geteuid() == 0:  # root may write everywhere, unless it gives up its capabilities
    assert ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()) == 0
"""
FULL = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))  # bytes that a file may have
"""
posix = pytest.mark.skipif(sys.platform == "win32", reason="owner and mode are POSIX")


def run_tiny(tiny, before):
    """In a process of its own: whether the folder is used, the result, hits; and what was said."""
    done = python(before + RUN, PYTHONPATH=tiny.parent, PYTHONDONTWRITEBYTECODE=1)
    assert done.returncode == 0, done.stderr
    return parsed(done.stdout)[1:], done.stderr


@pytest.fixture
def kept(tiny, capsys):
    """The one file of the small kernel."""
    assert run_anew(capsys)[1:] == (True, 2, 0)
    (kept,) = (tiny.parents[1] / "cache").rglob("*twice*")
    return kept


def cut(content):
    return content[: len(content) // 2]


def flipped(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize("damage", [cut, flipped, lambda _: b"", lambda _: bytes(5000)])
def test_a_damaged_file_is_compiled_again_and_replaced(damage, kept, capsys):
    kept.write_bytes(damage(kept.read_bytes()))
    assert run_anew(capsys)[1:] == (True, 2, 0)
    assert run_anew(capsys)[1:] == (True, 2, 1)


@posix
def test_a_full_disk_causes_a_note_and_nothing_else(tiny):
    used, said = run_tiny(tiny, FULL)
    assert used == (True, 2, 0)
    assert said.count("\n") == 1
    assert "cannot be saved" in said
    assert "File too large" in said
    assert not list((tiny.parents[1] / "cache").rglob("*twice*")), "half a file was left"


@posix
@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_a_folder_that_others_can_write_is_not_used(mode, kept, capsys):
    kept.parent.chmod(mode)
    assert run_anew(capsys)[1:] == (False, 2, 0)


@posix
@pytest.mark.parametrize("mode", [0o664, 0o646])
def test_a_file_that_others_can_write_is_not_read(mode, kept, capsys):
    kept.chmod(mode)
    assert run_anew(capsys)[1:] == (True, 2, 0)
    assert not kept.stat().st_mode & 0o022, "it was replaced"


@pytest.mark.skipif("not hasattr(__import__('os'), 'geteuid') or __import__('os').geteuid() != 0")
@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_belongs_to_another_user_is_not_used(what, kept, capsys):
    os.chown(kept.parent if what == "folder" else kept, 12345, -1)
    assert run_anew(capsys)[1:] == (what == "file", 2, 0)


@posix
def test_a_folder_made_with_a_loose_umask_is_used(tiny, capsys):
    before = os.umask(0o002)
    try:
        assert run_anew(capsys)[1:] == (True, 2, 0)
        assert run_anew(capsys)[1:] == (True, 2, 1)
    finally:
        os.umask(before)


@posix
def test_a_folder_that_can_only_be_read_is_read(tiny, kept):
    kept.parent.chmod(0o555)
    assert run_tiny(tiny, POWERLESS) == ((True, 2, 1), "")
    kept.write_bytes(cut(kept.read_bytes()))  # the file, though not its folder, can be written
    used, said = run_tiny(tiny, POWERLESS)
    assert used == (True, 2, 0)
    assert said.count("\n") == 1
    assert "cannot be saved" in said


@pytest.mark.skipif(bool(compiling.UNUSED), reason="nothing can be kept on this machine")
def test_our_own_kernels_are_kept_in_that_folder():
    assert all(made.stats.cache_path == str(compiling.FOLDER) for made in (rnn.KERNELS.forward, layers.scatter))


SCATTER = """
import numpy as np
from elman.kernels import layers
from elman.kernels.compile import UNUSED
W = layers.embedding_backward(np.ones((2, 3)), np.zeros(2, int), np.zeros((1, 3)))
print(not UNUSED, W[0, 0], layers.scatter.stats.cache_path)
"""


def test_a_cache_that_cannot_be_written_is_not_used(tmp_path):
    """A file where the folder should be: chmod would not stop root."""
    (tmp_path / "file").write_text("")
    assert output_of(SCATTER, ELMAN_CACHE=tmp_path / "file") == "False 2.0 None"


@posix
def test_a_folder_without_write_permission_is_not_used(tiny, tmp_path, monkeypatch):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    monkeypatch.setenv("ELMAN_CACHE", str(closed))
    assert run_tiny(tiny, POWERLESS) == ((False, 2, 0), "")


REFERENCE = """
import sys
import numpy as np
import elman, elman.kernels, elman.network, elman.models, elman.training
from elman.network import Batch, language_network
n = language_network(5, 7, 2)
p = n.initial(np.random.default_rng(0), recurrent="orthogonal", gain=1, token_scale=1, dtype=np.float32)
x = np.zeros((3, 4), int)
n.loss_and_gradients(p, Batch(x, x), p.zeros(), normalizer=1)
n.read(n.pack(p), x, n.stack.zero_state(4, np.float32))
print(elman.kernels.KERNELS, elman.kernels.cell_forward.__module__, "numba" in sys.modules, "llvmlite" in sys.modules)
"""


def test_the_reference_never_imports_numba():
    assert output_of(REFERENCE, ELMAN_KERNELS="reference") == "reference elman.maths.recurrence False False"


def test_the_compiled_engine_is_compiled():
    assert output_of(REFERENCE, ELMAN_KERNELS="compiled") == "compiled elman.kernels.recurrence True True"


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
    """The narrowest without fused multiply-add: a row's bits must not depend on its neighbors there either."""
    code = (HERE / "kernels_width_check.py").read_text(encoding="utf-8")
    plain = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "ELMAN_VECTOR_BYTES": None}
    environment = plain if width == 16 else {"ELMAN_VECTOR_BYTES": width}
    assert output_of(code, width, PYTHONPATH=HERE, **environment).splitlines()[-1] == "fine"
