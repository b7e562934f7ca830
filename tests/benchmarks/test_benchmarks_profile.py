"""The threads whose time the profile of a step divides by."""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import adapter
from contenders import Hyper, Problem, Size
from profile_steps import IN_MAIN_THREAD, PARTS, threads_used
from tasks import TASKS, TaskHyper, TaskProblem

from elman.kernels.threads import set_threads


@pytest.fixture
def threads():
    yield set_threads
    set_threads(None)


@pytest.mark.parametrize(
    "new_step",
    [
        lambda: adapter.training_step(Problem(Size(16, 3, 8, 11)), Hyper()),
        lambda: adapter.task_step(TaskProblem(TASKS[1]._replace(T=3, H=8)), TaskHyper()),
    ],
    ids=["language model", "tagger with a large embedding"],
)
def test_parts_in_the_main_thread(new_step, threads, monkeypatch):
    """A batch has two slices, of which one is computed by the main thread and the other by the pool."""
    threads(2)
    seen = defaultdict(set)

    def recorded(part, function):
        def call(*args, **options):
            seen[part].add(threading.current_thread())
            return function(*args, **options)

        return call

    for part, owner, name, _ in PARTS:
        monkeypatch.setattr(owner, name, recorded(part, getattr(owner, name)))
    new_step()()
    alone = {part for part, used in seen.items() if used == {threading.main_thread()}}
    assert alone == IN_MAIN_THREAD
    assert len(seen) > len(alone)


def test_no_more_threads_are_used_than_a_batch_has_slices(threads):
    threads(8)
    assert [threads_used(B) for B in (1, 15, 16, 128, 256, 1024)] == [1, 1, 2, 2, 4, 8]
