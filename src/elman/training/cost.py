"""The memory and time of a training, estimated before it begins; the time is measured if `seconds` limits it."""

from __future__ import annotations

import contextlib
import dataclasses
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from elman.config import Config
from elman.errors import CostWarning, RangeError, option
from elman.kernels.threads import run, thread_count
from elman.maths.optimizers import OPTIMIZERS
from elman.network.batch import slice_count
from elman.network.parameters import Shapes
from elman.training.distributed import world
from elman.training.events import Stepped
from elman.training.task import Task
from elman.training.trainer import Trainer

BYTES_PER_SECOND = 8e9  # of weights read from memory, which is most of the time that validating a large network takes
LONG = 300.0  # seconds of one step or one validation, beyond the time limit, above which the user is warned
CGROUP = Path("/sys/fs/cgroup")
CONTAINERS = [  # cgroup versions 2 and 1: files of the limit, of the use and of its parts; prefix of the parts' names
    ("memory.max", "memory.current", "memory.stat", ""),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_"),
]


class Cost(NamedTuple):
    """The estimated cost of a training."""

    memory: float  # bytes
    step: float  # seconds
    validation: float  # seconds


def estimate(shapes: Shapes, config: Config, itemsize: int, *, batch: int, steps: float, validated: float) -> Cost:
    """The cost of batches of `batch` rows of `steps` time steps, and of a validation of `validated` time steps."""
    batch = -(-batch // world().size)
    sizes = [int(np.prod(shape, dtype=float)) for shape in shapes.values()]
    matrices = [(size, shape[1]) for size, shape in zip(sizes, shapes.values(), strict=True) if len(shape) == 2]
    # the number of weights, and of values per time step that are kept for the backward pass
    weights, kept = (sum(column) for column in zip(*matrices, strict=True))
    # parameters, best parameters and state of the optimizer: those in use, the snapshot to roll back to, and the next
    # snapshot while it replaces that one; also the gradients, of the batch and of each slice, and packed weights
    copies = 3 * (2 + len(OPTIMIZERS[config.optimizer].memory)) + slice_count(batch) + 3
    memory = itemsize * (copies * float(sum(sizes)) + kept * batch * steps)
    # a multiplication and an addition per weight in the forward pass, twice as many in the backward pass
    operations = 6.0 * weights * batch * steps * config.accumulate
    step = operations / (_operations_per_second(itemsize) * min(thread_count(), slice_count(batch)))
    return Cost(memory, step, float(validated) * weights * itemsize / BYTES_PER_SECOND)


def check_cost(cost: Cost, seconds: float | None) -> None:
    """Raise RangeError if a training does not fit into memory; warn if it needs more than half or takes long."""
    free = free_memory()
    if free is not None and cost.memory > free:
        needs = f"at most {_size(free)} of memory, which is free"
        raise RangeError(
            "this network and its training", expected=needs, got=f"about {_size(cost.memory)}", do=_smaller()
        )
    if free is not None and cost.memory > free / 2:
        _warn(f"This training needs about {_size(cost.memory)} of the {_size(free)} of memory that are free.")
    validation = 0.0 if seconds else cost.validation  # with a budget in seconds, validation is shortened
    if max(cost.step, validation) > LONG + (seconds or 0):
        also = f" and a validation about {validation / 60:,.0f}" if validation > LONG else ""
        _warn(f"On this machine a step takes about {cost.step / 60:,.0f} minutes{also}. {_smaller()}")


def free_memory() -> int | None:
    """Free bytes of memory: the least of those of machine, container and process limit; None if all are unknown."""
    known = []
    with contextlib.suppress(OSError, ValueError, KeyError):  # not Linux
        machine = _read_numbers(Path("/proc/meminfo"))
        known.append(1024 * (machine["MemAvailable"] + machine["SwapFree"]))
    for limit_file, used_file, parts_file, prefix in CONTAINERS:
        with contextlib.suppress(OSError, ValueError, KeyError):  # no container, or one without a limit
            parts, cached = _read_numbers(CGROUP / parts_file), ("inactive_file", "active_file")  # can be freed
            left = int((CGROUP / limit_file).read_text("ascii")) - int((CGROUP / used_file).read_text("ascii"))
            known.append(left + sum(parts[prefix + name] for name in cached))
    with contextlib.suppress(ImportError, OSError, ValueError):  # Windows has no such limits
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            known.append(limit - int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize())
    return max(0, min(known)) if known else None


def _read_numbers(path: Path) -> dict[str, int]:
    """The numbers by name in a file whose lines have a name and a number."""
    words = [line.replace(":", " ").split() for line in path.read_text("ascii").splitlines()]
    return {name: int(number) for name, number, *_ in words}


def timed(work: Callable[[], object]) -> float:
    """The seconds that a call of `work` takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def step_seconds(task: Task, config: Config, part: Callable[[], object], parts: float, measured: float) -> float:
    """The median seconds of a step, measured for `measured` seconds on a task that is discarded afterwards.

    `parts` calls of `part` take about as long as one step. If this estimate is above config.seconds it is returned, so
    that measuring a large network does not take longer than the user allows. If the first step takes longer than
    `measured`, but less than twice the estimate, so that compiling can be only a part of it, its time is returned.
    """
    part()  # the first call may compile
    about = world().broadcast(timed(part) * parts)
    if config.seconds is not None and about > config.seconds:
        return about
    first = world().broadcast(timed(lambda: task.loss_and_gradients(task.parameters.zeros(), 0)))
    if measured < first < 2 * about:
        return first
    quiet = dataclasses.replace(config, sample_every=None, validate_every=1 << 40, log_every=1 << 40)
    times: list[float] = []
    last = time.perf_counter()

    def tick(event: object) -> None:
        nonlocal last
        if isinstance(event, Stepped):
            times.append(time.perf_counter() - last)
        last = time.perf_counter()

    enough = lambda: sum(times) > measured or len(times) > 1000  # noqa: E731
    Trainer(task, quiet, steps=1 << 40, listeners=[tick], stopping=enough).train()
    return world().broadcast(sorted(times)[len(times) // 2] if times else 0.0)  # only rank 0 measures the steps


def allowed_share(validation: float, seconds: float) -> float:
    """The fraction of the held-out part whose validation takes a tenth of `seconds`, or one second if that is more.

    `validation`: the seconds that a validation of the whole part takes.
    """
    return world().broadcast(min(1.0, max(1.0, seconds / 10) / max(validation, 1e-9)))


def warn_if_shortened(validated: int, held_out: int, what: str) -> None:
    """Warn if a time limit makes validation use only a part of the held-out data."""
    if validated < held_out:
        _warn(f"{option('seconds')} leaves time to validate on {validated:,} of {held_out:,} {what}.")


def _operations_per_second(itemsize: int) -> float:
    """Of one thread: half of what a matrix product reaches, because a step has other work too."""
    a = np.ones((256, 256), np.float32 if itemsize == 4 else np.float64)
    return 0.5 * 2 * 256**3 / min(run([partial(timed, lambda: a @ a)] * 5))


def _smaller() -> str:
    return f"Use a smaller {option('hidden')}, {option('batch_size')} or {option('window')}."


def _size(count: float) -> str:
    return f"{count / 1e9:,.1f} GB"


def _warn(text: str) -> None:
    warnings.warn(text, CostWarning, stacklevel=2)
