"""A contender in a process of its own: reads commands as JSON lines, answers each with one.

crew.py starts it. Its libraries may print what they like: that goes to standard error.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

from contenders import STEPS, Hyper, Problem, Size, Step, product_step, torch_sampler
from tasks import Task, TaskHyper, TaskProblem, torch_task_step

TINY = {"B": 16, "T": 5, "H": 64, "V": 64}  # two slices, so that the threads start, and large enough for every kernel


class Contender:
    """Makes steps for every kind of problem, in one library or one commit of Elman."""

    def __init__(self, name: str, source: Path, adapter: Path) -> None:
        self.training_step, self.sampler, self.task_step = STEPS.get(name), torch_sampler, torch_task_step
        if name not in STEPS and name != "limit":
            import elman

            assert Path(elman.__file__).is_relative_to(source), f"expected Elman of {source}, got {elman.__file__}"
            spec = importlib.util.spec_from_file_location("adapter", adapter)
            assert spec
            assert spec.loader
            used: Any = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(used)
            self.training_step, self.sampler, self.task_step = used.training_step, used.sampler, used.task_step

    def step(self, kind: str, size: list[Any], **hyper: float) -> Step:
        if kind == "product":
            return product_step(*size)
        if kind == "sample":
            *size, n = size
            return self.sampler(Problem(Size(*size)), n)
        if kind == "task":
            return self.task_step(TaskProblem(Task(*size)), TaskHyper(**hyper))
        assert self.training_step
        return self.training_step(Problem(Size(*size)), Hyper(**hyper))


def mean_step(step: Step, seconds: float) -> float:
    """Seconds that a step takes, in a turn of about the given length. The first step warms the caches: it counts only
    if it fills the turn alone.

    The mean, not the shortest: an interruption is more likely to miss a short step than a long one, so the shortest
    step of a turn would favor whoever has the shorter steps.
    """
    start = time.perf_counter()
    step()
    first = time.perf_counter() - start
    if first > seconds:
        return first
    start, count = time.perf_counter(), 0
    while True:
        step()
        count += 1
        passed = time.perf_counter() - start
        if passed > seconds:
            return passed / count


def megabytes(line: str) -> float:
    """VmRSS or VmHWM of this process, as Linux counts it."""
    kilobytes = re.search(rf"{line}:\s+(\d+)", Path("/proc/self/status").read_text())
    assert kilobytes
    return int(kilobytes[1]) / 1024


def peak_memory(contender: Contender, size: list[Any], steps: int = 20) -> float:
    """Megabytes above what imports and a tiny step leave behind."""
    contender.step("training", list(Size(*size)._replace(**TINY)))()
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = megabytes("VmRSS")
    step = contender.step("training", size)
    for _ in range(steps):
        step()
    return megabytes("VmHWM") - before


def growth(contender: Contender, size: list[int], marks: list[int]) -> list[float]:
    """Megabytes in use after each of these numbers of steps."""
    step, done, seen = contender.step("training", size), 0, []
    for mark in marks:
        for _ in range(mark - done):
            step()
        done = mark
        seen.append(megabytes("VmRSS"))
    return seen


def main(name: str, threads: int, source: Path, adapter: Path) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    if hasattr(os, "sched_setaffinity"):  # XLA takes as many threads as it sees cores
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    contender, ready = Contender(name, source, adapter), dict[str, Step]()
    waiting = time.perf_counter(), time.process_time()
    for line in sys.stdin:
        # threads that spin while others are measured would be seen here
        idle = {"seconds": time.perf_counter() - waiting[0], "cpu": time.process_time() - waiting[1]}
        match json.loads(line):
            case {"do": "prepare", "kind": kind, "size": size, "name": key}:
                ready[key] = contender.step(kind, size)
                for _ in range(3):
                    ready[key]()
                answer: Any = None
            case {"do": "turn", "name": key, "seconds": seconds}:
                answer = mean_step(ready[key], seconds)
            case {"do": "losses", "kind": kind, "size": size, "hyper": hyper}:
                step = contender.step(kind, size, **hyper)
                answer = [step() for _ in range(5)]
            case {"do": "memory", "size": size}:
                answer = peak_memory(contender, size)
            case {"do": "growth", "size": size, "marks": marks}:
                answer = growth(contender, size, marks)
            case command:
                raise ValueError(f"unknown command: {command}")
        answers.write(json.dumps({"answer": answer, "idle": idle}) + "\n")
        waiting = time.perf_counter(), time.process_time()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4]))
