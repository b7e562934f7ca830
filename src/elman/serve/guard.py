"""ASGI middleware before every route: checks of host, origin, key and body, and security headers on every response.

A page on another site can make a browser send requests to this service. So a request must name a host that is ours
(otherwise the domain of an attacker may point to this address: DNS rebinding). If a page sends it, this must be our own
page or one of an allowed site. Its body must be declared as JSON (see app.py), which a form on another site cannot do.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elman.errors import ArgumentError
from elman.serve.errors import ApiError, timed_out
from elman.serve.limits import Limits

KEY_PATHS = ("/v1/", "/metrics", "/openapi.json")  # everything but /health and the files of the page
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
class AccessPolicy:
    """Which requests are allowed: by host, origin and key."""

    host: str  # address that the service listens on
    key: str = ""  # that clients must send; empty: no key is needed
    hosts: tuple[str, ...] = ()  # other names by which it is reached
    origins: tuple[str, ...] = ()  # other sites whose pages may use it

    def __post_init__(self) -> None:
        key = self.key.strip()
        if self.key and not (key and key.isprintable()):  # bytes that are not UTF-8 are not printable either
            raise ArgumentError("The key", expected="printable characters", do="Set ELMAN_API_KEY to another one.")
        object.__setattr__(self, "key", key)

    def allows_host(self, header: str) -> bool:
        name = _host_name(header)
        if is_loopback(name) or name in {host.lower() for host in (self.host, *self.hosts)}:
            return bool(name)
        if is_loopback(self.host):
            return False
        return _is_address(name) or name == socket.gethostname().lower()  # an address cannot be rebound

    def allows_origin(self, origin: str, host: str) -> bool:
        try:
            return origin in self.origins or urlsplit(origin).netloc.lower() == host.lower()
        except ValueError:  # not a URL
            return False

    def allows_key(self, authorization: str) -> bool:
        scheme, _, given = authorization.partition(" ")
        # headers are decoded as Latin-1; the bytes that were sent are compared
        same = hmac.compare_digest(given.strip(" \t").encode("latin-1"), self.key.encode())
        return scheme.lower() == "bearer" and same

    def warnings(self) -> Iterable[str]:
        """Warnings for the person who starts the service."""
        if not is_loopback(self.host):
            if self.key:
                yield f"Listening on {self.host}: anyone who reaches this machine and has the key can use the service."
            else:
                yield f"Listening on {self.host} without a key: anyone who reaches this machine can use the service."
                yield "Set ELMAN_API_KEY to require a key; without one, trainings cannot be started from the page."


class Guard:
    def __init__(self, app: ASGIApp, policy: AccessPolicy, limits: Limits) -> None:
        self.app, self.policy, self.limits = app, policy, limits

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
                    headers.append((b"cache-control", b"no-store" if needs_key(scope["path"]) else b"no-cache"))
            await send(message)

        try:
            self._check(scope)
        except ApiError as error:
            await error.response()(scope, receive, send_with_headers)
            return
        await self.app(scope, self._bounded(receive), send_with_headers)

    def _check(self, scope: Scope) -> None:
        headers, policy = Headers(scope=scope), self.policy
        host = headers.get("host", "")
        if not policy.allows_host(host):
            raise ApiError(
                403,
                f"The host {host[:100]!r} is not a name of this service. elman serve --allow-host adds one.",
                code="host_not_allowed",
            )
        origin = headers.get("origin")
        if origin is not None and not policy.allows_origin(origin, host):
            raise ApiError(
                403,
                f"Pages of {origin[:100]!r} may not use this service. elman serve --allow-origin allows them.",
                code="origin_not_allowed",
            )
        if policy.key and needs_key(scope["path"]) and not policy.allows_key(headers.get("authorization", "")):
            given = "is wrong" if "authorization" in headers else "is missing"
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
        if size.isdecimal() and int(size) > self.limits.max_body:
            raise self._too_large()

    def _bounded(self, receive: Receive) -> Receive:
        """Limit the size of a body, declared or not, and the time until it is complete."""
        size, complete = 0, False
        deadline = asyncio.get_running_loop().time() + self.limits.max_seconds

        async def receive_bounded() -> Message:
            nonlocal size, complete
            if complete:  # after the body comes only the disconnect
                return await receive()
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                raise timed_out(self.limits.max_seconds) from None
            complete = not message.get("more_body", False)
            size += len(message.get("body", b""))
            if size > self.limits.max_body:
                raise self._too_large()
            return message

        return receive_bounded

    def _too_large(self) -> ApiError:
        return ApiError(413, f"The body is larger than {self.limits.max_body:,} bytes", code="body_too_large")


def needs_key(path: str) -> bool:
    return path.startswith(KEY_PATHS) or path == "/v1"


def _host_name(header: str) -> str:
    """The name in a Host header, without the port and the brackets of an IPv6 address."""
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
