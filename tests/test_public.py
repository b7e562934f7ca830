"""The public names: all there, loaded when they are first used, and the package itself light."""

from __future__ import annotations

import subprocess
import sys

import pytest

import elman

HEAVY = ("numba", "llvmlite", "scipy", "sklearn", "plotly", "safetensors", "pooch", "rich", "requests")


def python(script: str) -> str:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script], check=True, capture_output=True, text=True, timeout=120
    ).stdout


def loaded_by(script: str) -> set[str]:
    return set(python(f"import sys\nbefore = set(sys.modules)\n{script}\nprint(*(set(sys.modules) - before))").split())


def test_importing_the_package_imports_nothing_else_of_weight():
    loaded = loaded_by("import elman")
    assert {name for name in loaded if name.startswith("elman")} == {"elman"}
    assert not loaded & {"numpy", *HEAVY}


def test_looking_at_it_does_not_load_it():
    loaded = loaded_by("import elman; dir(elman); elman.__all__; elman.__version__; hasattr(elman, 'nonsense')")
    assert not loaded & {"numpy", *HEAVY}


@pytest.mark.parametrize("name", elman.__all__)
def test_every_public_name_is_there_alone_and_in_a_star(name):
    assert getattr(elman, name) is not None
    assert name in dir(elman)
    scope: dict[str, object] = {}
    exec("from elman import *", scope)
    assert scope[name] is getattr(elman, name)


def test_no_name_is_listed_twice():
    assert len(set(elman.__all__)) == len(elman.__all__)


def test_every_public_class_and_function_has_a_docstring():
    for name in set(elman.__all__) - {"__version__"}:
        assert getattr(elman, name).__doc__, name


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'elman' has no attribute 'nonsense'"):
        elman.nonsense  # noqa: B018
    with pytest.raises(ImportError):
        exec("from elman import nonsense")


def test_the_version_is_that_of_the_package():
    from importlib.metadata import version

    assert elman.__version__ == version("elman")


def test_the_language_model_is_public():
    from elman.models import LanguageModel

    assert elman.LanguageModel is LanguageModel


def test_a_name_loads_its_own_room_and_no_other():
    loaded = loaded_by("from elman import ElmanError")
    assert {name for name in loaded if name.startswith("elman")} == {"elman", "elman.errors"}
    assert "elman.models" not in loaded_by("from elman import gradcheck")


def test_a_language_model_is_used_without_scikit_learn_and_the_extras():
    script = """
from elman.models import LanguageModel
model = LanguageModel(hidden=8, steps=1, batch_size=2, window=8).fit("hello " * 30)
model.sample(5)
"""
    assert not loaded_by(script) & {"sklearn", "plotly", "onnx", "tensorboardX", "starlette", "pooch", "rich"}
