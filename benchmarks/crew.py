"""The parent's side of a worker process."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PATIENCE = 900.0  # seconds; what takes longer has hung


class Failed(Exception):
    """A contender that could not do what it was asked, and why."""


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Worker:
    """A contender's process. "torch/spin" is PyTorch whose OpenMP threads wait for work the busy way, its default."""

    def __init__(self, name: str, threads: int) -> None:
        contender, _, waiting = name.partition("/")
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
        }
        if waiting != "spin":
            env |= {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}
        self.log = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "worker.py"), contender, count],
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

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
