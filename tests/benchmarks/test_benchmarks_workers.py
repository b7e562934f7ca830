"""The benchmark's processes and its command line: they run, nothing is timed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from bench import SMALL, SMALL_GATED, SMALL_TASKS
from crew import Crew, Worker, alternate
from older import UnknownCommit, files_of
from ratios import Turn

ROOT = Path(__file__).parents[2]
PROBLEMS = [("training", size, {"rate": 0.5, "limit": 0.2}) for size in SMALL]
PROBLEMS += [("task", task, {"rate": 0.01, "limit": 0.2}) for task in SMALL_TASKS]


@pytest.fixture
def commit() -> str:
    try:
        files_of("04bc60f")
    except UnknownCommit:
        pytest.skip("needs a git repository with commit 04bc60f")
    return "04bc60f"


def test_adapter_fits_the_elman_of_this_commit():
    gated = [("training", size, {"rate": 0.5, "limit": 0.2}) for size in SMALL_GATED]
    with Worker("numpy", 1) as worker:
        for kind, size, hyper in PROBLEMS + gated:
            losses = worker.ask("losses", kind=kind, size=size, hyper=hyper)
            assert losses == sorted(losses, reverse=True), size
            assert 1 < losses[-1] < losses[0] < 4


@pytest.mark.nightly
def test_first_release_and_this_commit_compute_the_same_losses(commit):
    with Crew(1, files_of(commit)) as crew:
        for kind, size, hyper in PROBLEMS:
            if getattr(size, "attention", False):
                continue  # the first release had none
            now, then = (crew[name].ask("losses", kind=kind, size=size, hyper=hyper) for name in ("elman", "before"))
            assert now == pytest.approx(then, abs=1e-5), size
        for name in ("elman", "before"):
            assert not crew.prepare(name, "sample", [(2, 1, 20, 11, 1, "rnn", 5)])


def test_older_commit_runs_its_own_source(commit):
    folder = files_of(commit)
    assert folder.parent == ROOT / ".bench"
    assert not (folder / "benchmarks" / "adapter.py").exists()
    assert folder == files_of(commit)


def test_each_contender_has_one_turn_in_each_round():
    groups = [{(size, name): (lambda: 0.5) for name in "abc"} for size in (1, 2)]
    turns = alternate(groups, 50)
    assert all(isinstance(turn, Turn) for turn in turns)
    orders = set()
    for start in range(0, len(turns), 6):
        of_round = [turn.contender for turn in turns[start : start + 6]]
        assert len(set(of_round)) == 6
        assert len({size for size, _ in of_round[:3]}) == 1  # contenders that are compared are neighbors
        orders.add(tuple(of_round))
    assert len(orders) > 10
    assert [turn.place for turn in turns] == list(range(len(turns)))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--against", "no-such-commit"], "expected a commit of this git repository, got 'no-such-commit'"),
        (["--turns", "10"], "expected 40 or more, got 10"),
    ],
)
def test_bad_arguments_are_refused(words, message):
    command = [sys.executable, ROOT / "benchmarks" / "bench.py", *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
