"""What went wrong, in the JSON form that OpenAI's clients know: {"error": {message, type, param, code}}."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from elman.errors import ElmanError, VocabularyError
from elman.serve.plain import Json


class ApiError(Exception):
    """An answer that is not what was asked for."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.param, self.headers = status, code, param, headers

    def body(self) -> dict[str, Any]:
        kind = {401: "authentication_error", 429: "rate_limit_error", 503: "server_error", 500: "server_error"}
        return {
            "error": {
                "message": str(self),
                "type": kind.get(self.status, "invalid_request_error"),
                "param": self.param,
                "code": self.code,
            }
        }

    def response(self) -> Response:
        return Json(self.body(), status_code=self.status, headers=self.headers)


def busy(message: str) -> ApiError:
    return ApiError(429, message, code="rate_limit_exceeded", headers={"Retry-After": "1"})


def timed_out(seconds: float) -> ApiError:
    return ApiError(408, f"It took more than {seconds:g} seconds. Ask for less.", code="timeout")


def unknown_token(param: str, error: VocabularyError) -> ApiError:
    """In a client's words: who types commands is told of flags, which a client has not."""
    message = f"{param}: the model does not know {error.got}. Leave that out."
    return ApiError(400, message, code="unknown_token", param=param)


async def _api_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error.response()


async def _elman_error(request: Request, error: Exception) -> Response:
    """What Elman refuses is the client's mistake: its messages say what to do."""
    return ApiError(400, str(error), code="invalid_value").response()


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    messages = {404: f"There is nothing at {request.url.path}", 405: f"{request.method} cannot be used here"}
    message = messages.get(error.status_code, str(error.detail))
    codes = {404: "not_found", 405: "method_not_allowed"}
    return ApiError(error.status_code, message, code=codes.get(error.status_code), headers=error.headers).response()


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=400)  # which nobody reads


async def _defect(request: Request, error: Exception) -> Response:
    return ApiError(500, "Elman failed at this. The log of the service tells more.", code="internal_error").response()


HANDLERS: Mapping[Any, Any] = {
    ApiError: _api_error,
    ElmanError: _elman_error,
    HTTPException: _http_error,
    ClientDisconnect: _gone,
    Exception: _defect,
}
