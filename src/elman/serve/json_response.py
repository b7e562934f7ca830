"""JSON responses: arrays become lists, dataclasses and named tuples objects, NaN and infinity null."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from starlette.responses import Response


def to_jsonable(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return to_jsonable(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_jsonable(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return to_jsonable(value._asdict())
    if isinstance(value, Mapping):
        return {str(key): to_jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_jsonable(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def dumps(value: Any) -> str:
    """JSON in ASCII: a generated text can contain half of a surrogate pair, which UTF-8 cannot encode."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


class JsonResponse(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return dumps(content).encode()
