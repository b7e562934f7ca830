"""The code in docs/logging.md is run as it stands, with fakes in place of the services that it logs to."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import elman.kernels  # noqa: F401 - now, while the cache is the one that holds compiled kernels
from elman.training import events
from elman.training.run import Run

DOCUMENT = (Path(__file__).parents[2] / "docs" / "logging.md").read_text("utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", DOCUMENT, re.DOTALL | re.MULTILINE)
TEXT = "The cat sat on the mat, and the dog sat on the log. Who sat on the cat?\n" * 60


class Service(types.ModuleType):
    """Notes every call; of the real service it knows the names that it was made with, and no other."""

    def __init__(self, name: str, *functions: str) -> None:
        super().__init__(name)
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        for function in functions:
            setattr(self, function, self._noting(function))

    def _noting(self, function: str) -> Any:
        return lambda *args, **options: self.calls.append((function, args, options))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ELMAN_CACHE", str(tmp_path / "the-cache"))
    (tmp_path / "novel.txt").write_text(TEXT)
    return tmp_path


def rows(run: Path) -> list[dict[str, Any]]:
    return [row for row in Run(run).metrics() if "event" not in row]


def test_weights_and_biases(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = Service("wandb", "init", "log", "finish")
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    exec(BLOCKS[0], {})
    (first, *logged, last) = wandb.calls
    assert (first[0], first[2]["name"], last[0]) == ("init", "novel", "finish")
    assert len(logged) > 0
    for (name, (values,), options), row in zip(logged, rows(here / "runs" / "novel"), strict=True):
        assert (name, options) == ("log", {"step": row["step"]})
        assert values == {key: row[key] for key in values}
        assert ("validation_loss" in values) == (row["validation_loss"] is not None)
        assert len(values) >= 4


def test_mlflow(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = Service("mlflow", "start_run", "log_metric", "log_text", "end_run")
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    exec(BLOCKS[1], {})
    assert (mlflow.calls[0], mlflow.calls[-1]) == (
        ("start_run", (), {"run_name": "novel"}),
        ("end_run", ("FINISHED",), {}),
    )
    noted = rows(here / "runs" / "novel")
    expected: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
    for row in noted:
        for name in ("loss", "validation_loss"):
            if row[name] is not None:
                expected.append(("log_metric", (name, row[name]), {"step": row["step"]}))
        if "sample" in row:
            expected.append(("log_text", (row["sample"], f"samples/{row['step']}.txt"), {}))
    assert mlflow.calls[1:-1] == expected
    assert any(name == "log_text" for name, _, _ in expected)


def test_the_page_names_every_kind_of_event() -> None:
    assert len(BLOCKS) == 2
    assert all(len(block.splitlines()) <= 25 for block in BLOCKS)
    for kind in events.Event.__args__:
        assert f"`{kind.__name__}`" in DOCUMENT
