"""Several files at a time. Hashing, unpacking, reading and writing wait for no Python, so threads are enough."""

from __future__ import annotations

import os
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
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        except BaseException:
            meter.stopped = True  # the other threads leave at their next chunk
            for future in waiting:
                future.cancel()
            raise
