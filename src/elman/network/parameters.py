"""All parameters of a network, or all their gradients, in one contiguous buffer with named views."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from elman.maths.arrays import Array, FloatType

Shapes = Mapping[str, tuple[int, ...]]


class Parameters(Mapping[str, Array]):
    """parameters["layers.0.W_hh"] is a view into parameters.buffer: one pass over the buffer reaches them all."""

    def __init__(self, shapes: Shapes, dtype: FloatType) -> None:
        self.shapes = dict(shapes)
        sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
        self.buffer = np.zeros(sum(sizes), dtype)
        parts = np.split(self.buffer, np.cumsum(sizes)[:-1])
        self._views = {name: part.reshape(self.shapes[name]) for name, part in zip(self.shapes, parts, strict=True)}

    def zeros(self) -> Parameters:
        """Room for the gradients of these parameters."""
        return Parameters(self.shapes, self.buffer.dtype)

    def __getitem__(self, name: str) -> Array:
        return self._views[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    def __len__(self) -> int:
        return len(self._views)
