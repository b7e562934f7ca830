"""Runs the service with Uvicorn: it listens on an address, and finishes running requests before it shuts down."""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from elman.errors import ArgumentError, RangeError, option, options_as
from elman.serve.app import Service
from elman.serve.connections import QUEUE, AcceptErrors, Connection, bounds
from elman.serve.limits import Limits

CANCEL_SECONDS = 5  # that requests have to end after their connections were aborted
SWITCH = 0.0005  # seconds after which a thread must release the GIL: few, so that the engine does not wait long


def listen(host: str, port: int, max_seconds: float = Limits.max_seconds) -> socket.socket:
    """A socket at this address (port 0: a free one).

    On Linux, clients that read nothing for 2 · max_seconds are disconnected.
    """
    if not 0 <= port < 65536:
        raise RangeError(option("port"), expected="0 to 65535", got=port)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, OverflowError, UnicodeError) as error:
        raise ArgumentError(f"{option('host', host)} {option('port', port)}", got=str(error)) from None
    try:
        if sys.platform != "win32":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # inherited by connections; otherwise close() would wait forever
            milliseconds = max(1, int(min(2000 * max_seconds, 2**31 - 1)))
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
        listener.bind(address)
        listener.listen(QUEUE)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            do = f"Choose another {option('port')}; 0 takes a free one."
            raise ArgumentError(f"Port {port} of {host} is in use", do=do) from None
        raise ArgumentError(f"{option('host', host)} {option('port', port)}", got=error.strerror) from None
    return listener


def url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


class Server(uvicorn.Server):
    def __init__(self, service: Service, grace: float | None = None) -> None:
        """`grace`: seconds that requests have to end when the server shuts down; max_seconds by default."""
        limits, self.closing = service.limits, service.closing
        self.grace = limits.max_seconds if grace is None else grace

        class Bounded(Connection):
            most, at_once = bounds(limits.max_connections)

        self.connection_class = Bounded
        super().__init__(
            uvicorn.Config(
                service,
                lifespan="on",
                ws="none",
                # h11 bounds the headers of a request: httptools accepts any size
                http=Bounded,
                backlog=Bounded.at_once,  # asyncio accepts this many in one turn of the event loop
                log_level="error",  # its warnings are about clients, which could fill a disk with them
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=30,
                timeout_graceful_shutdown=int(self.grace) + CANCEL_SECONDS,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(AcceptErrors())
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(QUEUE)  # asyncio has set the queue to backlog: a burst of clients would wait for seconds

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal finishes running requests, the second aborts them; neither is an error."""
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.closing.set()
        self.connection_class.closing = True
        # a client that does not read its response must not delay the shutdown, and is not an error
        timer = asyncio.get_running_loop().call_later(self.grace, self._abort_connections)
        await super().shutdown(sockets)
        timer.cancel()
        if self.force_exit:  # trainings are stopped even then, which uvicorn would skip
            self._abort_connections()
            if self.server_state.tasks:
                await asyncio.wait(self.server_state.tasks, timeout=5)
            await self.lifespan.shutdown()

    def _abort_connections(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()


def serve(service: Service, listener: socket.socket) -> None:
    """Serve until a signal arrives."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        with options_as("json"):  # messages are shown to clients from here on
            Server(service).run(sockets=[listener])
    finally:
        sys.setswitchinterval(before)


@contextmanager
def serving(service: Service, listener: socket.socket) -> Iterator[str]:
    """Serve in a thread as long as the context lasts; yields the address."""
    server = Server(service, grace=3)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="elman-serve", daemon=True)
    thread.start()
    try:
        yield url(listener)
    finally:
        server.should_exit = True
        thread.join()
