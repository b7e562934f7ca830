"""What goes into a model of whole sequences, and what comes out: learned from examples, kept in vocabulary.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from elman.data.inputs import Inputs, inputs_from_json
from elman.data.targets import Labels, Numbers, Targets, Written, targets_from_json
from elman.errors import CheckpointError

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
