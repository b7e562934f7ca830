"""All parameters of a network, or all their gradients, in one contiguous buffer with named views."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from elman.maths.arrays import Array, FloatType

Shapes = Mapping[str, tuple[int, ...]]


class Parameters(Mapping[str, Array]):
    """parameters["layers.0.W_hh"] is a view into parameters.buffer, which holds all parameters."""

    def __init__(self, shapes: Shapes, dtype: FloatType) -> None:
        self.shapes = dict(shapes)
        self.buffer = np.zeros(sum(int(np.prod(shape)) for shape in self.shapes.values()), dtype)
        self._make_views()

    def _make_views(self) -> None:
        sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
        self.offsets = dict(zip(self.shapes, np.cumsum([0, *sizes]).tolist(), strict=False))
        self._views: dict[str, Array] = {}
        self._parts: dict[str, dict[str, Array]] = {}
        for (name, shape), size in zip(self.shapes.items(), sizes, strict=True):
            view = self.buffer[self.offsets[name] : self.offsets[name] + size].reshape(shape)
            prefix, _, short = name.rpartition(".")
            self._views[name] = self._parts.setdefault(prefix, {})[short] = view

    def __repr__(self) -> str:
        return f"<Parameters {', '.join(f'{name} {shape}' for name, shape in self.shapes.items())}>"

    def __getstate__(self) -> dict[str, Any]:
        return {"shapes": self.shapes, "buffer": self.buffer}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Make the views again, so that those of a copy belong to its own buffer."""
        self.__dict__ |= state
        self._make_views()

    def zeros(self) -> Parameters:
        """New Parameters of the same shapes and dtype, all 0: for gradients."""
        return Parameters(self.shapes, self.buffer.dtype)

    def part(self, prefix: str) -> dict[str, Array]:
        """The parameters "PREFIX.NAME" by NAME: part("layers.0")["W_hh"] is parameters["layers.0.W_hh"]."""
        return self._parts[prefix]

    def __getitem__(self, name: str) -> Array:
        return self._views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)
