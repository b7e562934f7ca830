"""Where the time of a training step goes: milliseconds, share, GFLOP/s or GB/s of each part, for each cell and task.

    .venv/bin/python benchmarks/profile_steps.py                        every size and task, all threads
    .venv/bin/python benchmarks/profile_steps.py --threads 1 --only gru

The functions of the parts are replaced by ones that measure their time, without the time of other parts that they call.
The time of a part that runs in several threads is the sum over threads, divided by their number. "other" is the rest:
Python, and waiting for other threads. A forward and a backward pass over all steps are one kernel each; "its product
alone" is the speed of the matrix product in the forward one, measured without the rest of it.
"""

from __future__ import annotations

import argparse
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import adapter
import numpy as np
from bench import GATED, SIZES
from contenders import Hyper, Problem, Size
from rich.console import Console
from rich.table import Table
from tasks import TASKS, Task, TaskHyper, TaskProblem

import elman.kernels as kernels
from elman.kernels import layers, recurrence, threads
from elman.network import attention, network, stack
from elman.network.batch import slice_count

Work = Callable[..., tuple[float, float]]  # floating-point operations and bytes of a call, from its arguments


def _steps(layer: Any, x: Any, lengths: Any) -> tuple[int, int]:
    """Steps of all rows, and the operations of one step's products."""
    steps = int(np.prod(x.shape[:2]) if lengths is None else lengths.sum())
    return steps, 2 * layer.N * (layer.H + (layer.X if x.ndim == 3 else 0))


def _forward(layer: Any, x: Any, s0: Any, *, lengths: Any = None, **_: Any) -> tuple[float, float]:
    return math.prod(_steps(layer, x, lengths)), 0


def _backward(layer: Any, d_h: Any, trace: Any, x: Any, *_: Any, lengths: Any = None, **__: Any) -> tuple[float, float]:
    steps, inputs = _steps(layer, x, lengths)
    return steps * (2 * layer.N * layer.H + 2 * (inputs - 2 * layer.N * layer.H)), 0


PARTS: list[tuple[str, Any, str, Work]] = [
    ("pack the weights", network.Network, "pack", lambda _, p, *__: (0, 0)),
    ("embedding, masks, joining", stack.Stack, "forward", lambda *_, **__: (0, 0)),
    ("embedding, masks, joining", stack.Stack, "backward", lambda *_, **__: (0, 0)),
    ("time loop, forward", recurrence.CompiledLayer, "forward", _forward),
    ("time loop, backward", recurrence.CompiledLayer, "backward", _backward),
    ("attention, forward", attention.AttentionDecoder, "forward", lambda *_, **__: (0, 0)),
    ("attention, backward", attention.AttentionDecoder, "backward", lambda *_, **__: (0, 0)),
    ("logits and softmax", layers.CompiledOutput, "loss", lambda o, h, *_, **__: (2 * h.size * o.Y, 0)),
    ("head, backward", layers.CompiledOutput, "backward", lambda o, d_o, h, *_: (4 * h.size * o.Y, 0)),
    ("selecting steps that count", network.Network, "head_loss", lambda *_, **__: (0, 0)),
    ("gradient of W_hh", recurrence.CompiledLayer, "recurrent_gradient",
     lambda layer, h, *_, **__: (2 * h.size * layer.N, 0)),
    ("gradient of token rows", stack, "token_gradient", lambda *_, **__: (0, 0)),
    ("adding up slices", network, "add_up", lambda total, parts: (0, 3 * total.nbytes * len(parts))),
    ("gradient of large tables", network.Network, "_add_up", lambda *_, **__: (0, 0)),
    ("norm", kernels, "clip_in_place", lambda g, _: (0, g.nbytes)),
    ("update", kernels, "update", lambda _, p, g, r, memory: (0, (3 + 2 * len(memory)) * p.nbytes)),
]  # fmt: skip
# run by the main thread, which may use the others
IN_MAIN_THREAD = {"pack the weights", "adding up slices", "gradient of large tables", "norm", "update"}


class Spent(NamedTuple):
    seconds: float = 0.0
    flops: float = 0.0
    bytes: float = 0.0


@contextmanager
def clocks() -> Iterator[dict[str, Spent]]:
    """What each part has spent, while this is open."""
    spent: dict[str, Spent] = defaultdict(Spent)
    # below.seconds: in this thread, the time of the parts that the running one has called
    below, adding = threading.local(), threading.Lock()

    def timed(name: str, function: Any, work: Work) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            outer, below.seconds = getattr(below, "seconds", 0.0), 0.0
            start = time.perf_counter()
            try:
                return function(*args, **options)
            finally:
                seconds = time.perf_counter() - start
                flops, count = work(*args, **options)
                with adding:
                    was = spent[name]
                    spent[name] = Spent(was.seconds + seconds - below.seconds, was.flops + flops, was.bytes + count)
                below.seconds = outer + time.perf_counter() - start

        return call

    before = [(owner, name, getattr(owner, name)) for _, owner, name, _ in PARTS]
    for (part, owner, name, work), (_, _, function) in zip(PARTS, before, strict=True):
        setattr(owner, name, timed(part, function, work))
    try:
        yield spent
    finally:
        for owner, name, function in before:
            setattr(owner, name, function)


def product_alone(B: int, T: int, H: int, N: int, turns: int = 20) -> float:
    """GFLOP/s of the recurrent product of one slice, on one thread."""
    from elman.kernels.product import edge_size, pack_forward, packed_size, product

    rng, rows = np.random.default_rng(0), max(B // 2 if B >= 16 else B, 1)
    h, W = (rng.normal(size=shape).astype(np.float32) for shape in ((rows, H), (H, N)))
    packed, c = np.empty(packed_size(H, N, 4), np.float32), np.zeros((rows, N), np.float32)
    edge, best = np.empty(edge_size(rows, 4), np.float32), math.inf
    pack_forward(W, packed)
    for _ in range(turns):
        start = time.perf_counter()
        for _ in range(T):
            product(h, packed, c, edge)
        best = min(best, (time.perf_counter() - start) / T)
    return 2e-9 * rows * H * N / best


def threads_used(B: int) -> int:
    """How many threads compute the slices of a batch."""
    return min(threads.thread_count(), slice_count(B))


def profile(size: Size | Task, seconds: float) -> Table:
    """The table of one problem."""
    with clocks() as spent:  # before the step is made, because it imports some of the functions
        if isinstance(size, Task):
            step = adapter.task_step(TaskProblem(size), TaskHyper())
        else:
            step = adapter.training_step(Problem(size), Hyper())
        for _ in range(5):
            step()
        spent.clear()
        count, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            step()
            count += 1
        total = time.perf_counter() - start
    used = threads_used(size.B)
    title = f"{size.name if isinstance(size, Task) else size.cell} {tuple(size)[:6]}: {1e3 * total / count:.3f} ms"
    table = Table(title=title, title_justify="left")
    for column in ("part", "ms", "share", "GFLOP/s", "GB/s"):
        table.add_column(column, justify="left" if column == "part" else "right")
    known = 0.0
    for name in dict.fromkeys(part for part, *_ in PARTS):
        if name not in spent:
            continue
        wall = spent[name].seconds / (1 if name in IN_MAIN_THREAD else used)
        known += wall
        rates = [f"{1e-9 * value / wall:.0f}" if value else "" for value in spent[name][1:]]
        table.add_row(name, f"{1e3 * wall / count:.3f}", f"{wall / total:.2f}", *rates)
    table.add_row("other", f"{1e3 * (total - known) / count:.3f}", f"{1 - known / total:.2f}", "", "")
    gates = size.gates if isinstance(size, Size) else 1
    table.caption = f"its product alone: {product_alone(size.B, size.T, size.H, gates * size.H):.0f} GFLOP/s a thread"
    return table


def main() -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, help="default: all cores")
    parser.add_argument("--only", default="", metavar="TEXT", help="problems whose title contains TEXT")
    parser.add_argument("--seconds", type=float, default=2, help="of each problem (default: 2)")
    args = parser.parse_args()
    threads.set_threads(args.threads)
    for size in [*SIZES, *GATED, *TASKS]:
        name = size.name if isinstance(size, Task) else f"{size.cell} {tuple(size)[:5]}"
        if args.only in name:
            Console().print(profile(size, args.seconds), "")


if __name__ == "__main__":
    main()
