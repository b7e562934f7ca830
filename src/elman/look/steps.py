"""Every quantity of every equation, forward and backward, of a short text: "hell" is read, "ello" should follow.

The data is ready for JSON:

    input, target    the two texts
    tokens           each token of the input with that of the target: pairs, one for each t
    bptt_steps       the steps over which each loss is backpropagated; null for all
    learning_rate, clip_norm    of the update
    network          source (where the weights come from), cell, layers, hidden, outputs, activation
    parameters, ids, vocabulary    with parameters=True and a small network: what a page needs to recompute it
    fixed            with parameters=True and any other network: why a page cannot
    axes             for each axis, B T X E H G Y: its size, and the indices and labels that are shown
    steps            in the order of the equations, each with
        name, t, layer           a, 1, 0; t is None if it belongs to no single step
        loss                     with bptt_steps, of the backward pass: the step whose loss is backpropagated
        symbol, phase            a[1]; forward, loss, backward, gradients or update
        formula, here, says      a[t] = …; a[1] = …; a sentence
        number                   (1), its number in docs/maths.md, section 18; empty if it has none
        result, operands         values: name, axes ("BH"), shape (the full one), values (nested lists of what is
                                 shown), key, t and loss (the quantity: "h[t+1]" and 1 are h[2])
        lines                    code, file, line, function: the code that computes it
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from elman.data import CharVocabulary, Vocabulary
from elman.data.checks import few
from elman.errors import ArgumentError, DataError, RangeError, VocabularyError, option
from elman.look.equations import ACTIVATIONS, LATER, STACKED, TOKEN, Equation, equations, fill
from elman.look.recording import Quantity, Recording, record
from elman.maths.arrays import Array
from elman.maths.optimizers import clip_by_norm, sgd_step
from elman.models import LanguageModel
from elman.network import HeadNetwork, Parameters, Stack, language_network

HIDDEN, SEED, SPREAD = 3, 0, 0.6  # of the random network without a model: units, seed, standard deviation of weights
LONGEST = 32  # maximum number of tokens of a text
LEARNING_RATE, CLIP_NORM = 1.0, 1.0  # of the update
EDITABLE = 150_000  # maximum number of parameters of a network that a page recomputes


class Value(NamedTuple):
    """A quantity in an equation.

    Attributes
    ----------
    name : str
        As in the formula of this step, such as "h[3]".
    array : ndarray
        The numbers.
    axes : str
        A letter for each axis, of B T X E H G Y.
    key : str
        The name of the quantity with t in it, such as "h[t+1]".
    t : int or None
        The step; None if the quantity does not belong to one step.
    loss : int or None
        The step of the loss of whose gradient it is part; None if it is not, or is the sum over all losses.
    """

    name: str
    array: Array
    axes: str
    key: str
    t: int | None
    loss: int | None = None


class Step(NamedTuple):
    """An equation at one step of one layer, with its numbers."""

    equation: Equation
    t: int | None
    layer: int
    here: str  # the formula, with t filled in
    result: Value
    operands: tuple[Value, ...]
    loss: int | None = None  # with truncation, in the backward pass: the step of the loss


class _Steps:
    """The equations of a recording, one by one."""

    def __init__(self, recording: Recording, learning_rate: float, clip_norm: float) -> None:
        self.recording, self.equations = recording, equations(recording.cell)
        self.learning_rate, self.limit = learning_rate, clip_norm or math.inf
        self.top = len(recording.layers) - 1
        self.embedded = recording.layers[0]["x[t]"].axes[-1] == "E"

    def all(self) -> Iterator[Step]:
        T, output = self.recording.T, ("o", "y_hat", "d_o", "d_W_hy", "d_b_y")
        layers = range(self.top + 1)
        named = {
            phase: [name for name, e in self.equations.items() if e.phase == phase and name not in ("x", *output)]
            for phase in ("forward", "backward", "gradients")
        }
        for t in range(T):
            yield self._step("x", t)
            yield from (self._step(name, t, layer) for layer in layers for name in named["forward"])
            yield from (self._step(name, t, self.top) for name in ("o", "y_hat"))
        yield self._step("L", None, self.top)
        for t in reversed(range(T)):
            yield self._step("d_o", t, self.top)
            alone = t if self.recording.k2 else None  # the loss that is backpropagated alone
            for step in range(t, max(-1, t - (self.recording.k2 or 1)), -1):
                for layer in reversed(layers):
                    yield from (self._step(name, step, layer, alone) for name in named["backward"])
        yield from (self._step(name, None, self.top) for name in ("d_W_hy", "d_b_y"))
        yield from (self._step(name, None, layer) for layer in reversed(layers) for name in named["gradients"])
        yield from self._update()

    def _update(self) -> Iterator[Step]:
        """Clipping, and a step of gradient descent for every parameter."""
        p, d = self.recording.p, self.recording.gradients
        clipped = clip_by_norm(d, self.limit)
        after = sgd_step(p, clipped.gradients, self.learning_rate)
        numbers = {"norm": clipped.norm, "scale": clipped.scale, "limit": self.limit, "η": self.learning_rate}
        norm, scale, limit, rate = (Value(name, np.asarray(of), "", name, None) for name, of in numbers.items())
        homes = {name: self._home(name) for name in p}
        squares = tuple(
            Value(f"Σ d_{name if self.top else homes[name][1]}²", np.asarray((g**2).sum()), "", f"Σ d_{name}²", None)
            for name, g in d.items()
        )
        for result, operands in ((norm, squares), (scale, (limit, norm))):
            equation = self.equations[result.name]
            yield Step(equation, None, self.top, equation.formula, result, operands)
        for name, (layer, short) in homes.items():
            formula, found = f"{short} ← {short} - η · scale · d_{short}", self._find(f"d_{short}", layer)
            axes = found.axes if found else "XE" if short == "embedding.W" else "H"  # or a learned initial state
            before, gradient, result = (
                Value(key, array[name], axes, key, None)
                for key, array in ((short, p), (f"d_{short}", d), (f"{short} after the step", after))
            )
            equation = replace(self.equations["p"], name=short, formula=formula)
            yield Step(equation, None, layer, formula, result, (before, rate, scale, gradient))

    def _home(self, name: str) -> tuple[int, str]:
        """The layer of a parameter, and its name in the formulas."""
        prefix, _, short = name.rpartition(".")
        layer = prefix.removeprefix("layers.")
        return (int(layer), short) if layer != prefix else (self.top, name.removeprefix("head."))

    def _step(self, name: str, t: int | None, layer: int = 0, loss: int | None = None) -> Step:
        equation, last = self.equations[name], t == (self.recording.T - 1 if loss is None else loss)
        if not layer and self.embedded:
            if name == "x":
                equation = replace(equation, formula="x[t] = row of the embedding for the token", says=_EMBEDDED)
            elif name == "d_W_xh":
                equation = replace(equation, lines=(STACKED[name],), says=_EMBEDDED)
            else:
                lines = tuple(STACKED["x"] if line == TOKEN else line for line in equation.lines)
                equation = replace(equation, lines=lines)
        if layer and TOKEN in equation.lines:
            lines = tuple(STACKED["x"] if line == TOKEN else line for line in equation.lines)
            equation = replace(equation, lines=lines, says=f"{equation.says} {_FROM_BELOW}")
        if layer and name == "d_W_xh":
            equation = replace(equation, lines=(STACKED[name],), says=_FROM_BELOW)
        if layer < self.top and name == "d_h":
            formula = equation.formula.replace("d_o[t] @ W_hy.T", f"d_x[t] of layer {layer + 1}")
            equation = replace(equation, formula=formula, lines=(STACKED[name], *equation.lines[1:]))
        if t is None and self.recording.k2 and equation.phase == "gradients" and "d_o" not in equation.formula:
            equation = replace(equation, says=f"{equation.says} The gradients of a step are summed over all losses.")
        here = equation.formula if t is None else equation.at(t, last=last)
        if loss not in (None, t) and layer == self.top:
            here = here.replace(f"d_o[{t}] @ W_hy.T", "0")
        operands = tuple(self._value(operand, t, layer, loss) for operand in equation.operands)
        return Step(equation, t, layer, here, self._value(equation.result, t, layer, loss), operands, loss)

    def _value(self, key: str, t: int | None, layer: int, loss: int | None = None) -> Value:
        name, parts = key, {} if loss is None else self.recording.of_losses[loss][layer]
        if "[0]" in key or "[1]" in key:  # d_h[0] is a separate quantity, f[0] is f[t] at step 0
            found = self._find(key, layer)
            if found is None:
                key, t = key.replace("[0]", "[t]").replace("[1]", "[t+1]"), 0
        found = parts.get(key) or self._find(key, layer)
        assert found is not None, key
        array, axes = found
        if not found.by_step:
            return Value(name, array, axes, key, None)
        if t is None:  # of all steps: one row (B = 1)
            ends = f"{fill(key, 0)} … {fill(key, self.recording.T - 1)}"
            return Value(key if key.startswith("-log") else ends, array[:, 0], "T" + axes[2:], key, None)
        if loss == t and LATER.search(key):
            name = "0 (the loss of this step)"
        elif t == self.recording.T - 1 and LATER.search(key):
            name = "0 (no step follows)"
        elif loss not in (None, t) and layer == self.top and key == "d_o[t] @ W_hy.T":
            name = f"0 (the loss of step {loss})"
        elif layer < self.top and key == "d_o[t] @ W_hy.T":
            name = f"d_x[{t}] of layer {layer + 1}"
        else:
            name = fill(name, t)
        return Value(name, array[t], axes[1:], key, t, loss if key in parts else None)

    def _find(self, key: str, layer: int) -> Quantity | None:
        return self.recording.layers[layer].get(key) or self.recording.output.get(key)


_EMBEDDED = "x[t] is the vector of the token, a row of the embedding, which is trained too."
_FROM_BELOW = "x[t] is the state h[t+1] of the layer below."


@np.errstate(over="ignore", invalid="ignore")  # numbers that overflow are shown as not finite
def steps(
    network: HeadNetwork,
    p: Parameters,
    x: Array,
    y: Array,
    *,
    bptt_steps: int | None = None,
    learning_rate: float = LEARNING_RATE,
    clip_norm: float = CLIP_NORM,
) -> list[Step]:
    """All steps of reading the ids x, (T,), with the targets y, (T,), in the order of the equations."""
    return list(_Steps(record(network, p, x, y, bptt_steps), learning_rate, clip_norm).all())


def steps_data(
    input: str,
    target: str,
    *,
    model: LanguageModel | None = None,
    cell: str = "rnn",
    shown: int | None = None,
    bptt_steps: int | None = None,
    learning_rate: float = LEARNING_RATE,
    clip_norm: float = CLIP_NORM,
    parameters: bool = False,
) -> dict[str, Any]:
    """Every equation of a forward pass, a backward pass and an update, with its numbers, as plain data.

    Parameters
    ----------
    input, target : str
        The input of the network, and the target of each step: the same number of tokens.
    model : LanguageModel, optional
        A trained model. Without one the network has three units and random weights from a fixed seed.
    cell : str
        The cell of the network without a model: "rnn", "gru" or "lstm".
    shown : int, optional
        The maximum number of units, of tokens and of embedding entries that are listed; all unless given.
    bptt_steps : int, optional
        Backpropagate each loss over at most this many steps (k2, with k1 = 1); over all unless given.
    learning_rate : float
        Of the step of gradient descent at the end.
    clip_norm : float
        The norm to which a longer gradient is clipped before this step; 0 disables clipping.
    parameters : bool
        Add the parameters, the ids and the vocabulary, from which a page can recompute everything, if the network is
        small: at most 150,000 parameters, without an embedding and without a learned initial state.

    Returns
    -------
    dict
        Ready for JSON; the module's documentation lists the fields.

    Examples
    --------
    >>> data = steps_data("hell", "ello")
    >>> data["steps"][1]["here"]
    'a[0] = x[0] @ W_xh + h[0] @ W_hh + b_h'
    """
    if model is None:
        source = f"seed {SEED}"
        vocabulary: Vocabulary = CharVocabulary((input + target) or " ")
        network = language_network(len(vocabulary), HIDDEN, cell=cell)
        p = Parameters(network.shapes, np.dtype(np.float64))
        p.buffer[:] = SPREAD * np.random.default_rng(SEED).standard_normal(len(p.buffer))
    else:
        source = "a trained model" if model.run_ is None else f"the run {model.run_.path.name}"
        network, p, vocabulary = model.network_, model.parameters_, model.vocabulary_
    x, y = (_ids(name, text, vocabulary) for name, text in (("input", input), ("target", target)))
    if len(x) != len(y):
        raise ArgumentError(
            "input and target",
            expected="the same number of tokens: one target for each input",
            got=f"{len(x)} and {len(y)}",
        )
    if vocabulary.end is not None:  # a sequence is read from its beginning, which is the end of the one before
        x, y = np.append(vocabulary.end, x), np.append(x[:1], y)
    settings: dict[str, Any] = {"bptt_steps": bptt_steps, "learning_rate": learning_rate, "clip_norm": clip_norm}
    for name, value in settings.items():
        least = 1 if name == "bptt_steps" else 0
        if value is not None and not least <= value < math.inf:
            raise RangeError(option(name), expected=f"a number of {least} or more", got=value)
    found = steps(network, p, x, y, **settings)
    y_hat = np.concatenate([step.result.array for step in found if step.equation.name == "y_hat"])  # (T, Y)
    axes = _axes(vocabulary, x, y, y_hat, network.stack, shown)
    more: dict[str, Any] = {}
    if parameters and (reason := _fixed(network, p)):
        more["fixed"] = f"This page shows the network but cannot change or train it: {reason}."
    elif parameters:
        more["parameters"] = {name: value.astype(np.float64).tolist() for name, value in p.items()}
        more |= {"ids": [x.tolist(), y.tolist()], "vocabulary": list(vocabulary.tokens)}
    return more | {
        "input": input,
        "target": target,
        **settings,
        "tokens": [[vocabulary.tokens[i], vocabulary.tokens[j]] for i, j in zip(x, y, strict=True)],
        "network": {
            "source": source,
            "cell": network.stack.cell.name,
            "layers": network.stack.layers,
            "hidden": network.stack.hidden,
            "outputs": network.outputs,
            "activation": str(network.stack.cell.activation),
        },
        "axes": axes,
        "steps": [_step_json(step, axes) for step in found],
    }


def _fixed(network: HeadNetwork, p: Parameters) -> str | None:
    """Why a page cannot recompute it; None if it can."""
    stack = network.stack
    reasons = {
        "it has an embedding": stack.embedding > 0,
        "its initial state is learned": stack.learned_state,
        "its activation is not known by name": str(stack.cell.activation) not in ACTIVATIONS,
        f"it has {p.buffer.size:,} parameters, more than {EDITABLE:,}": p.buffer.size > EDITABLE,
        "some of its parameters are not finite": not np.isfinite(p.buffer).all(),
    }
    return " and ".join(reason for reason, holds in reasons.items() if holds) or None


def _ids(name: str, text: str, vocabulary: Vocabulary) -> Array:
    if not text:
        raise DataError(f"the {name} is empty", do='Give two texts, such as "hell" and "ello".')
    if vocabulary.kind == "char" and (unknown := [c for c in dict.fromkeys(text) if c not in vocabulary.tokens]):
        raise VocabularyError(
            f"the {name} has characters that are not in the vocabulary",
            got=few(unknown),
            do=f"Leave them out. Models trained with {option('tokens', 'byte')} or {option('tokens', 'bpe')} can read "
            "any text.",
        )
    ids = vocabulary.encode(text, unknown="replace" if vocabulary.kind == "word" else "error")
    if len(ids) > LONGEST:
        raise RangeError(f"the {name}", expected=f"at most {LONGEST} tokens", got=len(ids))
    return ids


def _axes(
    vocabulary: Vocabulary, x: Array, y: Array, y_hat: Array, stack: Stack, shown: int | None
) -> dict[str, dict[str, Any]]:
    """Size, shown indices and labels of each axis: first units; tokens that occur, then the most probable ones."""
    tokens = [*dict.fromkeys([*x.tolist(), *y.tolist(), *np.argsort(-y_hat.max(axis=0), kind="stable").tolist()])]
    some = sorted(tokens[:shown])
    H, gates = stack.hidden, stack.cell.gate_names
    units = list(range(H))[:shown]
    rows = {
        "B": (1, [0], [""]),
        "T": (len(x), list(range(len(x))), [f"t = {t}" for t in range(len(x))]),
        "H": (H, units, [f"unit {i}" for i in units]),
        "G": (len(gates) * H, *_split([(g * H + i, f"{name} {i}") for g, name in enumerate(gates) for i in units])),
        "E": (stack.embedding, *_split([(i, str(i)) for i in range(stack.embedding)][:shown])),
        **{axis: (len(vocabulary), some, [vocabulary.tokens[i] for i in some]) for axis in "XY"},
    }
    return {axis: dict(zip(("size", "indices", "labels"), row, strict=True)) for axis, row in rows.items()}


def _split(pairs: list[tuple[int, str]]) -> tuple[list[int], list[str]]:
    return [index for index, _ in pairs], [label for _, label in pairs]


def _step_json(step: Step, axes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": step.equation.name,
        "t": step.t,
        "layer": step.layer,
        "loss": step.loss,
        "symbol": step.result.name if step.equation.phase != "update" else step.equation.result,
        "phase": step.equation.phase,
        "formula": step.equation.formula,
        "here": step.here,
        "number": step.equation.number,
        "says": step.equation.says,
        "result": _value_json(step.result, axes),
        "operands": [_value_json(value, axes) for value in step.operands],
        "lines": [line.to_json() for line in step.equation.lines],
    }


def _value_json(value: Value, axes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    part = value.array[np.ix_(*(axes[axis]["indices"] for axis in value.axes))] if value.axes else value.array
    plain = part.astype(object)
    plain[~np.isfinite(part)] = None  # JSON has no NaN
    return {
        "name": value.name,
        "axes": value.axes,
        "shape": list(value.array.shape),
        "values": plain.tolist(),
        "key": value.key,
        "t": value.t,
        "loss": value.loss,
    }
