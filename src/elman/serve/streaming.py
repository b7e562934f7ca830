"""Work for a client that may go away, and events that are sent to it as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

R = TypeVar("R")


async def while_there(receive: Receive, work: Coroutine[Any, Any, R], seconds: float | None = None) -> R | None:
    """The result of the work; None, and it is given up, where the client goes away or so much time passes before."""
    gone, working = asyncio.create_task(_gone(receive)), asyncio.create_task(work)
    try:
        await asyncio.wait({gone, working}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        gone.cancel()
        working.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Events(Response):
    """Server-sent events: two tasks a client and no timer a chunk, because many come at once."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], seconds: float) -> None:
        self.events, self.seconds = events, seconds
        self.status_code, self.background = 200, None
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await while_there(receive, self._send(send), self.seconds)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for event in self.events:
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
