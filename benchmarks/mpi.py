"""Many ranks compared with many threads: .venv/bin/python benchmarks/mpi.py [--rounds N] [--run RUN] [--write]

Each measurement is a fresh launch. All numbers of ranks and threads take turns, and the shortest times of all rounds
count. --write puts the tables into docs/scale.md. --run names a trained run: its gradient noise scale is measured, too.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from elman.config import Config
from elman.data import CharVocabulary
from elman.kernels.threads import set_threads
from elman.models.fitted import new_model
from elman.models.task_spec import TaskSpec
from elman.models.tasks import TextTask
from elman.training import Event, Started, Stepped, Trainer
from elman.training.distributed import join, world
from elman.training.mpi_launch import cores

PAGE = Path(__file__).parent.parent / "docs" / "scale.md"
MPIRUN = Path(sys.executable).with_name("mpirun")
SIZES = [(32, 50, 128, 65), (64, 64, 256, 75), (64, 64, 512, 96)]  # B, T, H, V
AIM = 0.85  # of the tokens a second of one process with as many threads as there are ranks
STEPS = 48

# latency of a message in seconds, bytes a second
NETWORKS = {
    "Ethernet, 10 Gbit/s": (30e-6, 1.1e9),
    "Ethernet, 100 Gbit/s": (10e-6, 11e9),
    "InfiniBand, 200 Gbit/s": (1.5e-6, 23e9),
}


# -- a rank -----------------------------------------------------------------------------------------------------------


def new_task(size: Sequence[int]) -> TextTask:
    B, T, H, V = size
    ids = np.random.default_rng(0).integers(0, V, B * T * 40 + 1).astype(np.uint8)
    never = dict.fromkeys(("validate_every", "save_every", "log_every"), 1 << 40)
    config = Config().with_options(hidden=H, batch_size=B, window=T, **never)
    spec = TaskSpec.language_model(CharVocabulary(map(chr, range(32, 32 + V))))
    return TextTask(new_model(spec, config), ids, ids[:0], batch=B)


def measure(size: Sequence[int], threads: int) -> dict[str, float]:
    """Seconds a step of the whole loop, of the gradients alone, of the two all-reduces: each the median."""
    set_threads(threads)
    task = new_task(size)
    times: list[float] = []

    def tick(event: Event) -> None:
        if isinstance(event, Started | Stepped):
            times.append(time.perf_counter())

    Trainer(task, task.config, steps=STEPS, listeners=[tick]).train()
    d = task.parameters.zeros()
    alone = median(lambda: task.loss_and_gradients(d, 0), STEPS)
    tiny = np.zeros(2)
    return {
        "step": float(np.median(np.diff(times)[STEPS // 4 :])) if times else 0.0,
        "gradients": alone,
        "sum": median(lambda: add_up(d.buffer), 200),
        "tiny": median(lambda: add_up(tiny), 200),
        "bytes": float(d.buffer.nbytes),
    }


def add_up(buffer: np.ndarray) -> None:
    """An all-reduce alone."""
    if world().size == 1:
        return
    from mpi4py import MPI

    MPI.COMM_WORLD.Allreduce(MPI.IN_PLACE, buffer)
    buffer *= 1 / world().size  # so that the numbers do not grow


def median(work: Any, times: int) -> float:
    """The median time of this many calls, each of which all ranks begin together."""
    took = []
    for _ in range(times):
        if world().size > 1:
            world().agree({})
        start = time.perf_counter()
        work()
        took.append(time.perf_counter() - start)
    return float(np.median(took))


# -- the launches -----------------------------------------------------------------------------------------------------


def launch(size: Sequence[int], ranks: int, threads: int) -> dict[str, float]:
    bound = ["--bind-to", "core" if threads == 1 and ranks <= len(cores()) else "none"]
    many = [str(MPIRUN), "--allow-run-as-root", "--oversubscribe", *bound, "-n", str(ranks)] if ranks > 1 else []
    words = [*many, sys.executable, __file__, "--rank", json.dumps([*size, threads])]
    env = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=300, check=False)
    found = re.search(r"\{.*\}", done.stdout)
    if done.returncode or not found:
        raise RuntimeError(f"{' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    result: dict[str, float] = json.loads(found[0])
    return result


def pairs() -> list[tuple[int, int]]:
    """Numbers of ranks and threads, powers of two, that need no more than all cores."""
    most = len(cores())
    counts = [2**k for k in range(most.bit_length())]
    return [(ranks, threads) for ranks in counts for threads in counts if ranks * threads <= most]


def measure_all(rounds: int) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for size in SIZES:
        best: dict[tuple[int, int], dict[str, float]] = {}
        for round_ in range(rounds):
            for ranks, threads in pairs()[:: -1 if round_ % 2 else 1]:
                got = launch(size, ranks, threads)
                old = best.get((ranks, threads), got)
                best[ranks, threads] = {name: min(old[name], got[name]) for name in got}
                print(f"{size}: {ranks} × {threads}: {got['step'] * 1e3:.2f} ms a step", flush=True)
        results[", ".join(map(str, size))] = best
    return results


def noise(path: Path, windows: int = 24) -> tuple[float, int, int]:
    """The gradient noise scale tr Σ / |G|² in windows, the step of the checkpoint, and T.

    The gradient of b windows has the expected squared norm |G|² + tr Σ / b, which is measured for one batch and many.
    """
    from elman.models import runs
    from elman.training.run import Run

    run = Run(path)
    prepared, _ = runs.reopen(run)
    task, checkpoint = prepared.new_task(prepared.new_model()), run.newest()
    assert checkpoint is not None
    task.parameters.buffer[:] = checkpoint.arrays()["parameters"]
    total, squares = np.zeros(task.parameters.buffer.size), []
    for step in range(windows):
        d = task.parameters.zeros()
        task.loss_and_gradients(d, step)
        total += d.buffer
        squares.append(float(np.dot(d.buffer, d.buffer)))
    small, large = task.batch, task.batch * windows
    one, many = float(np.mean(squares)), float(np.dot(total, total)) / windows**2
    true, spread = (large * many - small * one) / (large - small), (one - many) / (1 / small - 1 / large)
    return spread / true, checkpoint.step, prepared.config.window


# -- the page ---------------------------------------------------------------------------------------------------------


def all_reduce(count: int, size: float, latency: float, speed: float) -> float:
    """Recursive halving and doubling: 2 log2 n messages, in which a rank sends all bytes but 1/n of them twice."""
    return 2 * math.log2(count) * latency + 2 * (count - 1) / count * size / speed


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "| :-- |" + " --: |" * (len(header) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def measured(results: dict[str, Any]) -> str:
    rows = []
    for size, best in results.items():
        B, T, *_ = map(int, size.split(", "))
        most = max(ranks * threads for ranks, threads in best)
        for (ranks, threads), got in best.items():
            share = best[1, most]["step"] / got["step"]
            rows.append([size, f"{ranks} × {threads}", f"{got['step'] * 1e3:.2f}", f"{B * T / got['step'] / 1e3:.0f}k",
                         f"{share:.2f}"])  # fmt: skip
    header = ["B, T, H, V", "ranks × threads", "ms a step", "tokens a second", f"speed relative to 1 × {most}"]
    return table(header, rows)


def model(results: dict[str, Any]) -> str:
    rows = []
    for size, best in results.items():
        for (ranks, threads), got in best.items():
            if ranks == 1:
                continue
            rest = best[1, threads]["step"] - best[1, threads]["gradients"]  # clip and update, on every rank
            expected = got["gradients"] + got["sum"] + got["tiny"] + rest
            rows.append([size, f"{ranks} × {threads}", f"{got['bytes'] / 1e3:.0f} kB", f"{got['sum'] * 1e6:.0f}",
                         f"{got['tiny'] * 1e6:.0f}", f"{expected * 1e3:.2f}", f"{got['step'] * 1e3:.2f}",
                         f"{(got['sum'] + got['tiny']) / got['step']:.1%}"])  # fmt: skip
    header = ["B, T, H, V", "ranks × threads", "gradients", "all-reduce, µs", "loss and flag, µs", "model, ms a step",
              "measured, ms a step", "share of both all-reduces"]  # fmt: skip
    return table(header, rows)


def predictions(results: dict[str, Any]) -> str:
    """Efficiency: the fraction of its time that a rank trains, if each is a machine with all its cores and B lanes."""
    rows = []
    for size, best in results.items():
        most = max(threads for ranks, threads in best if ranks == 1)
        step, data = best[1, most]["step"], best[1, most]["bytes"]
        for name, (latency, speed) in NETWORKS.items():
            costs = [all_reduce(n, data, latency, speed) + all_reduce(n, 16, latency, speed) for n in (8, 64, 512)]
            shares = [f"{step / (step + cost):.0%}" for cost in costs]
            rows.append([size, name, f"{step * 1e3:.1f}", f"{costs[-1] * 1e6:.0f}", *shares])
    header = ["lanes of a rank, T, H, V", "network", "ms a step alone", "both all-reduces of 512 ranks, µs",
              "efficiency, 8 ranks", "64 ranks", "512 ranks"]  # fmt: skip
    return table(header, rows)


def page(results: dict[str, Any], noisy: tuple[float, int, int] | None) -> str:
    from machine import machine

    here = machine()
    size = "64, 64, 256, 75"  # for which the aim is set
    n = max(ranks for ranks, _ in results[size])
    share = results[size][1, n]["step"] / results[size][n, 1]["step"]
    parts = [
        f"Measured on {here['cpu']}, {here['cores']} cores, {time.strftime('%Y-%m-%d')}.",
        measured(results),
        f"{n} ranks of 1 thread reach {share:.2f} of the speed of 1 process with {n} threads at {size};"
        f" the aim was {AIM}.",
        "**The model below, compared with the measurement**",
        model(results),
        "**Computed from the model**",
        predictions(results),
    ]
    if noisy is not None:
        lanes, step, T = noisy
        parts.append(
            f"Gradient noise scale, measured after {step} steps of training: {lanes:,.0f} windows of {T} tokens."
        )
    return "\n\n".join(parts)


def write(text: str) -> None:
    """Between the markers of the page."""
    old = PAGE.read_text(encoding="utf-8")
    new = re.sub(r"(<!-- measured -->\n).*(\n<!-- end -->)", lambda m: m[1] + text + m[2], old, flags=re.DOTALL)
    PAGE.write_text(new, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.rank:
        join()
        *size, threads = json.loads(options.rank)
        got = measure(size, threads)
        if world().rank == 0:
            print(json.dumps(got), flush=True)
        return
    text = page(measure_all(options.rounds), noise(options.run) if options.run else None)
    print(text)
    if options.write:
        write(text)


if __name__ == "__main__":
    main()
