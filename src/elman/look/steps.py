"""Every quantity of every equation, forward and backward, of a short text: "hell" read, "ello" to be said next.

    data = steps_data("hell", "ello")                    a network of 3 units with weights drawn from a seed
    data = steps_data("hell", "ello", model=model)       a trained one

The data is ready for JSON:

    input, target    the two texts
    tokens           how each token of the input and of the target is written: pairs, one for each t
    network          source (where the weights come from), layers, hidden, outputs, activation
    axes             for each axis, B T X H Y: its size, and the indices and labels that are shown
    steps            in the order of the equations, each with
        name, t, layer           a, 1, 0; t is null for what belongs to no step
        symbol, phase            a[1]; forward, loss, backward or gradients
        formula, here, says      a[t] = …; a[1] = …; a sentence
        result, operands         values: name, axes ("BH"), shape (the full one), values (nested lists of what is shown)
        lines                    code, file, line, function: the lines of code that computed it
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from elman.data import CharVocabulary, Vocabulary
from elman.data.checks import few
from elman.errors import ArgumentError, DataError, RangeError, VocabularyError
from elman.look.equations import STACKED, Equation, equations
from elman.look.passes import Passes
from elman.maths.arrays import Array
from elman.models import LanguageModel
from elman.network import HeadNetwork, Parameters, language_network

HIDDEN, SEED, SPREAD = 3, 0, 0.6  # of the network that needs no run: few enough units to follow with a finger
LONGEST = 32  # tokens; nobody steps through more


@dataclass(frozen=True, eq=False)
class Value:
    name: str
    array: Array
    axes: str  # a letter for each, of B T X H Y


@dataclass(frozen=True, eq=False)
class Step:
    equation: Equation
    t: int | None
    layer: int
    here: str  # the formula, with t filled in
    result: Value
    operands: tuple[Value, ...]


class _Sequence:
    """Goes through the equations of a forward and a backward pass one by one."""

    def __init__(self, passes: Passes) -> None:
        self.passes, self.top = passes, len(passes.layers) - 1
        self.equations = equations(passes.activation)

    def forward(self, t: int) -> Iterator[Step]:
        p = self.passes
        yield self._step("x", p.x[t], "BX", t=t)
        for layer, c in enumerate(p.layers):
            terms = (
                Value(f"h[{t}]", c.h[t], "BH"),
                Value("W_hh", c.p["W_hh"], "HH"),
                Value(f"x[{t}] @ W_xh", c.read[t], "BH"),
                Value(f"h[{t}] @ W_hh", c.remembered[t], "BH"),
                Value("b_h", c.p["b_h"], "H"),
            )
            yield self._step("a", c.a[t], "BH", *terms, t=t, layer=layer)
            yield self._step("h", c.h[t + 1], "BH", Value(f"a[{t}]", c.a[t], "BH"), t=t, layer=layer)
        state = Value(f"h[{t + 1}]", p.layers[-1].h[t + 1], "BH")
        weights = Value("W_hy", p.W_hy, "HY"), Value("b_y", p.b_y, "Y")
        yield self._step("o", p.o[t], "BY", state, *weights, t=t, layer=self.top)
        yield self._step("y_hat", p.y_hat[t], "BY", Value(f"o[{t}]", p.o[t], "BY"), t=t, layer=self.top)

    def loss(self) -> Iterator[Step]:
        p = self.passes
        parts = Value("y_hat", p.y_hat[:, 0], "TY"), Value("-log y_hat[t][y[t]]", p.costs[:, 0], "T")
        yield self._step("L", np.asarray(p.L), "", *parts, layer=self.top)

    def backward(self, t: int) -> Iterator[Step]:
        p, last = self.passes, t == self.passes.T - 1
        parts = Value(f"y_hat[{t}]", p.y_hat[t], "BY"), Value(f"y[{t}]", p.y[t], "BY")
        yield self._step("d_o", p.d_o[t], "BY", *parts, t=t, layer=self.top)
        for layer in reversed(range(len(p.layers))):
            c = p.layers[layer]
            own = f"d_o[{t}] @ W_hy.T" if layer == self.top else f"d_x[{t}] of layer {layer + 1}"
            later = "0, for no step follows" if last else f"d_a[{t + 1}] @ W_hh.T"
            terms = Value(own, c.d_h_direct[t], "BH"), Value(later, c.d_h_next[t], "BH")
            yield self._step("d_h", c.d_h[t], "BH", *terms, t=t, layer=layer)
            slope = self.equations["d_a"].at(t).partition(" = ")[2].rpartition(" ⊙ ")[0]
            factors = Value(slope, c.f_prime[t], "BH"), Value(f"d_h[{t + 1}]", c.d_h[t], "BH")
            yield self._step("d_a", c.d_a[t], "BH", *factors, t=t, layer=layer)

    def gradients(self) -> Iterator[Step]:
        p, end = self.passes, self.passes.T - 1
        states, d_o = Value(f"h[1] … h[{end + 1}]", p.layers[-1].h[1:, 0], "TH"), Value("d_o", p.d_o[:, 0], "TY")
        yield self._step("d_W_hy", p.d_output.d_W_hy, "HY", states, d_o, layer=self.top)
        yield self._step("d_b_y", p.d_output.d_b_y, "Y", d_o, layer=self.top)
        for layer in reversed(range(len(p.layers))):
            c = p.layers[layer]
            before, d_a = Value(f"h[0] … h[{end}]", c.h[:-1, 0], "TH"), Value("d_a", c.d_a[:, 0], "TH")
            yield self._step("d_W_hh", c.d["W_hh"], "HH", before, d_a, layer=layer)
            x = Value("x", c.x[:, 0], "TH") if layer else Value("x", p.x[:, 0], "TX")
            yield self._step("d_W_xh", c.d["W_xh"], "HH" if layer else "XH", x, d_a, layer=layer)
            yield self._step("d_b_h", c.d["b_h"], "H", d_a, layer=layer)
            first = Value("d_a[0]", c.d_a[0], "BH"), Value("W_hh", c.p["W_hh"], "HH")
            yield self._step("d_h0", c.d_h0, "BH", *first, layer=layer)

    def _step(self, name: str, array: Array, axes: str, *operands: Value, t: int | None = None, layer: int = 0) -> Step:
        equation = self.equations[name]
        if layer and name in ("a", "d_W_xh"):  # x is the state of the layer below: no token's row
            equation = replace(equation, lines=(STACKED[name], *equation.lines[1:]), says=_FROM_BELOW)
        if layer < self.top and name == "d_h":
            formula = f"d_h[t+1] = d_x[t] of layer {layer + 1} + d_a[t+1] @ W_hh.T"
            equation = replace(equation, formula=formula, lines=(STACKED[name], *equation.lines[1:]))
        here = equation.formula if t is None else equation.at(t)
        if name == "d_h" and t == self.passes.T - 1:
            here = f"{here.rpartition(' + ')[0]} + 0"
        return Step(equation, t, layer, here, Value(here.partition(" = ")[0], array, axes), operands)


_FROM_BELOW = "x[t] is the state h[t+1] of the layer below."


@np.errstate(over="ignore", invalid="ignore")  # numbers that explode are to be looked at like others
def steps(network: HeadNetwork, p: Parameters, x: Array, y: Array) -> list[Step]:
    """All steps of reading the ids x, (T,), with the targets y, (T,), in the order of the equations."""
    sequence, T = _Sequence(Passes(network, p, x, y)), len(x)
    told = [step for t in range(T) for step in sequence.forward(t)]
    told += sequence.loss()
    told += [step for t in reversed(range(T)) for step in sequence.backward(t)]
    return [*told, *sequence.gradients()]


def steps_data(
    input: str, target: str, *, model: LanguageModel | None = None, shown: int | None = None
) -> dict[str, Any]:
    """The steps as plain data (see above); of each axis at most `shown` entries, all unless given."""
    if model is None:
        source = f"seed {SEED}"
        vocabulary: Vocabulary = CharVocabulary((input + target) or " ")
        network = language_network(len(vocabulary), HIDDEN)
        p = Parameters(network.shapes, np.dtype(np.float64))
        p.buffer[:] = SPREAD * np.random.default_rng(SEED).standard_normal(len(p.buffer))
    else:
        source = "a trained model" if model.run_ is None else f"the run {model.run_.path.name}"
        network, p, vocabulary = model.writer.network, model.writer.parameters, model.writer.vocabulary
    x, y = (_ids(name, text, vocabulary) for name, text in (("input", input), ("target", target)))
    if len(x) != len(y):
        raise ArgumentError(
            "the two texts",
            expected="the same number of tokens: each of the second is what follows one of the first",
            got=f"{len(x)} and {len(y)}",
        )
    told = steps(network, p, x, y)
    y_hat = np.concatenate([step.result.array for step in told if step.equation.name == "y_hat"])  # (T, Y)
    axes = _axes(vocabulary, x, y, y_hat, network.stack.hidden, shown)
    return {
        "input": input,
        "target": target,
        "tokens": [[vocabulary.tokens[i], vocabulary.tokens[j]] for i, j in zip(x, y, strict=True)],
        "network": {
            "source": source,
            "layers": network.stack.layers,
            "hidden": network.stack.hidden,
            "outputs": network.outputs,
            "activation": str(network.stack.cell.activation),
        },
        "axes": axes,
        "steps": [_step_json(step, axes) for step in told],
    }


def _ids(name: str, text: str, vocabulary: Vocabulary) -> Array:
    if not text:
        raise DataError(f"the {name} is empty", do='Give two texts, such as "hell" and "ello".')
    if vocabulary.kind == "char" and (strange := [c for c in dict.fromkeys(text) if c not in vocabulary.tokens]):
        raise VocabularyError(f"the {name} has characters that the model does not know", got=few(strange))
    ids = vocabulary.encode(text, unknown="replace" if vocabulary.kind == "word" else "error")
    if len(ids) > LONGEST:
        raise RangeError(f"the {name}", expected=f"at most {LONGEST} tokens", got=len(ids))
    return ids


def _axes(
    vocabulary: Vocabulary, x: Array, y: Array, y_hat: Array, hidden: int, shown: int | None
) -> dict[str, dict[str, Any]]:
    """What of each axis is shown: the first units; of the tokens those that occur, then the likeliest."""
    tokens = [*dict.fromkeys([*x.tolist(), *y.tolist(), *np.argsort(-y_hat.max(axis=0), kind="stable").tolist()])]
    some = sorted(tokens[:shown])
    rows = {
        "B": (1, [0], [""]),
        "T": (len(x), list(range(len(x))), [f"t = {t}" for t in range(len(x))]),
        "H": (hidden, list(range(hidden))[:shown], [f"unit {i}" for i in range(hidden)][:shown]),
        **{axis: (len(vocabulary), some, [vocabulary.tokens[i] for i in some]) for axis in "XY"},
    }
    return {axis: dict(zip(("size", "indices", "labels"), row, strict=True)) for axis, row in rows.items()}


def _step_json(step: Step, axes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": step.equation.name,
        "t": step.t,
        "layer": step.layer,
        "symbol": step.result.name,
        "phase": step.equation.phase,
        "formula": step.equation.formula,
        "here": step.here,
        "says": step.equation.says,
        "result": _value_json(step.result, axes),
        "operands": [_value_json(value, axes) for value in step.operands],
        "lines": [line.to_json() for line in step.equation.lines],
    }


def _value_json(value: Value, axes: dict[str, dict[str, Any]]) -> dict[str, Any]:
    part = value.array[np.ix_(*(axes[axis]["indices"] for axis in value.axes))] if value.axes else value.array
    plain = part.astype(object)
    plain[~np.isfinite(part)] = None  # JSON has no NaN
    return {"name": value.name, "axes": value.axes, "shape": list(value.array.shape), "values": plain.tolist()}
