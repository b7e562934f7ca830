"""Several files at a time. Hashing, unpacking, reading and writing wait for no Python, so threads are enough."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from elman.data.reading import Meter

Item = TypeVar("Item")
Result = TypeVar("Result")

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
THREADS = min(CORES, 8)  # more would wait for each other


def in_order(function: Callable[[Item], Result], items: Sequence[Item], threads: int, meter: Meter) -> Iterator[Result]:
    """What the function gives for each item, in their order; the first error, in that order, ends them all."""
    if min(threads, len(items)) < 2:
        yield from map(function, items)
        return
    waiting: deque[Future[Result]] = deque()
    name = f"elman-reads-{id(waiting)}"
    pool = ThreadPoolExecutor(threads, name)
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > 2 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BaseException:
        meter.stopped = True  # the other threads leave at their next chunk
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        for thread in threading.enumerate():  # one that an interruption met at its start is unknown to the pool
            if thread.name.startswith(f"{name}_"):
                with contextlib.suppress(RuntimeError):  # one that never began
                    thread.join()
