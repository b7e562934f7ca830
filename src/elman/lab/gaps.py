"""The gaps of the lab: their solutions, known mistakes, and the problems on which a function is checked."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from elman.lab.mistakes import MISTAKES, Mistake

Values = dict[str, Any]
Function = Callable[..., Any]

FILES = ("rnn", "lstm")
RESULTS = {  # of each gap, in the order in which they are checked
    "rnn": {
        "softmax": ("y_hat",),
        "cross_entropy": ("L", "d_o"),
        "forward_step": ("h_next",),
        "hidden_gradient": ("d_h",),
        "preactivation_gradient": ("d_a",),
        "weight_gradients": ("d_W_xh", "d_W_hh", "d_b_h", "d_W_hy", "d_b_y"),
        "backward": ("d_W_xh", "d_W_hh", "d_b_h", "d_h0"),
        "truncated_backward": ("d_W_xh", "d_W_hh", "d_b_h"),
        "clip": ("list of gradients",),
    },
    "lstm": {
        "lstm_gates": ("i", "f", "g", "o"),
        "lstm_state": ("c_next", "h_next"),
        "lstm_cell_gradient": ("d_c",),
        "lstm_gate_gradients": ("d_a_i", "d_a_f", "d_a_g", "d_a_o"),  # the four blocks of d_a
        "lstm_state_gradients": ("d_h_before", "d_c_before"),
    },
}
SIZES = ((5, 2, 3, 4, 6), (7, 3, 5, 2, 4), (6, 4, 2, 5, 3))  # T, B, X, H, Y: all different in each problem
GAP = re.compile(r"^    # gap\n(.*?)^    # end\n", re.DOTALL | re.MULTILINE)
HEAD = re.compile(r"\A(?:#.*\n)+")  # the comment above the docstring of a solution, for maintainers


class Gap(NamedTuple):
    """One function that a student writes.

    Attributes
    ----------
    file : str
        The file that it is in, "rnn" or "lstm".
    name : str
        The name of the function.
    results : tuple of str
        The names of what it returns.
    """

    file: str
    name: str
    results: tuple[str, ...]

    @property
    def mistakes(self) -> tuple[Mistake, ...]:
        """The known mistakes in this gap."""
        return tuple(mistake for mistake in MISTAKES if mistake.gap == self.name)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names of its arguments."""
        return tuple(inspect.signature(load_solutions(self.file)[self.name]).parameters)

    def call(self, function: Function, values: Values) -> Any:
        """Call a function for this gap with copies of the values of a problem."""
        arguments = [_copy(values[name]) for name in self.arguments]
        result = function(*arguments)
        return arguments[0] if result is None and self.name == "clip" else result  # it may clip in place

    def right(self) -> Function:
        """The solution."""
        function: Function = load_solutions(self.file)[self.name]
        return function

    def wrong(self, mistake: Mistake) -> Function:
        """The solution with a known mistake."""
        function: Function = _load_mistake(self.file, mistake)[self.name]
        return function


GAPS = {name: Gap(file, name, results) for file in FILES for name, results in RESULTS[file].items()}


def solution_text(file: str) -> str:
    """The text of a file with all gaps filled, and comments that mark them."""
    return HEAD.sub("", (Path(__file__).parent / "solutions" / f"{file}.py").read_text(encoding="utf-8"))


def student_text(file: str) -> str:
    """The text of a file with its gaps."""
    return GAP.sub("    raise NotImplementedError  # your code\n", solution_text(file))


def without_marks(text: str) -> str:
    """The text of a solution without the comments that mark the gaps."""
    return re.sub(r"^    # (?:gap|end)\n", "", text, flags=re.MULTILINE)


def function_text(file: str, name: str) -> str:
    """The text of one function of a solution."""
    found = re.search(rf"^def {name}\(.*?(?=^def |\Z)", solution_text(file), re.DOTALL | re.MULTILINE)
    if found is None:
        raise KeyError(name)
    return found[0]


def edit(file: str, mistake: Mistake) -> str:
    """The text of a solution with a known mistake."""
    before = function_text(file, mistake.gap)
    if before.count(mistake.old) != 1:
        raise ValueError(f"{mistake.old!r} occurs {before.count(mistake.old)} times in {mistake.gap}, expected once")
    return solution_text(file).replace(before, before.replace(mistake.old, mistake.new))


def _load(text: str) -> Values:
    namespace: Values = {"__name__": "solution"}
    exec(compile(text, "<solution>", "exec"), namespace)  # text of this package only, never a student's
    return namespace


@cache
def load_solutions(file: str) -> Values:
    """The functions of a file with all gaps filled, by name."""
    return _load(solution_text(file))


@cache
def _load_mistake(file: str, mistake: Mistake) -> Values:
    return _load(edit(file, mistake))


def _copy(value: Any) -> Any:
    return [array.copy() for array in value] if isinstance(value, list) else copy(value)  # numbers stay numbers


@cache
def problems(file: str, seed: int) -> Sequence[Values]:
    """Three problems: the arguments of all gaps of a file, by name."""
    return [_PROBLEMS[file](np.random.default_rng([seed, number]), number) for number in range(len(SIZES))]


def _rnn_problem(rng: np.random.Generator, number: int) -> Values:
    solutions = load_solutions("rnn")
    T, B, X, H, Y = SIZES[number]
    x, y = rng.standard_normal((T, B, X)), rng.integers(Y, size=(T, B))
    W_xh, W_hh, b_h = (rng.standard_normal(shape) * 0.6 for shape in ((X, H), (H, H), (H,)))
    W_hy, b_y = rng.standard_normal((H, Y)), rng.standard_normal(Y) * 0.3
    h = [np.tanh(rng.standard_normal((B, H)))]
    for t in range(T):
        h.append(solutions["forward_step"](x[t], h[t], W_xh, W_hh, b_h))
    states = np.array(h)  # (T+1, B, H)
    o = states[1:] @ W_hy + b_y
    d_o = solutions["cross_entropy"](o, y)[1]
    d_h, d_a = np.zeros_like(states[1:]), np.zeros((T + 1, B, H))  # d_a[T] = 0
    for t in reversed(range(T)):
        d_h[t] = solutions["hidden_gradient"](d_o[t], d_a[t + 1], W_hy, W_hh)
        d_a[t] = solutions["preactivation_gradient"](d_h[t], states[t + 1])
    t = 1  # the step of the gaps that compute a single step
    step = {"x_t": x[t], "h_t": states[t], "h_next": states[t + 1], "d_o_t": d_o[t], "d_a_next": d_a[t + 1]}
    weights = {"W_xh": W_xh, "W_hh": W_hh, "b_h": b_h, "W_hy": W_hy}
    gradients = [np.asarray(g) for g in solutions["weight_gradients"](x, states, d_a[:T], d_o)]
    norm = np.sqrt(sum(np.sum(g**2) for g in gradients))
    limit = float(norm) * (0.3, 0.6, 2.0)[number]  # above the norm in the last problem: nothing is clipped
    whole = {"x": x, "h": states, "o": o, "y": y, "d_o": d_o, "d_a": d_a[:T], "d_h": d_h[t]}
    case = f"in problem {number + 1}"
    return {**weights, **step, **whole, "k": (3, 2, 4)[number], "gradients": gradients, "limit": limit, "case": case}


def _lstm_problem(rng: np.random.Generator, number: int) -> Values:
    solutions = load_solutions("lstm")
    _, B, X, H, _ = SIZES[number]
    x_t, h_t, c_t, d_h, d_c_next = (rng.standard_normal((B, n)) for n in (X, H, H, H, H))
    W_xh, W_hh, b_h = (rng.standard_normal(shape) * 0.6 for shape in ((X, 4 * H), (H, 4 * H), (4 * H,)))
    i, f, g, o = solutions["lstm_gates"](x_t, h_t, W_xh, W_hh, b_h)
    c_next, _ = solutions["lstm_state"](c_t, i, f, g, o)
    d_c = solutions["lstm_cell_gradient"](d_h, d_c_next, o, c_next)
    d_a = solutions["lstm_gate_gradients"](d_h, d_c, c_t, c_next, i, f, g, o)
    gates = {"i": i, "f": f, "g": g, "o": o}
    weights = {"W_xh": W_xh, "W_hh": W_hh, "b_h": b_h}
    states = {"x_t": x_t, "h_t": h_t, "c_t": c_t, "c_next": c_next}
    gradients = {"d_h": d_h, "d_c_next": d_c_next, "d_c": d_c, "d_a": d_a}
    return {**weights, **gates, **states, **gradients, "case": f"in problem {number + 1}"}


_PROBLEMS = {"rnn": _rnn_problem, "lstm": _lstm_problem}


def _one_step(values: Values) -> dict[str, Values]:
    arrays = {name: values[name][:1, :1] for name in ("x", "d_a", "d_o")}
    return {"with one step and one row": arrays | {"h": values["h"][:2, :1]}}


def _truncation_lengths(values: Values) -> dict[str, Values]:
    T = len(values["x"])
    return {f"with T = {T} and k = {k}": {"k": k} for k in (1, T - 1, T, T + 1)}


_SPECIAL: dict[str, Callable[[Values], dict[str, Values]]] = {
    "softmax": lambda values: {"with large logits": {"o": values["o"] * 800.0}},
    "cross_entropy": lambda values: {"with 1000 added to each logit": {"o": values["o"] + 1000.0}},
    "weight_gradients": _one_step,
    "backward": _one_step,
    "truncated_backward": _truncation_lengths,
    "clip": lambda values: {"with gradients that are all zero": {"gradients": [0 * g for g in values["gradients"]]}},
}


def special_cases(gap: Gap, values: Values) -> Sequence[Values]:
    """Variants of a problem for cases that the three problems do not have, such as overflow, a single step or zeros."""
    cases = _SPECIAL[gap.name](values) if gap.name in _SPECIAL else {}
    return [values | changed | {"case": case} for case, changed in cases.items()]
