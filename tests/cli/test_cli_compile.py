"""elman compile: the commands that follow compile nothing. Real processes with a kernel cache of their own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


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


@pytest.mark.nightly
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_training_and_sampling_compile_nothing_after_elman_compile(cell, text, tmp_path):
    before = call("compile", "--cell", cell, "--task", "lm", cache=tmp_path)
    assert any(cell in name for name in before)
    call("train", text.resolve(), "--cell", cell, "--steps", 3, "--out", "run", cache=tmp_path)
    call("eval", "run", cache=tmp_path)
    assert call("sample", "run", "--length", 5, "--top-k", 3, cache=tmp_path) == before


@pytest.mark.nightly
def test_every_task_has_its_kernels_compiled(tmp_path):
    before = call("compile", "--cell", "gru", cache=tmp_path)
    (tmp_path / "pairs.tsv").write_text("ab\tba\nabc\tcba\n" * 40, encoding="utf-8")
    for task in ("classify", "generate", "translate"):
        call("train", "pairs.tsv", "--task", task, "--cell", "gru", "--steps", 3, "--out", task, cache=tmp_path)
        call("eval", task, cache=tmp_path)
    assert call("predict", "translate", "--beam", 2, "pairs.tsv", cache=tmp_path) == before
