"""Work that stops when the client disconnects, and server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

R = TypeVar("R")


async def until_disconnect(receive: Receive, work: Coroutine[Any, Any, R], seconds: float | None = None) -> R | None:
    """The result of the work; None, and the work is cancelled, if the client disconnects or the time is up first."""
    disconnect, working = asyncio.create_task(_disconnect(receive)), asyncio.create_task(work)
    try:
        await asyncio.wait({disconnect, working}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        disconnect.cancel()
        working.cancel()


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class EventStream(Response):
    """Server-sent events with two tasks for each client; no timer for each chunk, because there can be many chunks."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[bytes], seconds: float) -> None:
        self.events, self.seconds = events, seconds
        self.status_code, self.background = 200, None
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await until_disconnect(receive, self._send(send), self.seconds)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for event in self.events:
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
