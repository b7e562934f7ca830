"""The contenders' processes, and whose turn it is."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ratios import Turn
from rich.progress import track

HERE = Path(__file__).parent
PATIENCE = 900.0  # seconds; what takes longer has hung
TURN = 0.04  # seconds; a turn is at least one step, however long


class Failed(Exception):
    """A contender that could not do what it was asked, and why."""


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Worker:
    """A contender's process. In "torch/spin" OpenMP's threads spin while they wait for work, as they do by default.

    `source` has the files of the Elman that runs: this commit's, or an older one's.
    """

    def __init__(self, name: str, threads: int, source: Path = HERE.parent) -> None:
        contender, _, waiting = name.partition("/")
        own_adapter = source / "benchmarks" / "adapter.py"
        adapter = own_adapter if own_adapter.exists() else HERE / "adapter_04bc60f.py"
        self.idle_cpu, self.idle_seconds = 0.0, 0.0
        count = str(threads)
        env = os.environ | {
            "OMP_NUM_THREADS": count,
            "OPENBLAS_NUM_THREADS": count,
            "OPENBLAS_THREAD_TIMEOUT": "20",  # its threads spin for 2²⁰ cycles and then sleep, not for 2²⁶
            "MKL_NUM_THREADS": count,
            "NPROC": count,  # XLA's name for it
            "ELMAN_THREADS": count,
            "ELMAN_KERNELS": "reference" if contender == "numpy" else "compiled",
            "TORCHINDUCTOR_COMPILE_THREADS": "1",  # no processes of its own
            "TORCHINDUCTOR_CACHE_DIR": str(HERE.parent / ".venv-bench" / "inductor"),
            "JAX_PLATFORMS": "cpu",
            "PYTHONPATH": str(source / "src"),  # comes before the editable installation
        }
        if waiting != "spin":
            env |= {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}
        self.log = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "worker.py"), contender, count, str(source), str(adapter)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, env=env, start_new_session=True,
        )  # fmt: skip

    def ask(self, do: str, *, patience: float = PATIENCE, **details: Any) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        with contextlib.suppress(BrokenPipeError):  # it died: the log says why
            self.process.stdin.write(json.dumps({"do": do, **details}).encode() + b"\n")
            self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], patience)[0]:
            self.stop()
            raise Failed(f"not done after {patience:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.log.seek(0)
            last = self.log.read().decode(errors="replace").strip().splitlines()
            raise Failed(last[-1] if last else f"exit code {self.process.returncode}")
        reply = json.loads(line)
        self.idle_cpu += reply["idle"]["cpu"]
        self.idle_seconds += reply["idle"]["seconds"]
        return reply["answer"]

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def stop(self) -> None:
        if self.alive:  # with its children: a compiler may be at work
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.log):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Crew:
    """One worker for each contender, replaced by a new one after a failure. "before" is an older commit of Elman."""

    def __init__(self, threads: int, before: Path | None = None) -> None:
        self.threads, self.before, self.workers = threads, before, dict[str, Worker]()

    def __getitem__(self, contender: str) -> Worker:
        worker = self.workers.get(contender)
        if worker is None or not worker.alive:
            source = {"source": self.before} if contender == "before" and self.before else {}
            worker = self.workers[contender] = Worker(contender, self.threads, **source)
        return worker

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers.values():
            worker.stop()

    def prepare(
        self, contender: str, kind: str, sizes: Iterable[tuple[Any, ...]], patience: float = PATIENCE
    ) -> dict[tuple[Any, ...], str]:
        """Makes a contender ready for turns at these sizes; returns those at which it fails, and why."""
        failures: dict[tuple[Any, ...], str] = {}
        while True:
            for size in sizes:
                if size in failures:
                    continue
                try:
                    self[contender].ask("prepare", kind=kind, size=size, name=str(size), patience=patience)
                except Failed as error:
                    failures[size] = str(error)
                    break  # its process has ended: a new one prepares all other sizes again
            else:
                return failures

    def turn(self, contender: str, size: tuple[Any, ...]) -> Callable[[], float]:
        return lambda: self[contender].ask("turn", name=str(size), seconds=TURN)

    def spinning(self) -> dict[str, float]:
        """CPU seconds for each second in which a worker had nothing to do."""
        return {name: w.idle_cpu / max(w.idle_seconds, 1e-9) for name, w in self.workers.items()}


def alternate(groups: Iterable[Mapping[Hashable, Callable[[], float]]], count: int) -> list[Turn]:
    """Lets every contender take its turns. Those of a group, which will be compared, follow one another in random
    order; then comes another group. So each comparison is spread over the whole measurement."""
    turns, groups = [], list(groups)
    for _ in track(range(count), "Taking turns", transient=True):
        for group in random.sample(groups, len(groups)):
            for contender in random.sample(list(group), len(group)):
                turns.append(Turn(contender, len(turns), group[contender]()))
    return turns
