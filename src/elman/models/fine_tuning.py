"""Fine-tuning: vocabularies are merged, and the weights of a trained model are copied token by token.

A known token keeps its row of the embedding (or of W_xh), its column of W_hy and its entry of b_y; a known class or tag
keeps its column of W_hy and its entry of b_y; a known label of `generate` keeps its row of W_ch. Rows, columns and
entries of new tokens, classes and labels have their initial values. All other parameters are copied: they must have the
same shape. Numbers are standardized as in the first training.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from elman.config import OPTIONS, PRESETS, defaults, rate_for
from elman.data import CharVocabulary, Corpus, Vocabulary
from elman.data.examples import Examples
from elman.data.inputs import NumberInputs, TokenInputs
from elman.data.ragged import Ragged
from elman.data.symbols import SPECIAL, Symbols
from elman.data.targets import Labels, Numbers
from elman.data.words import WordVocabulary
from elman.errors import ArgumentError, ShapeError, option
from elman.maths.arrays import Array
from elman.models.evaluation import evaluate_examples, mean_loss
from elman.models.fitted import FittedModel
from elman.models.task_spec import TaskSpec

RATE = 0.25  # default learning rate, as a fraction of that of the first training
# options that must be those of the first training
KEPT = [name for name, option in OPTIONS.items() if option.fixed and option.group == "network"]
KEPT += ["tokens", "target_tokens", "lowercase"]
MAX_OLD_TOKENS = 50_000  # tokens of the old text that are evaluated before and after training


@dataclass(frozen=True)
class Merged:
    """The inputs and targets of the new model, and their indices in the old one."""

    spec: TaskSpec
    inputs: Array  # (X,) for each input of the new model its index in the old one, -1 if it is new
    targets: Array  # (Y,) the same for each target


@dataclass(frozen=True)
class Origin:
    """The model that a training starts from, and its own validation data, to measure forgetting."""

    model: FittedModel
    merged: Merged
    old: Array | Examples | None = None  # a text, or examples, encoded for the old model
    name: str = ""  # the path of its run

    def losses(self, model: FittedModel, new: Array | Examples, *, trained: bool) -> dict[str, float | None]:
        """The losses of the new model on the old and the new data.

        Before it is trained, the loss on the old data is that of the old model.
        """
        old = _loss(model, self._reencoded()) if trained else _loss(self.model, self.old)
        return {"old": old, "new": _loss(model, new)}

    def _reencoded(self) -> Array | Examples | None:
        """The old data encoded for the new model; None if they contain dropped tokens or labels."""
        if self.old is None:
            return None
        spec, m = self.model.spec, self.merged
        maps = [_inverse(m.inputs, spec.n_inputs), _inverse(m.targets, spec.n_outputs)]
        if isinstance(self.old, np.ndarray):
            ids = maps[0][self.old]
            return ids if ids.size and ids.min() >= 0 else None
        parts = []
        for part, encoder, back in zip((self.old.x, self.old.y), (spec.inputs, spec.targets), maps, strict=True):
            values = part.values if isinstance(part, Ragged) else part
            if not isinstance(encoder, NumberInputs | Numbers):
                values = back[values]
                if values.size and values.min() < 0:
                    return None
            parts.append(Ragged(values, part.lengths) if isinstance(part, Ragged) else values)
        return Examples(parts[0], parts[1], self.old.weights)


def _inverse(places: Array, size: int) -> Array:
    """For each index of the old model the index in the new one, or -1."""
    back = np.full(size, -1)
    known = np.flatnonzero(places >= 0)
    back[places[known]] = known
    return back


def _loss(model: FittedModel, data: Array | Examples | None) -> float | None:
    if data is None or len(data) < 2:
        return None
    if isinstance(data, Examples):
        return evaluate_examples(model.network, model.parameters, data).loss
    return mean_loss(model.head_network, model.parameters, data)


def check_start(start: object, allowed: type, model: object) -> None:
    """Raise ArgumentError unless `start` is a model of an allowed class, which `model` can start from."""
    if not isinstance(start, allowed):
        expected = f"a {type(model).__name__} or the path of its run"
        raise ArgumentError("start", expected=expected, got=type(start).__name__)


def options_of(start: FittedModel, task: str, given: Mapping[str, Any], preset: str | None = None) -> dict[str, Any]:
    """The given options, with those of the network of the model to start from, and by default a lower learning rate."""
    if start.spec.task != task:
        raise ArgumentError("the model to start from", expected=f"one of task {task}", got=f"task {start.spec.task}")
    known = start.config.options()
    for name in KEPT:
        value = given.get(name)
        if value is not None and value != known[name] and not (name in ("tokens", "target_tokens") and value == "auto"):
            raise ArgumentError(
                option(name),
                expected=f"{known[name]!r}, as in the model that training starts from",
                got=repr(value),
                do=f"Leave {option(name)} out, or train from the beginning.",
            )
    kept = {name: known[name] for name in KEPT if task in OPTIONS[name].tasks}
    if isinstance(start.spec.inputs, TokenInputs) and start.spec.inputs.symbols.kind != "list":
        kept["tokens"] = start.spec.inputs.symbols.kind  # the kind that auto has chosen
    options = {name: value for name, value in given.items() if value is not None}
    chosen = defaults(task, start.config.cell) | PRESETS.get(preset or "", {}) | options
    usual: dict[str, Any] = {"learning_rate": RATE * rate_for(start.config, chosen["optimizer"])}
    if task == "lm":
        usual["sequences"] = start.config.sequences
    return usual | options | kept


def merge_specs(old: TaskSpec, new: TaskSpec, *, drop_unused: bool = False) -> Merged:
    """The inputs and targets of a training that starts from a model.

    Parameters
    ----------
    old : TaskSpec
        The inputs and targets of the model that training starts from.
    new : TaskSpec
        Those of the new data.
    drop_unused : bool
        Leave out tokens and classes that the new data do not have.

    Returns
    -------
    Merged
    """
    if new.task == "lm":
        vocabulary = merge_vocabularies(old.vocabulary, new.vocabulary, drop_unused=drop_unused)
        places = _places(old.vocabulary.tokens, vocabulary.tokens)
        return Merged(TaskSpec.language_model(vocabulary), places, places)
    inputs, of_inputs = _merge(old.inputs, new.inputs, drop_unused)
    targets, of_targets = _merge(old.targets, new.targets, drop_unused)
    return Merged(TaskSpec(new.task, inputs, targets), of_inputs, of_targets)


def merge_vocabularies(old: Vocabulary, new: Vocabulary, *, drop_unused: bool = False) -> Vocabulary:
    """The tokens of both, or with `drop_unused` those of the new text only; bytes and subwords stay as they were.

    >>> merge_vocabularies(CharVocabulary("ab"), CharVocabulary("bc")).tokens
    ('a', 'b', 'c')
    """
    if old.kind != new.kind:
        raise ArgumentError("tokens", expected=f"{old.kind}, as in the model that training starts from", got=new.kind)
    if old.end is not None and new.end is None:
        expected = f"sequences, as in the model that training starts from: a list, or {option('sequences', 'lines')}"
        raise ArgumentError("the text", expected=expected, got="one text")
    merged = old  # bytes and subwords can encode any text
    tokens = (*old.tokens[: old.end], *new.tokens[: new.end])
    if isinstance(old, CharVocabulary | WordVocabulary):
        merged = new if drop_unused else type(old)(dict.fromkeys(tokens))
    return merged if new.end is None else merged.with_end()


def merge_corpus(corpus: Corpus, vocabulary: Vocabulary, reread: Callable[[Vocabulary], Corpus]) -> Corpus:
    """The text, encoded with a vocabulary that has all of its tokens; `reread` reads it with another vocabulary."""
    if corpus.vocabulary == vocabulary:
        return corpus
    if corpus.files or corpus.vocabulary.kind == "bpe":
        return reread(vocabulary)
    table = _places(vocabulary.tokens, corpus.vocabulary.tokens).astype(vocabulary.dtype)
    return replace(corpus, ids=table[corpus.ids], vocabulary=vocabulary)


def _merge(old: Any, new: Any, drop_unused: bool) -> tuple[Any, Array]:
    """The encoder of the new data, and for each index of the new model the index in the old one, or -1."""
    if type(old) is not type(new):
        names = {TokenInputs: "tokens", NumberInputs: "numbers", Labels: "labels", Numbers: "numbers"}
        expected = f"{names.get(type(old), 'sequences')}, as in the model that training starts from"
        raise ArgumentError("the data", expected=expected, got=names.get(type(new), "sequences"))
    if isinstance(old, NumberInputs | Numbers):
        if old.width != new.width:
            each = "step" if isinstance(old, NumberInputs) else "example"
            expected = f"{old.width} numbers per {each}, as in the model that training starts from"
            raise ShapeError("the data", expected=expected, got=new.width)
        return old, np.arange(old.width)
    if isinstance(old, Labels):
        kinds = [labels.classes.dtype.kind in "UO" for labels in (old, new)]
        if kinds[0] != kinds[1]:
            raise ArgumentError(
                "labels",
                expected=f"labels like {old.classes[0]!r}, as in the model that training starts from",
                got=repr(new.classes[0]),
            )
        labels = new if drop_unused else Labels(np.unique(np.concatenate([old.classes, new.classes])))
        return labels, _places(old.classes.tolist(), labels.classes.tolist())
    symbols = _merge_symbols(old.symbols, new.symbols, drop_unused)
    return type(old)(symbols), _places(old.symbols.tokens, symbols.tokens)


def _merge_symbols(old: Symbols, new: Symbols, drop_unused: bool) -> Symbols:
    kinds = [f"{s.kind}{', lowercase' if s.lowercase else ''}" for s in (old, new)]
    if kinds[0] != kinds[1]:
        raise ArgumentError("tokens", expected=f"{kinds[0]}, as in the model that training starts from", got=kinds[1])
    if old.kind in ("byte", "bpe"):
        return old
    first = len(SPECIAL)  # the special tokens come before the others
    counts = {} if drop_unused else dict(zip(old.tokens[first:], old.counts[first:].tolist(), strict=True))
    for token, count in zip(new.tokens[first:], new.counts[first:].tolist(), strict=True):
        counts[token] = counts.get(token, 0) + count
    longest = max(old.longest, new.longest)
    return Symbols(old.kind, list(counts), list(counts.values()), longest, lowercase=old.lowercase)


def _places(old: Any, new: Any) -> Array:
    """For each token of the new list its index in the old one, or -1."""
    known = {token: i for i, token in enumerate(old)}
    return np.array([known.get(token, -1) for token in new], np.int64)


def copy_weights(start: FittedModel, model: FittedModel, merged: Merged) -> None:
    """Copy the weights of a trained model into a new one, except rows and columns of new tokens, classes and labels."""
    for name, new in model.parameters.items():
        old = start.parameters.get(name, None)
        axis, places = _axis_of(name, model, merged)
        if old is None or old.ndim != new.ndim or _without(old.shape, axis) != _without(new.shape, axis):
            got = "no such parameter" if old is None else f"shape {old.shape}"
            raise ShapeError(f"{name} of the model that training starts from", expected=f"shape {new.shape}", got=got)
        if axis is None:
            new[...] = old
            continue
        known = np.flatnonzero(places >= 0)
        np.moveaxis(new, axis, 0)[known] = np.moveaxis(old, axis, 0)[places[known]]


def _axis_of(name: str, model: FittedModel, merged: Merged) -> tuple[int | None, Array]:
    """The axis of a parameter that tokens, classes or labels index, or None, and their indices in the old model."""
    prefix = name.rpartition(".")[0]
    if prefix == "head":
        return (1 if name.endswith("W_hy") else 0), merged.targets
    of_tokens = merged.targets if name.startswith("decoder.") else merged.inputs
    if name.endswith("embedding.W") or (name == "bridge.W_ch" and model.spec.task == "generate"):
        return 0, of_tokens
    for stack in model.network.stacks:
        first = stack.names[: len(stack.directions)]
        if prefix in first and name.endswith(".W_xh") and stack.tokens and not stack.embedding:
            return 0, of_tokens
    return None, merged.inputs


def _without(shape: tuple[int, ...], axis: int | None) -> tuple[int, ...]:
    return shape if axis is None else shape[:axis] + shape[axis + 1 :]
