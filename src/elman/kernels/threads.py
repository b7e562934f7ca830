"""The thread pool: slices of a batch run in parallel, because kernels and NumPy's products release the GIL.

BLAS itself gets one thread: slices are the parallelism, and two levels of it would compete for the same cores. The pool
is created when it is first needed, and again in a forked child, which inherits no threads.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

from elman.errors import RangeError

R = TypeVar("R")

_pool: ThreadPoolExecutor | None = None
_pool_lock = threading.Lock()
_threads: int | None = None


def thread_count() -> int:
    """Threads in use: the number given to set_threads, else ELMAN_THREADS, else the cores that this process may use."""
    if _threads is not None:
        return _threads
    text = os.environ.get("ELMAN_THREADS", "")
    if text:
        if not text.isdecimal() or int(text) < 1:
            raise RangeError("ELMAN_THREADS", expected="a whole number, 1 or more", got=repr(text))
        return int(text)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def set_threads(count: int | None) -> None:
    """Set the number of threads; None restores the default."""
    global _threads  # noqa: PLW0603
    if count is not None and count < 1:
        raise RangeError("threads", expected="1 or more", got=count)
    _forget_pool()
    _threads = count


def run(calls: Sequence[Callable[[], R]]) -> list[R]:
    """The results of the calls, in their order, whichever thread ran them."""
    _limit_blas()
    if len(calls) == 1 or thread_count() == 1:
        return [call() for call in calls]
    pool = _the_pool()
    first, *rest = calls
    futures = [pool.submit(call) for call in rest]
    try:
        done = first()
    finally:
        _wait(futures)
    return [done, *(future.result() for future in futures)]


class Turn:
    """A lock for what only one thread may do at a time. A copy has its own lock, and so has a forked process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # for `with turn.lock`: Ctrl-C inside an __enter__ of Turn could leave it locked
        _turns.add(self)

    def __reduce__(self) -> tuple[type[Turn], tuple[()]]:
        return Turn, ()


_turns: weakref.WeakSet[Turn] = weakref.WeakSet()


def _wait(futures: Sequence[Future[Any]]) -> None:
    """Wait until all are done, even when interrupted: no thread may still write into what the next step uses."""
    interrupted: KeyboardInterrupt | None = None
    while True:
        try:
            wait(futures)
            break
        except KeyboardInterrupt as error:
            interrupted = error
    if interrupted is not None:
        raise interrupted


def _the_pool() -> ThreadPoolExecutor:
    global _pool  # noqa: PLW0603
    with _pool_lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(thread_count(), thread_name_prefix="elman")
        return _pool


def _limit_blas() -> None:
    global _limited  # noqa: PLW0603
    if not _limited:
        from threadpoolctl import threadpool_limits

        threadpool_limits(1, user_api="blas")  # until the process ends: to limit each step would cost 0.7 ms a step
        _limited = True


_limited = False


def _forget_pool() -> None:
    global _pool, _pool_lock
    _pool, _pool_lock = None, threading.Lock()


def _after_fork() -> None:
    """A forked child has no threads, and may have inherited locks that nobody will release."""
    _forget_pool()
    for turn in _turns:
        turn.lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
