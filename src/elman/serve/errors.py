"""Errors in the JSON form that OpenAI's clients expect: {"error": {message, type, param, code}}."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import fastapi
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from elman.errors import ElmanError, VocabularyError
from elman.serve.json_response import JsonResponse

TYPES = {401: "authentication_error", 429: "rate_limit_error", 500: "server_error", 503: "server_error"}


class ApiError(fastapi.HTTPException):
    """An error that is sent to the client."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, headers)
        self.code, self.param = code, param

    def body(self) -> dict[str, Any]:
        kind = TYPES.get(self.status_code, "invalid_request_error")
        return {"error": {"message": self.detail, "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> Response:
        return JsonResponse(self.body(), status_code=self.status_code, headers=self.headers)


def invalid(param: str, expected: str, *, code: str = "invalid_value") -> ApiError:
    """A field whose value cannot be used."""
    return ApiError(400, f"{param}: expected {expected}", code=code, param=param)


def busy(message: str) -> ApiError:
    return ApiError(429, message, code="rate_limit_exceeded", headers={"Retry-After": "1"})


def timed_out(seconds: float) -> ApiError:
    return ApiError(408, f"The request took longer than {seconds:g} seconds. Ask for less.", code="timeout")


def unknown_token(param: str, error: VocabularyError) -> ApiError:
    """The error for the client, without the command-line flags that its message suggests."""
    message = f"{param}: the model does not know {error.got}. Remove it from the text."
    return ApiError(400, message, code="unknown_token", param=param)


def from_validation(errors: Sequence[Any]) -> ApiError:
    """The unknown fields, or else the first error that pydantic found, with status 400 as OpenAI answers, not 422."""
    unknown = [str(error["loc"][-1]) for error in errors if error["type"] == "extra_forbidden"]
    if unknown:
        return ApiError(
            400, f"Unrecognized request argument supplied: {', '.join(unknown)[:200]}", code="unknown_field"
        )
    error = errors[0]
    path = [part for part in error["loc"] if part not in ("body", "query", "path")]
    if not path:
        return ApiError(400, "The body: expected a JSON object", code="invalid_type")
    param = str(path[0])
    if error["type"] == "missing":
        return ApiError(400, f"{param} is missing", code="missing_field", param=param)
    where = ".".join(map(str, path))
    if error["type"].startswith("elman_"):  # our validators give the whole message
        return ApiError(400, f"{where}: {error['msg']}", code=error["type"].removeprefix("elman_"), param=param)
    message = error["msg"].replace("Input should be", "expected", 1)
    if error["type"].startswith(("greater_than", "less_than")):
        message = f"{message.replace('expected', 'expected a number', 1)}, got {error['input']}"
    return ApiError(400, f"{where}: {message}", code="invalid_value", param=param)


async def _api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error.response()


async def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return from_validation(error.errors()).response()


async def _elman_error(request: Request, error: Exception) -> Response:
    """Elman's own errors are mistakes of the client; their messages say what to do."""
    return ApiError(400, str(error), code="invalid_value").response()


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    messages = {404: f"There is nothing at {request.url.path}", 405: f"{request.method} is not allowed here"}
    message = messages.get(error.status_code, str(error.detail))
    codes = {404: "not_found", 405: "method_not_allowed"}
    return ApiError(error.status_code, message, code=codes.get(error.status_code), headers=error.headers).response()


async def _disconnected(request: Request, error: Exception) -> Response:
    return Response(status_code=400)  # the client is gone and does not read it


async def _internal_error(request: Request, error: Exception) -> Response:
    return ApiError(500, "Internal error. The log of the service has the details.", code="internal_error").response()


HANDLERS: Mapping[Any, Any] = {
    ApiError: _api_error,
    RequestValidationError: _validation_error,
    ElmanError: _elman_error,
    HTTPException: _http_error,
    ClientDisconnect: _disconnected,
    Exception: _internal_error,
}
