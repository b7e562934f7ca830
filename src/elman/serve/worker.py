"""Long computations in a thread: one at a time, with a short queue, and an error when the queue is full."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool

from elman.serve.errors import busy, timed_out

CONCURRENT = 1  # computations at the same time
QUEUED = 8  # largest number of computations that are running or waiting


class Worker:
    def __init__(self, seconds: float) -> None:
        self.seconds, self.pending = seconds, 0
        self._slots = asyncio.Semaphore(CONCURRENT)

    async def run(self, function: Callable[..., Any], *args: Any) -> Any:
        """Compute function(*args) in a thread; ApiError 429 if the queue is full, 408 if it takes too long."""
        if self.pending >= QUEUED:
            raise busy(f"{QUEUED} computations are pending already. Try again in a moment.")
        self.pending += 1
        running: asyncio.Task[Any] | None = None
        try:
            async with asyncio.timeout(self.seconds):
                await self._slots.acquire()
                running = asyncio.create_task(run_in_threadpool(function, *args))
                running.add_done_callback(self._release)
                return await asyncio.shield(running)
        except TimeoutError:
            raise timed_out(self.seconds) from None
        finally:
            if running is None:
                self.pending -= 1

    def _release(self, ended: asyncio.Task[Any]) -> None:
        """Free the slot when the thread ends: a thread cannot be stopped if the client disconnects."""
        self._slots.release()
        self.pending -= 1
        if not ended.cancelled():
            ended.exception()  # otherwise asyncio logs the exception as never retrieved
