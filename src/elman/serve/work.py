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
        try:
            async with asyncio.timeout(self.seconds), self._places:
                return await run_in_threadpool(call, *values)
        except TimeoutError:
            raise timed_out(self.seconds) from None
        finally:
            self.asked -= 1
