"""GET /metrics for Prometheus: requests, their time, tokens, and how full the engine is."""

from __future__ import annotations

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elman.serve.engine import Engine

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class _EngineFigures(Collector):
    """Read from the engine when somebody asks: counting costs it nothing."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def collect(self) -> Iterator[Metric]:
        engine = self.engine
        yield GaugeMetricFamily("elman_texts_active", "Texts that are being written.", engine.active)
        tokens = CounterMetricFamily("elman_tokens", "Tokens that were read and written.", labels=["kind"])
        tokens.add_metric(["prompt"], engine.tokens_read)
        tokens.add_metric(["completion"], engine.tokens_written)
        yield tokens
        yield CounterMetricFamily("elman_turns", "Turns of the engine.", engine.turns)


class Monitor:
    def __init__(self, engine: Engine) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_EngineFigures(engine))
        ProcessCollector(registry=self.registry)
        self.requests = Counter("elman_requests", "Requests.", ["route", "status"], registry=self.registry)
        self.seconds = Histogram(
            "elman_request_seconds", "Time of a request.", ["route"], buckets=SECONDS, registry=self.registry
        )
        self._first = Histogram(
            "elman_first_token_seconds", "Time to the first token.", buckets=SECONDS, registry=self.registry
        )

    def first_token(self, seconds: float) -> None:
        self._first.observe(seconds)

    async def metrics(self, request: Request) -> Response:
        return Response(generate_latest(self.registry), media_type="text/plain; version=0.0.4")

    def watch(self, app: ASGIApp) -> ASGIApp:
        async def watched(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            status, began = 500, time.monotonic()

            async def send_and_see(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                await send(message)

            try:
                await app(scope, receive, send_and_see)
            finally:
                route = getattr(scope.get("endpoint"), "__name__", "other")
                self.requests.labels(route, str(status)).inc()
                self.seconds.labels(route).observe(time.monotonic() - began)

        return watched
