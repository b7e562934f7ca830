"""The inputs and targets of a model: vocabularies, classes, and the mean and standard deviation of numbers.

vocabulary.json of a run holds them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from elman.data.examples import Examples
from elman.data.inputs import Inputs, NumberInputs, inputs_from_json
from elman.data.ragged import Ragged
from elman.data.targets import Labels, Numbers, Targets, TokenTargets, targets_from_json
from elman.data.vocabulary import Vocabulary
from elman.data.vocabulary_json import vocabulary_from_json
from elman.errors import CheckpointError
from elman.maths.arrays import Array

# the type of the targets of each task that learns from examples
TARGETS = {"classify": Labels, "regress": Numbers, "tag": Labels, "generate": TokenTargets, "translate": TokenTargets}
ALL_TASKS = ("lm", *TARGETS)


@dataclass(frozen=True)
class TaskSpec:
    """A task, and the encoders of its inputs and targets: vocabularies, classes, means and standard deviations.

    Parameters
    ----------
    task : {"lm", "classify", "regress", "tag", "generate", "translate"}
    inputs : Vocabulary, Inputs, Labels or Numbers
        Encodes the input of the network. The input of a generator is one label or vector for each sequence.
    targets : Vocabulary, Labels, Numbers or TokenTargets
        Encodes the targets. Inputs and targets of a language model have the same vocabulary.
    """

    task: str
    inputs: Vocabulary | Inputs | Labels | Numbers
    targets: Vocabulary | Targets

    @classmethod
    def language_model(cls, vocabulary: Vocabulary) -> TaskSpec:
        return cls("lm", vocabulary, vocabulary)

    @property
    def vocabulary(self) -> Vocabulary:
        """The vocabulary of a language model."""
        assert isinstance(self.inputs, Vocabulary)
        return self.inputs

    @property
    def n_inputs(self) -> int:
        """The number of different tokens or labels, or of features."""
        return _width(self.inputs)

    @property
    def n_outputs(self) -> int:
        """The number of different tokens or classes, or of predicted numbers."""
        return _width(self.targets)

    def encode_inputs(self, X: Any) -> Ragged | Array:
        """Encode sequences, or the label or vector of each sequence, for the network."""
        return self.inputs.encode(X)

    def encode_targets(self, y: Any) -> Ragged | Array:
        """Encode classes, numbers or token sequences for the loss; tags are encoded by Labels.encode_sequences."""
        return self.targets.encode(y)

    def to_json(self) -> dict[str, Any]:
        if self.task == "lm":
            return self.vocabulary.to_json()
        return {"task": self.task, "inputs": self.inputs.to_json(), "targets": self.targets.to_json()}

    @classmethod
    def from_json(cls, task: str, value: object) -> TaskSpec:
        """The spec of this task whose to_json gave this value; CheckpointError if there is none."""
        if task == "lm":
            return cls.language_model(vocabulary_from_json(value))
        if not isinstance(value, Mapping) or value.get("task") != task or task not in TARGETS:
            raise _not_of(task)
        inputs = (targets_from_json if task == "generate" else inputs_from_json)(value.get("inputs"))
        targets = targets_from_json(value.get("targets"))
        if not isinstance(targets, TARGETS[task]) or isinstance(inputs, TokenTargets):
            raise _not_of(task)
        return cls(task, inputs, targets)

    def check(self, examples: Examples) -> Examples:
        """Return the examples if they fit this spec; otherwise raise CheckpointError."""
        x, y, weights = examples.x, examples.y, examples.weights
        aligned = self.task != "tag" or (
            isinstance(x, Ragged) and isinstance(y, Ragged) and (x.lengths == y.lengths).all()
        )
        if not _fits(x, self.inputs, ragged=self.task != "generate"):
            raise CheckpointError("the examples of a run are damaged: their inputs do not fit its vocabulary")
        if not aligned or not _fits(y, self.targets, ragged=self.task in ("tag", "generate", "translate")):
            raise CheckpointError("the examples of a run are damaged: their targets do not fit its vocabulary")
        if weights.ndim != 1 or weights.dtype.kind != "f" or not (weights >= 0).all():
            raise CheckpointError("the examples of a run are damaged", expected="one weight for each, 0 or more")
        return examples


def _not_of(task: str) -> CheckpointError:
    return CheckpointError("the vocabulary of a model is damaged", expected=f"inputs and targets of task {task}")


def _width(encoder: Vocabulary | Inputs | Targets) -> int:
    return len(encoder) if isinstance(encoder, Vocabulary) else encoder.width


def _fits(part: Ragged | Array, encoder: Vocabulary | Inputs | Targets, *, ragged: bool) -> bool:
    """Whether x or y of examples has only ids of the encoder, or as many numbers per row as the encoder has.

    `ragged`: whether it must have a sequence for each example.
    """
    if isinstance(part, Ragged) != ragged:
        return False
    values, width = part.values if isinstance(part, Ragged) else part, _width(encoder)
    if isinstance(encoder, NumberInputs | Numbers):
        return values.dtype.kind == "f" and values.shape[1:] == (width,)
    return values.dtype.kind in "iu" and values.ndim == 1 and bool(((values >= 0) & (values < width)).all())
