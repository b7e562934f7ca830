"""Connections of the service: bounded in number, and in the time that a client may take to send its headers.

A client that sends nothing, half a header or half a body, or does not read its response, costs an open file. When all
connections are in use, a new one replaces the one that has kept the service waiting longest; a connection whose request
is being answered is never closed for another.
"""

from __future__ import annotations

import asyncio
import errno
import heapq
import logging
import sys
import time
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

if sys.platform != "win32":
    import resource

HEADER_SECONDS = 10.0  # from the first byte of a request, or from the connection, to the end of its headers
QUEUE = 512  # connections that the system holds until they are accepted; they need no open files
AT_ONCE = 128  # connections that are accepted in one turn of the event loop
RESERVED = 64  # files that are open for other purposes
OUT_OF_FILES = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
WARNING_SECONDS = 60.0  # between two warnings that connections cannot be accepted
log = logging.getLogger("elman.serve")


def bounds(max_connections: int) -> tuple[int, int]:
    """The numbers of connections at the same time and of those accepted at once that fit the limit of open files.

    A connection may need two files, its socket and a file that it is sent. For a moment there can be more connections,
    by up to eight times the number accepted at once: asyncio takes a few turns of the event loop to set up a
    connection, and a few to close one, and it accepts others in each turn.
    """
    files = sys.maxsize if sys.platform == "win32" else resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if sys.platform != "win32" and files == resource.RLIM_INFINITY:
        files = sys.maxsize
    left = max(16, files - RESERVED)
    return min(max_connections, left // 3), min(AT_ONCE, left // 16)


class Connection(H11Protocol):
    most = at_once = sys.maxsize  # numbers of connections, see bounds
    closing = False  # whether the server is shutting down
    _since = 0.0  # when it last began to wait for a request
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = time.monotonic()
        if self.closing:
            # asyncio finishes accepting a connection a few turns of the event loop after the socket is closed; uvicorn
            # closes only the connections that it knows when the shutdown begins, and would wait for this one
            self.shutdown()
            return
        self._close_others()
        self._start_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._start_timer()

    def on_response_complete(self) -> None:
        self._since = time.monotonic()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    @property
    def _between_requests(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    @property
    def _waits_for_client(self) -> bool:
        return self._between_requests or self.cycle.more_body or self.flow.write_paused

    def _start_timer(self) -> None:
        """One timer for all headers of a request: bytes that trickle in do not restart it."""
        if not self._between_requests:
            self._stop_timer()
        elif self._timer is None and not self.transport.is_closing():
            self._timer = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_others(self) -> None:
        if len(self.connections) <= self.most:
            return
        others: Any = self.connections  # all of this class
        open_ = [other for other in others if not other.transport.is_closing()]
        waiting = [other for other in open_ if other._waits_for_client and other is not self]
        too_many = max(0, len(open_) - self.most)
        for other in heapq.nsmallest(too_many, waiting, key=lambda other: other._since):
            other.transport.abort()
        if too_many - len(waiting) > self.at_once:  # the others are being answered, and are still too many
            self.transport.abort()


class AcceptErrors:
    """The exception handler of the event loop: asyncio would log a traceback for each connection it cannot accept."""

    def __init__(self) -> None:
        self._warned = float("-inf")

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in OUT_OF_FILES or "socket" not in context:
            loop.default_exception_handler(context)
        elif time.monotonic() - self._warned > WARNING_SECONDS:
            self._warned = time.monotonic()
            log.warning("connections cannot be accepted: %s", error.strerror)
