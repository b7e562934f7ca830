"""Long calculations beside the event loop: one at a time, a few that wait, and the rest is told to come again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.concurrency import run_in_threadpool

from elman.serve.problems import busy, timed_out

AT_A_TIME, MOST = 1, 8


class Work:
    def __init__(self, seconds: float) -> None:
        self.seconds, self.asked = seconds, 0
        self._places = asyncio.Semaphore(AT_A_TIME)

    async def do(self, call: Callable[..., Any], *values: Any) -> Any:
        if self.asked >= MOST:
            raise busy(f"{MOST} calculations are asked for already. Try again in a moment.")
        self.asked += 1
        running: asyncio.Task[Any] | None = None
        try:
            async with asyncio.timeout(self.seconds):
                await self._places.acquire()
                running = asyncio.create_task(run_in_threadpool(call, *values))
                running.add_done_callback(self._leave)
                return await asyncio.shield(running)
        except TimeoutError:
            raise timed_out(self.seconds) from None
        finally:
            if running is None:
                self.asked -= 1

    def _leave(self, ended: asyncio.Task[Any]) -> None:
        """A thread cannot be stopped: its place is free when it ends, not when nobody waits for it any more."""
        self._places.release()
        self.asked -= 1
        if not ended.cancelled():
            ended.exception()  # or asyncio would tell of an error that nobody has heard
