"""All parameters of a network, or all their gradients, in one contiguous buffer with named views."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from elman.maths.arrays import Array, FloatType

Shapes = Mapping[str, tuple[int, ...]]


class Parameters(Mapping[str, Array]):
    """parameters["layers.0.W_hh"] is a view into parameters.buffer: one pass over the buffer reaches them all."""

    def __init__(self, shapes: Shapes, dtype: FloatType) -> None:
        self.shapes = dict(shapes)
        self.buffer = np.zeros(sum(int(np.prod(shape)) for shape in self.shapes.values()), dtype)
        self._name_parts()

    def _name_parts(self) -> None:
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes.values()])
        parts = np.split(self.buffer, ends[:-1])
        self._views = {name: part.reshape(self.shapes[name]) for name, part in zip(self.shapes, parts, strict=True)}

    def __getstate__(self) -> dict[str, Any]:
        return {"shapes": self.shapes, "buffer": self.buffer}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy's views are views of its own buffer."""
        self.__dict__ |= state
        self._name_parts()

    def zeros(self) -> Parameters:
        """Room for the gradients of these parameters."""
        return Parameters(self.shapes, self.buffer.dtype)

    def __getitem__(self, name: str) -> Array:
        return self._views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)
