"""What goes into a model of whole sequences, and what comes out: learned from examples, kept in vocabulary.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from elman.data.examples import Examples
from elman.data.inputs import Inputs, NumberInputs, inputs_from_json
from elman.data.ragged import Ragged
from elman.data.targets import Labels, Numbers, Targets, Written, targets_from_json
from elman.errors import CheckpointError
from elman.maths.arrays import Array

Condition = Labels | Numbers

# task: what comes out
WRITES = {"classify": Labels, "regress": Numbers, "tag": Labels, "generate": Written, "translate": Written}
SHAPES = tuple(WRITES)


@dataclass(frozen=True)
class Terms:
    """What goes in and what comes out."""

    task: str  # classify, regress, tag, generate, translate
    inputs: Inputs | Condition
    targets: Targets

    def to_json(self) -> dict[str, Any]:
        return {"task": self.task, "inputs": self.inputs.to_json(), "targets": self.targets.to_json()}

    @classmethod
    def from_json(cls, value: object) -> Terms:
        if not isinstance(value, Mapping) or value.get("task") not in list(SHAPES):
            raise CheckpointError("what goes into a run and out of it is damaged")
        task = value["task"]
        inputs = (targets_from_json if task == "generate" else inputs_from_json)(value.get("inputs"))
        targets = targets_from_json(value.get("targets"))
        if not isinstance(targets, WRITES[task]) or isinstance(inputs, Written):
            raise CheckpointError("what goes into a run and out of it is damaged")
        return cls(task, inputs, targets)

    def check(self, examples: Examples) -> Examples:
        """The examples, if they could be encoded by these terms; CheckpointError for others."""
        x, y, weights = examples.x, examples.y, examples.weights
        same = self.task != "tag" or (
            isinstance(x, Ragged) and isinstance(y, Ragged) and (x.lengths == y.lengths).all()
        )
        if not _fits(x, self.inputs, ragged=self.task != "generate"):
            raise CheckpointError("the examples of a run are damaged: their inputs do not fit its vocabulary")
        if not same or not _fits(y, self.targets, ragged=self.task in ("tag", "generate", "translate")):
            raise CheckpointError("the examples of a run are damaged: their targets do not fit its vocabulary")
        if weights.ndim != 1 or weights.dtype.kind != "f" or not (weights >= 0).all():
            raise CheckpointError("the examples of a run are damaged", expected="a weight for each, 0 or more")
        return examples


def _fits(part: Ragged | Array, terms: Inputs | Targets, *, ragged: bool) -> bool:
    """Whether these are ids of the vocabulary, or rows of as many numbers."""
    if isinstance(part, Ragged) != ragged:
        return False
    values = part.values if isinstance(part, Ragged) else part
    if isinstance(terms, NumberInputs | Numbers):
        return values.dtype.kind == "f" and values.shape[1:] == (terms.width,)
    known = values.dtype.kind in "iu" and values.ndim == 1
    return known and bool(((values >= 0) & (values < terms.width)).all())
