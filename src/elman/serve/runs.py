"""What is served: GET /v1/models as clients know it, and more about each run under /v1/elman/runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from elman.data import list_corpora
from elman.serve.events import follow, in_training
from elman.serve.plain import Json, plain
from elman.serve.problems import ApiError, busy
from elman.serve.registry import Registry, Served

SEND_SECONDS = 60.0  # after which a client that reads nothing has gone
GRACE = 5.0  # seconds in which a stream tells the last rows when the service ends


class Runs:
    def __init__(self, registry: Registry, max_streams: int) -> None:
        self.registry, self.max_streams, self.streams = registry, max_streams, 0
        self.ending, self._ended = threading.Event(), threading.Event()
        self._ended.set()
        self._reading = asyncio.Semaphore(1)

    async def models(self, request: Request) -> Response:
        return Json({"object": "list", "data": [_model(served) for served in self.registry if served.ready]})

    async def model(self, request: Request) -> Response:
        served = self.registry.get(request.path_params["name"])
        if not served.ready:
            raise ApiError(404, f"{served.name!r} has no model yet", code="model_not_found", param="model")
        return Json(_model(served))

    async def runs(self, request: Request) -> Response:
        return Json({"object": "list", "data": [_facts(served) for served in self.registry]})

    async def run(self, request: Request) -> Response:
        return Json(_facts(self.registry.get(request.path_params["name"])))

    async def events(self, request: Request) -> Response:
        """Server-sent events; with follow=false those until now."""
        served = self.registry.get(request.path_params["name"])
        on = request.query_params.get("follow", "true")
        if on not in ("true", "false"):
            raise ApiError(400, "follow: expected true or false", code="invalid_value", param="follow")
        if self.streams >= self.max_streams:
            raise busy(f"{self.max_streams} clients follow runs already. Try again in a moment.")
        self.streams += 1  # here and not when the stream begins, or many could come in between
        return Stream(self, follow(served.path, self.ending if on == "true" else self._ended, self._reading))

    async def corpora(self, request: Request) -> Response:
        """The texts that a training may be started on, by their names."""
        rows = [{"name": row.name, "description": row.description, "bytes": row.size} for row in list_corpora()]
        return Json({"object": "list", "data": rows})


class Stream(EventSourceResponse):
    """Counted until it ends, even where it never began."""

    def __init__(self, runs: Runs, told: AsyncGenerator[ServerSentEvent, None]) -> None:
        super().__init__(told, sep="\n", send_timeout=SEND_SECONDS, shutdown_grace_period=GRACE)
        self.runs, self.told = runs, told

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with aclosing(self.told):
                await super().__call__(scope, receive, send)
        finally:
            self.runs.streams -= 1


def _model(served: Served) -> dict[str, Any]:
    return {"id": served.name, "object": "model", "created": served.created, "owned_by": "elman"}


def _facts(served: Served) -> dict[str, Any]:
    facts: dict[str, Any] = plain({"object": "run", **served.facts(), "training": in_training(served.path)})
    return facts
