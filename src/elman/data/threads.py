"""Read several files at once. Threads suffice: hashing, unpacking, reading and writing release the GIL."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from elman.data.reading import Meter

Item = TypeVar("Item")
Result = TypeVar("Result")

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
THREADS = min(CORES, 8)  # more threads do not read faster
START_SECONDS = 1.0  # a thread that has not started after this time is not waited for


def in_order(function: Callable[[Item], Result], items: Sequence[Item], threads: int, meter: Meter) -> Iterator[Result]:
    """The result of the function for each item, in the order of the items.

    All threads stop when the result that is next in this order is an error, or when the generator is closed.
    """
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
        meter.stopped = True  # the other threads stop at their next chunk
        raise
    finally:
        pool.shutdown(cancel_futures=True)
        for thread in threading.enumerate():  # the pool may not know a thread that was starting during an interrupt
            if thread.name.startswith(f"{name}_"):
                _join(thread)


def _join(thread: threading.Thread) -> None:
    """Wait for the end of a thread, but at most START_SECONDS for its start, which an interrupt may have prevented."""
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(RuntimeError):  # it has not started
            thread.join()
            return
        time.sleep(0.001)
