"""The service, put together: one engine, the runs that were named, and the routes to them."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.resources import as_file, files
from pathlib import Path

from sse_starlette.sse import SendTimeoutError
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from elman.serve.completions import Completions
from elman.serve.engine import Deltas, Engine, hand_out
from elman.serve.guard import Doors, Guard, is_loopback
from elman.serve.limits import Limits
from elman.serve.looking import Looking
from elman.serve.monitor import Monitor
from elman.serve.plain import Json
from elman.serve.predicting import predict_route
from elman.serve.problems import HANDLERS, ApiError
from elman.serve.registry import Registry
from elman.serve.runs import Runs
from elman.serve.trainings import Trainings
from elman.serve.work import Work

HERE = Path(__file__).parent
AHEAD = 1
log = logging.getLogger("elman.serve")


class Service:
    """An ASGI application. What belongs to an event loop is made when one runs it."""

    def __init__(self, registry: Registry, doors: Doors, limits: Limits | None = None, *, runs: Path | None = None):
        self.registry, self.doors, self.limits = registry, doors, (limits or Limits()).check()
        self.runs_folder = runs or Path("runs")
        self.ready, self._ahead, self._taken = False, 0, threading.Condition()
        self.engine = Engine(self.limits.max_sequences, self._deliver)
        self.monitor = Monitor(self.engine)
        starlette = self._app()
        self.routes = starlette.routes
        app: ASGIApp = self.monitor.watch(Guard(starlette, doors))
        if doors.origins:
            headers = ["authorization", "content-type"]
            methods = ["GET", "POST", "DELETE"]
            app = CORSMiddleware(app, allow_origins=doors.origins, allow_methods=methods, allow_headers=headers)
        self._outermost = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(SendTimeoutError):  # a client that reads nothing
            await self._outermost(scope, receive, send)

    def _app(self) -> Starlette:
        limits, work = self.limits, Work(self.limits.max_seconds)
        allowed = is_loopback(self.doors.host) or bool(self.doors.key)
        self.trainings = Trainings(self.registry, limits, self.runs_folder, allowed=allowed)
        runs, looking = Runs(self.registry, limits.max_streams), Looking(self.registry, limits, work)
        self.ending = runs.ending  # set when the service is about to end
        completions = Completions(self.engine, self.registry, limits, self.monitor.first_token)

        async def complete(request: Request) -> Response:
            if not self.ready:
                raise ApiError(503, "The models are being loaded.", code="loading", headers={"Retry-After": "1"})
            return await completions(request)

        elman = [
            Route("/runs", runs.runs),
            Route("/runs/{name}", runs.run),
            Route("/runs/{name}/events", runs.events),
            Route("/corpora", runs.corpora),
            Route("/trainings", self.trainings.all),
            Route("/trainings", self.trainings.start, methods=["POST"]),
            Route("/trainings/{name}", self.trainings.stop, methods=["DELETE"]),
            Route("/predict", predict_route(self.registry, limits, work), methods=["POST"]),
            *looking.routes(),
        ]
        v1 = [
            Route("/completions", complete, methods=["POST"]),
            Route("/models", runs.models),
            Route("/models/{name}", runs.model),
            Mount("/elman", routes=elman),
        ]
        routes = [
            Route("/health", self.health),
            Route("/metrics", self.monitor.metrics),
            Route("/openapi.json", self.openapi),
            Route("/static/plotly.min.js", self.plotly),
            Mount("/v1", routes=v1),
            Mount("/", StaticFiles(directory=HERE / "page", html=True), name="page"),
        ]
        return Starlette(routes=routes, exception_handlers=HANDLERS, lifespan=self._life)

    # -- its life -----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _life(self, app: Starlette) -> AsyncIterator[None]:
        self._loop = asyncio.get_running_loop()
        warming = asyncio.create_task(asyncio.to_thread(self._warm_up))
        try:
            yield
        finally:
            await self.trainings.close()
            await warming
            await asyncio.to_thread(self.engine.close)

    def _warm_up(self) -> None:
        """Read and write a token with every model: where kernels are not compiled yet, that takes its time."""
        for served in self.registry:
            if served.task == "lm" and served.ready:
                try:
                    served.load().model.sample(2, top_k=2)
                except Exception:
                    log.exception("%s could not be tried", served.name)
        self.ready = True

    def _deliver(self, deltas: Deltas) -> None:
        """The engine is AHEAD turns of the event loop at most: where many come at once, they are let in first."""
        self._loop.call_soon_threadsafe(self._hand_out, deltas)
        with self._taken:
            self._ahead += 1
            self._taken.wait_for(lambda: self._ahead <= AHEAD, timeout=1)  # a loop that has ended holds nobody up

    def _hand_out(self, deltas: Deltas) -> None:
        with self._taken:
            self._ahead -= 1
            self._taken.notify()
        hand_out(deltas)

    # -- small routes -------------------------------------------------------------------------------------------------

    async def health(self, request: Request) -> Response:
        status = "failed" if not self.engine.alive else "ok" if self.ready else "loading"
        return Json({"status": status}, status_code=200 if status == "ok" else 503)

    async def openapi(self, request: Request) -> Response:
        return Json(json.loads((HERE / "openapi.json").read_bytes()))

    async def plotly(self, request: Request) -> Response:
        with as_file(files("plotly") / "package_data" / "plotly.min.js") as path:
            return FileResponse(path, media_type="text/javascript")


def new_service(
    paths: Sequence[Path], doors: Doors, limits: Limits | None = None, *, runs: Path | None = None
) -> Service:
    """A service for the runs at these paths; RunError for one that cannot be served."""
    return Service(Registry(paths), doors, limits, runs=runs)
