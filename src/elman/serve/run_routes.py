"""GET /v1/models as OpenAI's clients expect it, and more about each run under /v1/elman/runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Literal

from fastapi import Query
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from elman.data import list_corpora
from elman.serve.errors import ApiError, busy
from elman.serve.json_response import JsonResponse, to_jsonable
from elman.serve.metrics_stream import follow, is_training
from elman.serve.registry import Registry, ServedRun

SEND_SECONDS = 60.0  # after which a client that reads nothing is disconnected
SHUTDOWN_SECONDS = 5.0  # for the last rows of a stream when the service ends


class RunRoutes:
    def __init__(self, registry: Registry, max_streams: int) -> None:
        self.registry, self.max_streams, self.streams = registry, max_streams, 0
        self.closing, self._closed = threading.Event(), threading.Event()
        self._closed.set()  # always set, for streams that end after the rows that exist
        self._reading = asyncio.Semaphore(1)  # one stream at a time reads its file

    async def models(self) -> Response:
        """The models that are served."""
        return JsonResponse({"object": "list", "data": [_model(served) for served in self.registry if served.ready]})

    async def model(self, name: str) -> Response:
        """One model."""
        served = self.registry.get(name)
        if not served.ready:
            raise ApiError(404, f"{served.name!r} has no model yet", code="model_not_found", param="model")
        return JsonResponse(_model(served))

    async def runs(self) -> Response:
        """The runs that are served, in training or trained."""
        return JsonResponse({"object": "list", "data": [_summary(served) for served in self.registry]})

    async def run(self, name: str) -> Response:
        """One run."""
        return JsonResponse(_summary(self.registry.get(name)))

    async def events(
        self, name: str, follow_: Annotated[Literal["true", "false"], Query(alias="follow")] = "true"
    ) -> Response:
        """The rows of metrics of a run as server-sent events; unless follow=false, also new rows while it trains."""
        served = self.registry.get(name)
        if self.streams >= self.max_streams:
            raise busy(f"{self.max_streams} clients follow runs already. Try again in a moment.")
        self.streams += 1  # not when the stream starts, or more could be admitted in between
        closing = self.closing if follow_ == "true" else self._closed
        return MetricsResponse(self, follow(served.path, closing, self._reading))

    async def corpora(self) -> Response:
        """The known corpora, on which a training can be started by name."""
        rows = [
            {"name": row.name, "description": row.description, "bytes": row.size} for row in list_corpora(texts=True)
        ]
        return JsonResponse({"object": "list", "data": rows})


class MetricsResponse(EventSourceResponse):
    """The metrics of a run for one client; counts in `RunRoutes.streams` until it ends, even if it sends nothing."""

    def __init__(self, routes: RunRoutes, events: AsyncGenerator[ServerSentEvent, None]) -> None:
        super().__init__(events, sep="\n", send_timeout=SEND_SECONDS, shutdown_grace_period=SHUTDOWN_SECONDS)
        self.routes, self.events = routes, events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with aclosing(self.events):
                await super().__call__(scope, receive, send)
        finally:
            self.routes.streams -= 1


def _model(served: ServedRun) -> dict[str, Any]:
    return {"id": served.name, "object": "model", "created": served.created, "owned_by": "elman"}


def _summary(served: ServedRun) -> dict[str, Any]:
    summary: dict[str, Any] = to_jsonable({"object": "run", **served.summary(), "training": is_training(served.path)})
    return summary
