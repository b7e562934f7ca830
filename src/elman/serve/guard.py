"""What stands before every route: who asks, from where, and how much; and headers on every answer.

A page on another site can make a browser send requests here. So a request must name a host that is ours (else a name
of the attacker's may have been turned to this address, "DNS rebinding"), must come from our own page if it comes from
a page at all, and its body must be JSON by name (see fields.py), which a form of another site cannot send.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elman.errors import ArgumentError
from elman.serve.problems import ApiError

KEYED = ("/v1/", "/metrics", "/openapi.json")  # all but /health and the page's own files
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": PAGE_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@dataclass(frozen=True)
class Doors:
    """Who may come in."""

    host: str  # that the service listens on
    key: str = ""  # that clients must have; none if it is empty
    hosts: tuple[str, ...] = ()  # other names by which it is reached
    origins: tuple[str, ...] = ()  # other sites whose pages may ask
    max_body: int = 1 << 20

    def __post_init__(self) -> None:
        key = self.key.strip()
        if self.key and not (key and key.isprintable()):  # what is no UTF-8 in the environment cannot be printed either
            raise ArgumentError("The key", expected="characters that can be printed", do="Set ELMAN_API_KEY to others.")
        object.__setattr__(self, "key", key)

    def knows_host(self, header: str) -> bool:
        name = _host_name(header)
        if is_loopback(name) or name in {host.lower() for host in (self.host, *self.hosts)}:
            return bool(name)
        if is_loopback(self.host):
            return False
        return _is_address(name) or name == socket.gethostname().lower()  # an address cannot be turned elsewhere

    def knows_origin(self, origin: str, host: str) -> bool:
        try:
            return origin in self.origins or urlsplit(origin).netloc.lower() == host.lower()
        except ValueError:  # no address at all
            return False

    def knows_key(self, authorization: str) -> bool:
        scheme, _, given = authorization.partition(" ")
        same = hmac.compare_digest(given.strip(" \t").encode("latin-1"), self.key.encode())  # bytes, as they came
        return scheme.lower() == "bearer" and same


class Guard:
    def __init__(self, app: ASGIApp, doors: Doors) -> None:
        self.app, self.doors = app, doors

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = message.setdefault("headers", [])
                headers += RAW_HEADERS
                if not any(name == b"cache-control" for name, _ in headers):
                    headers.append((b"cache-control", b"no-store" if _is_keyed(scope["path"]) else b"no-cache"))
            await send(message)

        try:
            self._check(scope)
        except ApiError as error:
            await error.response()(scope, receive, send_with_headers)
            return
        await self.app(scope, self._counted(receive), send_with_headers)

    def _check(self, scope: Scope) -> None:
        headers, doors = Headers(scope=scope), self.doors
        host = headers.get("host", "")
        if not doors.knows_host(host):
            raise ApiError(
                403,
                f"The host {host[:100]!r} is not a name of this service. elman serve --allow-host adds one.",
                code="host_not_allowed",
            )
        origin = headers.get("origin")
        if origin is not None and not doors.knows_origin(origin, host):
            raise ApiError(
                403,
                f"Pages of {origin[:100]!r} may not use this service. elman serve --allow-origin lets them.",
                code="origin_not_allowed",
            )
        if doors.key and _is_keyed(scope["path"]) and not doors.knows_key(headers.get("authorization", "")):
            given = "is not right" if "authorization" in headers else "is missing"
            raise ApiError(
                401,
                f"The API key {given}. Send it as Authorization: Bearer KEY.",
                code="invalid_api_key",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if "content-length" in headers and "transfer-encoding" in headers:  # proxies disagree on where such a body ends
            message = "Content-Length and Transfer-Encoding: expected one of them. Leave one out."
            raise ApiError(400, message, code="ambiguous_length", headers={"Connection": "close"})
        size = headers.get("content-length", "")
        if size.isdecimal() and int(size) > doors.max_body:
            raise self._too_large()

    def _counted(self, receive: Receive) -> Receive:
        """A body that does not say how long it is may not be longer either."""
        size = 0

        async def receive_and_count() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > self.doors.max_body:
                raise self._too_large()
            return message

        return receive_and_count

    def _too_large(self) -> ApiError:
        return ApiError(413, f"The body is larger than {self.doors.max_body:,} bytes", code="body_too_large")


def warnings(doors: Doors) -> Iterable[str]:
    """What a person should know before the doors open."""
    if not is_loopback(doors.host):
        if doors.key:
            yield f"Listening on {doors.host}: whoever reaches this machine and has the key can use the service."
        else:
            yield f"Listening on {doors.host} without a key: whoever reaches this machine can use the service."
            yield "Set ELMAN_API_KEY to ask for a key; until then no training can be started from the page."


def _is_keyed(path: str) -> bool:
    return path.startswith(KEYED) or path == "/v1"


def _host_name(header: str) -> str:
    """Without the port and the brackets of an IPv6 address."""
    try:
        return (urlsplit(f"//{header}").hostname or "").lower()
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
