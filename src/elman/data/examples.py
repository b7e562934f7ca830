"""Encoded training examples: inputs, targets and weights."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from elman.data.ragged import Ragged
from elman.data.streams import edges_of
from elman.errors import CheckpointError
from elman.maths.arrays import Array


@dataclass(frozen=True)
class Examples:
    """n examples, encoded for the network."""

    x: Ragged | Array  # sequences; of a generator (n,) label ids or (n, X) numbers
    y: Ragged | Array  # sequences of ids, (n,) class ids or (n, Y) numbers
    weights: Array  # (n,)
    class_weights: Array | None = None  # (Y,), only for taggers: a weight per tag, multiplied with that of the example
    groups: Array | None = None  # (n,) numbers from 0; only for translators: equal sources are one group

    def __len__(self) -> int:
        return len(self.weights)

    def take(self, rows: Array) -> Examples:
        """The examples with these indices."""
        x, y = (part.take(rows) if isinstance(part, Ragged) else part[rows] for part in (self.x, self.y))
        groups = None if self.groups is None else self.groups[rows]
        return replace(self, x=x, y=y, weights=self.weights[rows], groups=groups)

    def lengths(self) -> Array:
        """The length of the input sequence plus that of the target sequence (n,), by which batches are formed."""
        total = np.zeros(len(self), np.int64)
        for part in (self.x, self.y):
            if isinstance(part, Ragged):
                total += part.lengths
        return total

    def split(self, fraction: float, rng: np.random.Generator) -> tuple[Examples, Examples]:
        """Split at random; the second part has this fraction of the examples, and both keep their order."""
        held = held_out(len(self), fraction, rng)
        return self.take(np.flatnonzero(~held)), self.take(np.flatnonzero(held))

    def arrays(self) -> dict[str, Array]:
        """All parts as arrays by name, to be saved."""
        found = {"weights": self.weights}
        for name in ("class_weights", "groups"):
            if (part := getattr(self, name)) is not None:
                found[name] = part
        for name, part in (("x", self.x), ("y", self.y)):
            if isinstance(part, Ragged):
                found |= {f"{name}.values": part.values, f"{name}.lengths": part.lengths}
            else:
                found[name] = part
        return found

    @classmethod
    def from_arrays(cls, arrays: dict[str, Array], *, classes: int | None = None) -> Examples:
        """The examples of which arrays() gave these arrays; CheckpointError if they are damaged.

        `classes` is the number of class weights, if it is known.
        """
        parts: dict[str, Ragged | Array] = {}
        try:
            for name in ("x", "y"):
                if name in arrays:
                    parts[name] = arrays[name]
                    continue
                values, lengths = arrays[f"{name}.values"], arrays[f"{name}.lengths"]
                if (
                    lengths.ndim != 1
                    or lengths.dtype != np.int64
                    or lengths.sum() != len(values)
                    or ((lengths < 0) | (lengths > len(values))).any()  # their sum may overflow
                ):
                    raise ValueError(name)
                parts[name] = Ragged(values, lengths)
            weights = arrays["weights"]
            if not len(parts["x"]) == len(parts["y"]) == len(weights):
                raise ValueError("weights")
            class_weights = arrays.get("class_weights")
            if class_weights is not None:
                y = parts["y"].values if isinstance(parts["y"], Ragged) else parts["y"]
                expected = class_weights.size if classes is None else classes
                is_float = class_weights.dtype.kind == "f"
                if not is_float or class_weights.shape != (expected,) or y.max(initial=-1) >= expected:
                    raise ValueError("class_weights")
            groups = arrays.get("groups")
            if groups is not None and (groups.shape != weights.shape or groups.dtype != np.int64):
                raise ValueError("groups")
            # a random split (RowSplit.draw) allocates memory for all numbers of groups up to the highest
            if groups is not None and ((groups < 0) | (groups >= len(groups))).any():
                raise ValueError("groups")
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"the examples of a run are damaged: {error!r}") from None
        return cls(parts["x"], parts["y"], weights, class_weights, groups)


def sequence_examples(ids: Array, end: int) -> Examples:
    """Each sequence as an example for a network with an output at every step: y has the token after each of x."""
    lengths = np.diff(edges_of(ids, end))
    return Examples(Ragged(ids[:-1], lengths), Ragged(ids[1:], lengths), np.ones(len(lengths)))


def held_out(n: int, fraction: float, rng: np.random.Generator) -> Array:
    """A mask (n,) of the examples that are held out: this fraction of all, drawn at random."""
    held = np.zeros(n, bool)
    held[rng.permutation(n)[: round(fraction * n)]] = True
    return held
