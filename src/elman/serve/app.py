"""The service: one engine, the served runs, and the routes."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from importlib.metadata import version
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, NoReturn

from fastapi import APIRouter, FastAPI, HTTPException, Request, Security
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from sse_starlette.sse import SendTimeoutError
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from elman.serve import schemas
from elman.serve.analysis_routes import AnalysisRoutes
from elman.serve.completions import Completions
from elman.serve.engine import Deltas, Engine, dispatch
from elman.serve.errors import HANDLERS, ApiError
from elman.serve.guard import AccessPolicy, Guard, is_loopback, needs_key
from elman.serve.json_response import JsonResponse
from elman.serve.limits import Limits
from elman.serve.monitor import Monitor
from elman.serve.predict_route import PredictRoute
from elman.serve.registry import Registry
from elman.serve.run_routes import RunRoutes
from elman.serve.trainings import TrainingRoutes
from elman.serve.worker import Worker

Responses = dict[int | str, dict[str, Any]]
HERE = Path(__file__).parent
MAX_TURNS_AHEAD = 1  # largest number of turns of the engine whose deltas the event loop has not dispatched yet
DESCRIPTION = "Trained recurrent networks over HTTP: OpenAI's completions, predictions, and analyses of the networks."
ERRORS = "400 invalid request, 401 missing or wrong key, 403 not allowed, 404 not found, 405 wrong method, "
ERRORS += "408 timeout, 409 not possible now, 413 too large, 415 not JSON, 429 busy; always with this body."
PLAIN_TEXT: Responses = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
EVENT_STREAM: Responses = {200: {"content": {"text/event-stream": {}}}}  # OpenAPI 3.1 cannot describe single events
LOADING: Responses = {503: {"model": schemas.ErrorResponse, "description": "The models are not loaded yet."}}
NOT_HEALTHY: Responses = {
    503: {"model": schemas.Health, "description": "The models are not loaded, or the engine failed."}
}
log = logging.getLogger("elman.serve")


class JsonRequest(Request):
    """A request whose body must be JSON, by its Content-Type and by its content."""

    async def body(self) -> bytes:
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            message = f"Content-Type: expected application/json, got {kind[:100]!r}"
            raise ApiError(415, message, code="unsupported_media_type")
        # FastAPI does not parse an empty body; here it is an error, like any other body that is not JSON
        return await super().body() or b" "

    async def json(self) -> Any:
        try:
            return json.loads(await self.body(), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise ApiError(400, f"The body is not JSON: {error}", code="invalid_json") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


class JsonRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await handler(JsonRequest(request.scope, request.receive))

        return handle


class Service:
    """An ASGI application."""

    def __init__(
        self, registry: Registry, policy: AccessPolicy, limits: Limits | None = None, *, runs: Path | None = None
    ) -> None:
        self.registry, self.policy, self.limits = registry, policy, (limits or Limits()).check()
        self.ready, self._ahead, self._delivered = False, 0, threading.Condition()
        self.engine = Engine(self.limits.max_sequences, self._deliver)
        self.monitor = Monitor(self.engine)
        allowed = is_loopback(policy.host) or bool(policy.key)
        self.trainings = TrainingRoutes(registry, self.limits, runs or Path("runs"), allowed=allowed)
        self._runs = RunRoutes(registry, self.limits.max_streams)
        self.closing = self._runs.closing  # set when the service shuts down
        self.api = self._new_api()
        app: ASGIApp = self.monitor.middleware(Guard(self.api, policy, self.limits))
        if policy.origins:
            headers, methods = ["authorization", "content-type"], ["GET", "POST", "DELETE"]
            app = CORSMiddleware(app, allow_origins=policy.origins, allow_methods=methods, allow_headers=headers)
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(SendTimeoutError):  # the client does not read its response
            await self._app(scope, receive, send)

    def _new_api(self) -> FastAPI:
        api = FastAPI(
            title="Elman",
            version=version("elman"),
            description=DESCRIPTION,
            license_info={"name": "MIT", "identifier": "MIT"},
            docs_url=None,  # these pages load their scripts from a CDN
            redoc_url=None,
            redirect_slashes=False,
            generate_unique_id_function=lambda route: route.name,
            lifespan=self._lifespan,
            exception_handlers=dict(HANDLERS),
            responses={"4XX": {"model": schemas.ErrorResponse, "description": ERRORS}},
        )
        key = [Security(HTTPBearer(auto_error=False, description="Required if ELMAN_API_KEY is set."))]
        router = APIRouter(dependencies=key)
        post = APIRouter(dependencies=key, route_class=JsonRoute)
        limits, worker = self.limits, Worker(self.limits.max_seconds)
        runs, trainings, predictions = self._runs, self.trainings, PredictRoute(self.registry, limits, worker)
        analyses = AnalysisRoutes(self.registry, limits, worker)
        self._completions = Completions(self.engine, self.registry, limits, self.monitor.first_token)

        api.get("/health", response_model=schemas.Health, responses=NOT_HEALTHY)(self.health)
        api.get("/static/plotly.min.js", include_in_schema=False)(self.plotly)
        router.get("/metrics", response_class=Response, responses=PLAIN_TEXT)(self.monitor.metrics)
        router.get("/v1/models", response_model=schemas.ModelList)(runs.models)
        router.get("/v1/models/{name}", response_model=schemas.Model)(runs.model)
        router.get("/v1/elman/runs", response_model=schemas.RunList)(runs.runs)
        router.get("/v1/elman/runs/{name}", response_model=schemas.Run)(runs.run)
        router.get("/v1/elman/runs/{name}/events", response_class=Response, responses=EVENT_STREAM)(runs.events)
        router.get("/v1/elman/corpora", response_model=schemas.CorpusList)(runs.corpora)
        router.get("/v1/elman/trainings", response_model=schemas.TrainingList)(trainings.trainings)
        router.delete("/v1/elman/trainings/{name}", response_model=schemas.Training)(trainings.stop_training)
        router.post("/v1/chat/completions", include_in_schema=False, response_model=None)(Completions.chat)
        streamed = EVENT_STREAM | LOADING
        post.post("/v1/completions", response_model=schemas.Completion, responses=streamed)(self.complete)
        post.post("/v1/elman/trainings", response_model=schemas.Training, status_code=201)(trainings.start_training)
        post.post("/v1/elman/predict", response_model=schemas.Prediction)(predictions.predict)
        post.post("/v1/elman/look/flow", response_model=schemas.Flow)(analyses.flow)
        post.post("/v1/elman/look/spectra", response_model=schemas.Spectra)(analyses.spectra)
        post.post("/v1/elman/look/units", response_model=schemas.Units)(analyses.units)
        post.post("/v1/elman/look/read", response_model=schemas.Reading)(analyses.read)
        post.post("/v1/elman/look/attribution", response_model=schemas.Attribution)(analyses.attribution)
        post.post("/v1/elman/look/attention", response_model=schemas.AttentionMap)(analyses.attention)
        post.post("/v1/elman/steps", response_model=schemas.Steps)(analyses.steps)
        api.include_router(router)
        api.include_router(post)
        page = StaticFiles(directory=HERE / "page", html=True)

        async def default(scope: Scope, receive: Receive, send: Send) -> None:
            """The page, if no route matches. Mounted at /, it would answer GET on a POST route with 404, not 405."""
            if needs_key(scope["path"]):
                raise HTTPException(404)
            await page(scope, receive, send)

        api.router.default = default
        return api

    # -- start and shutdown -------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        self._loop = asyncio.get_running_loop()
        warm_up = asyncio.create_task(asyncio.to_thread(self._warm_up))
        try:
            yield
        finally:
            await self.trainings.close()
            await warm_up
            await asyncio.to_thread(self.engine.close)

    def _warm_up(self) -> None:
        """Sample from every language model, which compiles the kernels that are not in the cache yet."""
        for served in self.registry:
            if served.task == "lm" and served.ready:
                try:
                    served.load().model.sample(2, top_k=2)
                except Exception:
                    log.exception("%s could not be sampled from", served.name)
        self.ready = True

    def _deliver(self, deltas: Deltas) -> None:
        """Called by the engine, which waits here while the event loop is behind, so that the loop accepts requests."""
        self._loop.call_soon_threadsafe(self._dispatch, deltas)
        with self._delivered:
            self._ahead += 1
            self._delivered.wait_for(lambda: self._ahead <= MAX_TURNS_AHEAD, timeout=1)  # the loop may have ended

    def _dispatch(self, deltas: Deltas) -> None:
        with self._delivered:
            self._ahead -= 1
            self._delivered.notify()
        dispatch(deltas)

    # -- small routes -------------------------------------------------------------------------------------------------

    async def complete(self, request: Request, body: schemas.CompletionRequest) -> Response:
        """Generate the continuation of a prompt."""
        if not self.ready:
            raise ApiError(503, "The models are being loaded.", code="loading", headers={"Retry-After": "1"})
        return await self._completions.complete(request, body)

    async def health(self) -> Response:
        """Whether the models are loaded and the engine runs."""
        status = "failed" if not self.engine.alive else "ok" if self.ready else "loading"
        return JsonResponse({"status": status}, status_code=200 if status == "ok" else 503)

    async def plotly(self) -> Response:
        with as_file(files("plotly") / "package_data" / "plotly.min.js") as path:
            return FileResponse(path, media_type="text/javascript")


def new_service(
    paths: Sequence[Path], policy: AccessPolicy, limits: Limits | None = None, *, runs: Path | None = None
) -> Service:
    """A service for the runs at these paths; RunError if one of them cannot be served."""
    return Service(Registry(paths), policy, limits, runs=runs)
