"""The command in this process: each test in an empty folder of its own, with its own cache and no network."""

from __future__ import annotations

import io
import shutil
import types
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from cli_text import TEXT

from elman.cli import main
from elman.models import LanguageModel


class Result(NamedTuple):
    status: int
    out: str
    err: str


Elman = Callable[..., Result]


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("ELMAN_CACHE", str(tmp_path / "the-cache"))
    monkeypatch.delenv("ELMAN_DATA", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("ELMAN_KERNELS", "reference")  # a process with a new cache would compile for 15 seconds
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # no server listens there
    return folder


@pytest.fixture
def elman(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Elman:
    def run(*words: object, stdin: bytes = b"") -> Result:
        monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(stdin)))
        with pytest.raises(SystemExit) as caught:
            main([str(word) for word in words])
        assert isinstance(caught.value.code, int)
        out, err = capsys.readouterr()
        # on a machine without compiled kernels, the first test sees the notice
        lines = [line for line in err.splitlines(keepends=True) if not line.startswith("Compiling")]
        return Result(caught.value.code, out, "".join(lines))

    return run


@pytest.fixture
def text() -> Path:
    Path("cat.txt").write_text(TEXT)
    return Path("cat.txt")


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, made once."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "cat.txt").write_text(TEXT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ELMAN_CACHE", str(folder / "cache"))
        options = {"hidden": 16, "batch_size": 4, "window": 16, "steps": 40, "warmup_steps": 0, "learning_rate": 0.02,
                   "embedding": 0}  # fmt: skip
        LanguageModel(**options, validate_every=20, log_every=5).fit(folder / "cat.txt", out=folder / "run")
    return folder / "run"


@pytest.fixture
def run(trained: Path) -> Path:
    """A copy of the run that a test may change."""
    shutil.copytree(trained, "run")
    return Path("run")
