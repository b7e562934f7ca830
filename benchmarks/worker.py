"""A contender in a process of its own: reads commands as JSON lines, answers each with one.

crew.py starts it. Its libraries may print what they like: that goes to standard error.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

from contenders import SAMPLERS, STEPS, Hyper, Problem, Size, Step, product_step

TINY = {1: Size(16, 5, 32, 11), 2: Size(16, 5, 32, 11, 2)}  # two slices, so that the threads start


def make(contender: str, kind: str, size: list[int]) -> Step:
    if kind == "product":
        return product_step(size[0])
    if kind == "sample":
        *size, n = size
        return SAMPLERS[contender](Problem(Size(*size)), n)
    return STEPS[contender](Problem(Size(*size)), Hyper())


def best_of(step: Step, seconds: float) -> float:
    best, end = float("inf"), time.perf_counter() + seconds
    while True:
        start = time.perf_counter()
        step()
        now = time.perf_counter()
        best = min(best, now - start)
        if now > end:
            return best


def losses(contender: str, size: list[int]) -> list[float]:
    """Of a few steps, at a rate and a limit that show a wrong gradient or a missing clip."""
    step = STEPS[contender](Problem(Size(*size)), Hyper(rate=0.5, limit=0.2))
    return [step() for _ in range(5)]


def megabytes(line: str) -> float:
    """VmRSS or VmHWM of this process, as Linux counts it."""
    kilobytes = re.search(rf"{line}:\s+(\d+)", Path("/proc/self/status").read_text())
    assert kilobytes
    return int(kilobytes[1]) / 1024


def peak_memory(contender: str, size: list[int], steps: int = 20) -> float:
    """Megabytes above what imports and a tiny step leave behind."""
    STEPS[contender](Problem(TINY[size[4]]), Hyper())()
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    before = megabytes("VmRSS")
    step = STEPS[contender](Problem(Size(*size)), Hyper())
    for _ in range(steps):
        step()
    return megabytes("VmHWM") - before


def growth(contender: str, size: list[int], marks: list[int]) -> list[float]:
    """Megabytes in use after so many steps."""
    step, done, seen = STEPS[contender](Problem(Size(*size)), Hyper()), 0, []
    for mark in marks:
        for _ in range(mark - done):
            step()
        done = mark
        seen.append(megabytes("VmRSS"))
    return seen


def main(contender: str, threads: int) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    if hasattr(os, "sched_setaffinity"):  # XLA takes as many threads as it sees cores
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    ready: dict[str, Step] = {}
    waiting = time.perf_counter(), time.process_time()
    for line in sys.stdin:
        # threads that spin while others are measured would be seen here
        idle = {"seconds": time.perf_counter() - waiting[0], "cpu": time.process_time() - waiting[1]}
        match json.loads(line):
            case {"do": "prepare", "kind": kind, "size": size, "name": name}:
                ready[name] = make(contender, kind, size)
                start = time.perf_counter()
                ready[name]()
                answer: Any = time.perf_counter() - start
                ready[name](), ready[name]()
            case {"do": "turn", "name": name, "seconds": seconds}:
                answer = best_of(ready[name], seconds)
            case {"do": "forget"}:
                answer = len(ready)
                ready.clear()
            case {"do": "losses", "size": size}:
                answer = losses(contender, size)
            case {"do": "memory", "size": size}:
                answer = peak_memory(contender, size)
            case {"do": "growth", "size": size, "marks": marks}:
                answer = growth(contender, size, marks)
            case command:
                raise ValueError(f"unknown command: {command}")
        answers.write(json.dumps({"answer": answer, "idle": idle}) + "\n")
        waiting = time.perf_counter(), time.process_time()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
