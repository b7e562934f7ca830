"""elman compile: the commands that follow compile nothing. Real processes with a kernel cache of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from elman.cli import compile_
from elman.kernels import compile as compiling


def call(*words, cache):
    environment = {**os.environ, "ELMAN_CACHE": str(cache), "ELMAN_KERNELS": ""}
    done = subprocess.run(
        [sys.executable, "-m", "elman", *map(str, words)],
        env=environment, cwd=cache, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {path.name for path in (cache / "kernels").glob("*/*.kernel")}


def test_the_reference_kernels_are_not_compiled(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "elman", "compile"],
        env={**os.environ, "ELMAN_CACHE": str(tmp_path), "ELMAN_KERNELS": "reference"},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "elman: ELMAN_KERNELS: expected compiled or unset, got reference. Unset it to compile.\n"


@pytest.mark.skipif(bool(compiling.UNUSED), reason="nothing can be kept on this machine")
def test_kernels_that_cannot_be_saved_are_a_failure_with_a_reason(elman, monkeypatch, tmp_path):
    monkeypatch.setattr("elman.kernels.KERNELS", "compiled")
    monkeypatch.setattr(compiling, "FOLDER", tmp_path / "missing")
    monkeypatch.setattr(compiling.KernelCache, "_warned", False)
    monkeypatch.setattr(compile_, "_run_tiny_model", lambda task, cell: compiling.kernel(lambda a: a + 1)(1))
    status, out, err = elman("compile", "--task", "lm", "--cell", "rnn")
    assert (status, err) == (1, "")
    assert "not all kernels are cached. Compiled kernels cannot be saved in" in " ".join(out.split())
    assert out.endswith("No such file or directory.\n")


@pytest.mark.nightly
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_training_and_sampling_compile_nothing_after_elman_compile(cell, text, tmp_path):
    before = call("compile", "--cell", cell, "--task", "lm", cache=tmp_path)
    assert any(".backward-" in name for name in before)
    call("train", text.resolve(), "--cell", cell, "--steps", 3, "--out", "run", cache=tmp_path)
    call("eval", "run", cache=tmp_path)
    assert call("sample", "run", "--length", 5, "--top-k", 3, cache=tmp_path) == before


@pytest.mark.nightly
def test_every_task_has_its_kernels_compiled(tmp_path):
    before = call("compile", "--cell", "gru", cache=tmp_path)
    (tmp_path / "pairs.tsv").write_text("ab\tba\nabc\tcba\n" * 40, encoding="utf-8")
    (tmp_path / "sentences.tsv").write_text("a b\tx\nb a c\ty\n" * 40, encoding="utf-8")
    words = "".join(f"{'ab' * n}\t{'ba' * n}\n" for n in range(1, 41))
    (tmp_path / "words.tsv").write_text(words, encoding="utf-8")
    for task, data in (("classify", "pairs"), ("classify", "sentences"), ("generate", "pairs"), ("translate", "words")):
        out = f"{task}-{data}"
        call("train", f"{data}.tsv", "--task", task, "--cell", "gru", "--steps", 3, "--out", out, cache=tmp_path)
        call("eval", out, cache=tmp_path)
    assert call("predict", "translate-words", "--beam", 2, "words.tsv", cache=tmp_path) == before
