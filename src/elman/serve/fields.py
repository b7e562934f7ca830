"""The fields of a JSON body, each checked when it is taken; null is as good as absent, what is left over is refused."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NoReturn

from starlette.requests import Request

from elman.serve.problems import ApiError, timed_out


async def read_fields(request: Request, seconds: float) -> Fields:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        message = f"Content-Type: expected application/json, got {kind[:100]!r}"
        raise ApiError(415, message, code="unsupported_media_type")
    try:
        async with asyncio.timeout(seconds):
            body = await request.body()
    except TimeoutError:
        raise timed_out(seconds) from None
    try:
        value = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, f"The body is not JSON: {error}", code="invalid_json") from None
    if not isinstance(value, dict):
        raise ApiError(400, "The body: expected an object", code="invalid_type")
    return Fields(value)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


class Fields:
    def __init__(self, body: dict[str, Any]) -> None:
        self._left = dict(body)

    def take(self, name: str) -> Any:
        return self._left.pop(name, None)

    def refuse(self, name: str, expected: str, *, code: str = "invalid_value") -> NoReturn:
        raise ApiError(400, f"{name}: expected {expected}", code=code, param=name)

    def whole(self, name: str, default: int | None, low: int, high: int) -> Any:
        value = self.take(name)
        if value is None:
            return default
        if isinstance(value, float) and value.is_integer():
            value = int(value)  # 1.0 is a whole number, as JSON Schema sees it
        if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
            self.refuse(name, f"a whole number from {low} to {high}")
        return value

    def number(self, name: str, default: float | None, low: float, high: float, *, above: bool = False) -> Any:
        value = self.take(name)
        if value is None:
            return default
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if not fits or not low <= value <= high or (above and value == low):  # nor does NaN lie between
            self.refuse(name, f"a number {'above' if above else 'from'} {low:g} to {high:g}")
        return float(value)

    def flag(self, name: str) -> bool:
        value = self.take(name)
        if not isinstance(value, bool | None):
            self.refuse(name, "true or false")
        return bool(value)

    def text(self, name: str, default: str | None, most: int) -> Any:
        value = self.take(name)
        if value is None:
            return default
        if not isinstance(value, str) or len(value) > most:
            self.refuse(name, f"a text of at most {most} characters")
        return value

    def one_of(self, name: str, default: str, names: tuple[str, ...]) -> str:
        value = self.take(name)
        if value is None:
            return default
        if value not in names:
            self.refuse(name, f"one of {', '.join(names)}")
        return str(value)

    def required(self, name: str) -> None:
        if self._left.get(name) is None:
            raise ApiError(400, f"{name} is missing", code="missing_field", param=name)

    def only(self, name: str, *harmless: object) -> None:
        """A field of the convention that Elman has no use for: values that change nothing pass."""
        value = self.take(name)
        if value is not None and value not in harmless:
            shown = " or ".join(map(json.dumps, harmless))
            self.refuse(name, f"{shown}: Elman does not support others", code="unsupported_value")

    def end(self) -> None:
        if self._left:
            names = ", ".join(self._left)[:200]
            raise ApiError(400, f"Unrecognized request argument supplied: {names}", code="unknown_field")
