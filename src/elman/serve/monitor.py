"""GET /metrics for Prometheus: requests, their duration, tokens, and the load of the engine."""

from __future__ import annotations

import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elman.serve.engine import Engine

# upper bounds of the buckets of the histograms, in seconds
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class _EngineMetrics(Collector):
    """The counters of the engine, read at each scrape."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def collect(self) -> Iterator[Metric]:
        engine = self.engine
        yield GaugeMetricFamily("elman_texts_active", "Texts that are being generated.", engine.active)
        tokens = CounterMetricFamily("elman_tokens", "Tokens that were read and generated.", labels=["kind"])
        tokens.add_metric(["prompt"], engine.tokens_read)
        tokens.add_metric(["completion"], engine.tokens_generated)
        yield tokens
        yield CounterMetricFamily("elman_turns", "Turns of the engine.", engine.turns)


class Monitor:
    def __init__(self, engine: Engine) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_EngineMetrics(engine))
        ProcessCollector(registry=self.registry)
        self.requests = Counter("elman_requests", "Requests.", ["route", "status"], registry=self.registry)
        self.seconds = Histogram(
            "elman_request_seconds", "Duration of a request.", ["route"], buckets=SECONDS, registry=self.registry
        )
        self._first = Histogram(
            "elman_first_token_seconds", "Time to the first token.", buckets=SECONDS, registry=self.registry
        )

    def first_token(self, seconds: float) -> None:
        self._first.observe(seconds)

    async def metrics(self) -> Response:
        """Metrics for Prometheus."""
        return Response(generate_latest(self.registry), media_type="text/plain; version=0.0.4")

    def middleware(self, app: ASGIApp) -> ASGIApp:
        async def measured(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await app(scope, receive, send)
                return
            status, start = 500, time.monotonic()

            async def send_and_record(message: Message) -> None:
                nonlocal status
                if message["type"] == "http.response.start":
                    status = message["status"]
                await send(message)

            try:
                await app(scope, receive, send_and_record)
            finally:
                route = getattr(scope.get("endpoint"), "__name__", "other")
                self.requests.labels(route, str(status)).inc()
                self.seconds.labels(route).observe(time.monotonic() - start)

        return measured
