"""The equations of a network for every cell, in the order in which they run, each with the code that computes it.

The left side of a formula is the name of its result, and operands are named as in the formula: both are keys of the
recorded quantities (recording.py); f[0], z[0], d_a[0], d_h[1] … are f[t], z[t], d_a[t], d_h[t+1] … at step 0.
At step t, x[t] is the input, h[t] the state before the step, h[t+1] the state after it, h[t+2] that after the next one.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from elman.look.line_tracer import ROOT, Line
from elman.maths import activations
from elman.maths.cells import Cell, GRUCell, LSTMCell, RNNCell
from elman.maths.layers import (
    embedding_backward,
    embedding_forward,
    input_backward,
    input_forward,
    output_backward,
    output_forward,
)
from elman.maths.loss import cross_entropy
from elman.maths.optimizers import clip_by_norm, sgd_step
from elman.maths.recurrence import cell_backward, cell_forward

A_X = Line(cell_forward, "a_x", "a_x")  # of all steps at once
A_H = Line(cell_forward, "a_h", "a_h")
BIAS = Line(cell_forward, "bias")
Y_HAT = Line(cross_entropy, "y_hat", "y_hat")
D_H_DIRECT = Line(cell_backward, "last", "d_h_direct")  # an argument; this line runs once per pass
D_H = Line(cell_backward, "d_h", "d_s")
D_H_NEXT = Line(cell_backward, "d_h_next", "d_h_next")
D_H_SENT = Line(cell_backward, "d_h_sent")
D_S0 = Line(cell_backward, "d_h0")
TOKEN = Line(embedding_forward, "x")

# lines for a layer whose input is dense: the state of the layer below, or an embedding
STACKED = {
    "x": Line(input_forward, "dense"),
    "d_h": Line(input_backward, "d_x"),
    "d_W_xh": Line(input_backward, "d_W_xh"),
}
ACTIVATIONS = {  # f(a), and f' in terms of h
    "tanh": ("tanh(a[t])", "(1 - h[t+1]²)"),
    "relu": ("max(a[t], 0)", "(h[t+1] > 0)"),
    "sigmoid": ("1 / (1 + exp(-a[t]))", "h[t+1] ⊙ (1 - h[t+1])"),
    "identity": ("a[t]", "1"),
}
GATES = {"i": "i", "f": "f", "g": "g", "o": "o_gate", "r": "r", "z": "z", "n": "n"}  # o alone would be the logits
LATER = re.compile(r"d_a\w*\[t\+1\]|\[t\+2\]")  # found in a term that comes from the next step


@dataclass(frozen=True)
class Function:
    """A function that is an equation as a whole."""

    home: Callable[..., Any]

    def to_json(self) -> dict[str, Any]:
        code, first = inspect.getsourcelines(self.home)
        file = Path(inspect.getfile(self.home)).relative_to(ROOT).as_posix()
        return {"code": code[0].strip(), "file": file, "line": first, "function": self.home.__name__}


@dataclass(frozen=True)
class Equation:
    """One equation.

    Attributes
    ----------
    name : str
        What it computes, without the step.
    phase : str
        "forward", "loss", "backward", "gradients" or "update".
    formula : str
        The equation in the notation of the code.
    says : str
        What it means, in words.
    lines : tuple of Line or Function
        The code that computes it.
    operands : tuple of str
        The operands and intermediate results that are shown with it.
    number : str
        Its number in docs/maths.md, section 18, such as "(7)"; empty if it has none.
    """

    name: str
    phase: str
    formula: str
    says: str
    lines: tuple[Line | Function, ...]
    operands: tuple[str, ...] = ()
    number: str = ""

    @property
    def result(self) -> str:
        """The left side of the formula."""
        return re.split(" [=←] ", self.formula)[0]

    def at(self, t: int, *, last: bool = False) -> str:
        """The formula of step t; in the last step the terms from the next step are 0."""
        left, _, right = self.formula.partition(" = ")
        terms = ["0" if last and LATER.search(term) else term for term in right.split(" + ")]
        return fill(f"{left} = {' + '.join(terms)}", t)


def fill(template: str, t: int) -> str:
    """The template with the number of the step for t: h[t+1] becomes h[3] at step 2."""
    return re.sub(r"\[t(?:\+(\d))?\]", lambda m: f"[{t + int(m[1] or 0)}]", template)


def equations(cell: Cell) -> dict[str, Equation]:
    """All equations of a network with this cell, by name, in the order in which they run."""
    forward, backward, gradients = {"rnn": _rnn, "gru": _gru, "lstm": _lstm}[cell.name](cell)
    rows: Iterable[Equation] = (_X, *forward, *_OUTPUT, *backward, *_OUTPUT_GRADIENTS, *gradients, *_UPDATE)
    numbers = _NUMBERS | _NUMBERS_OF_CELL[cell.name]
    return {equation.name: replace(equation, number=numbers.get(equation.name, "")) for equation in rows}


_NUMBERS = {
    "o": "(3)", "y_hat": "(4)", "L": "(5)", "d_o": "(6)", "d_W_xh": "(9)", "d_W_hh": "(10)", "d_b_h": "(11)",
    "d_W_hy": "(12)", "d_b_y": "(13)", "norm": "(16)", "scale": "(16)", "p": "(17)",
}  # fmt: skip
_NUMBERS_OF_CELL = {
    "rnn": {"a": "(1)", "h": "(2)", "d_h": "(7)", "d_a": "(8)", "d_h0": "(14)"},
    "gru": {
        **dict.fromkeys(("r", "z"), "(18)"), **dict.fromkeys(("q", "n"), "(19)"), "h": "(20)",
        **dict.fromkeys(("d_a_n", "d_a_z", "d_a_r", "d_q"), "(21)"), "d_h": "(7), (22)", "d_h0": "(22)",
    },
    "lstm": {
        **dict.fromkeys(("i", "f", "g", "o_gate"), "(1), (23)"), "c": "(24)", "h": "(25)", "d_c": "(26)",
        **dict.fromkeys(("d_a_i", "d_a_f", "d_a_g", "d_a_o"), "(27)"), "d_h": "(7), (28)", "d_h0": "(28)",
        "d_c0": "(29)",
    },
}  # fmt: skip


_X = Equation(
    "x",
    "forward",
    "x[t] = one-hot row of the token",
    "1 at the token's id, 0 elsewhere. The row is never built: x[t] @ W_xh is the row of W_xh with this id.",
    (TOKEN,),
)
_OUTPUT = (
    Equation(
        "o",
        "forward",
        "o[t] = h[t+1] @ W_hy + b_y",
        "The logits: one number for each possible next token; the higher it is, the more probable the token.",
        (Line(output_forward, "o"), Line(output_forward, "b_y")),
        ("h[t+1]", "W_hy", "b_y"),
    ),
    Equation(
        "y_hat",
        "forward",
        "y_hat[t] = exp(o[t]) / Σ exp(o[t])",
        "Softmax: logits become probabilities, which add up to 1.",
        (Line(cross_entropy, "shifted"), Line(cross_entropy, "exp"), Y_HAT),
        ("o[t]",),
    ),
    Equation(
        "L",
        "loss",
        "L = - Σ_t log y_hat[t][y[t]] / T",
        "The loss: the mean cross-entropy of the targets, in nats. The backward pass starts here.",
        (Line(cross_entropy, "log_total"), Line(cross_entropy, "loss")),
        ("y_hat[t]", "-log y_hat[t][y[t]]"),
    ),
    Equation(
        "d_o",
        "backward",
        "d_o[t] = (y_hat[t] - y[t]) / T",
        "Prediction minus target. In the code, scale is 1 / T, because this loss is a mean (in elman lab it is a sum). "
        "d_o is the derivative of L with respect to o; every other d_… is the derivative of L with respect to …",
        (Line(cross_entropy, "d_o"), Line(cross_entropy, "minus_one"), Line(cross_entropy, "scale")),
        ("y_hat[t]", "y[t]"),
    ),
)
_OUTPUT_GRADIENTS = (
    Equation(
        "d_W_hy",
        "gradients",
        "d_W_hy = Σ_t h[t+1].T @ d_o[t]",
        "All steps use the same weights, so the gradients of all steps are added.",
        (Line(output_backward, "d_W_hy"),),
        ("h[t+1]", "d_o[t]"),
    ),
    Equation(
        "d_b_y",
        "gradients",
        "d_b_y = Σ_t d_o[t]",
        "A bias is added once per step, so its gradient is the sum of the gradients of all steps.",
        (Line(output_backward, "d_b_y"),),
        ("d_o[t]",),
    ),
)
_UPDATE = (
    Equation(
        "norm",
        "update",
        "norm = ‖d‖ = √ Σ d²",
        "The length of the gradient: the sum is over all entries of the gradients of all parameters.",
        (Function(clip_by_norm),),
    ),
    Equation(
        "scale",
        "update",
        "scale = min(1, limit / norm)",
        "Clipping: a gradient longer than the limit is shortened to it and keeps its direction; no other is changed.",
        (Function(clip_by_norm),),
        ("limit", "norm"),
    ),
    Equation(
        "p",  # of every parameter
        "update",
        "p ← p - η · scale · d_p",
        "A step of gradient descent, against the gradient; η is the learning rate. All parameters move at once.",
        (Function(sgd_step),),
        ("p", "η", "scale", "d_p"),
    ),
)
_TWO_USES = (
    "The state is used twice, so two gradients are added: that from the output of this step (or from the layer above, "
    "if there is one), and that from the next step"
)


def _rnn(cell: Cell) -> tuple[tuple[Equation, ...], ...]:
    f, f_prime = ACTIVATIONS[str(cell.activation)]
    table = Line(activations, f"ACTIVATIONS {cell.activation}")
    forward = (
        Equation(
            "a",
            "forward",
            "a[t] = x[t] @ W_xh + h[t] @ W_hh + b_h",
            "The pre-activation: the input, the previous state and a bias, weighted and added.",
            (TOKEN, BIAS, A_H, Line(RNNCell.forward, "a")),
            ("x[t]", "W_xh", "h[t]", "W_hh", "x[t] @ W_xh", "h[t] @ W_hh", "b_h"),
        ),
        Equation(
            "h",
            "forward",
            f"h[t+1] = {f}",
            "The state after the step: all that the network knows about what it has read.",
            (Line(RNNCell.forward, "h"), table),
            ("a[t]",),
        ),
    )
    backward = (
        Equation(
            "d_h",
            "backward",
            "d_h[t+1] = d_o[t] @ W_hy.T + d_a[t+1] @ W_hh.T",
            f"{_TWO_USES}.",
            (Line(output_backward, "d_h"), D_H_NEXT, D_H_SENT, D_H),
            ("d_o[t] @ W_hy.T", "d_a[t+1] @ W_hh.T"),
        ),
        Equation(
            "d_a",
            "backward",
            f"d_a[t] = {f_prime} ⊙ d_h[t+1]",
            "Back through the activation, entry by entry: where its derivative is near 0, little gradient passes.",
            (Line(RNNCell.backward, "d_a"), table),
            (f_prime, "d_h[t+1]"),
        ),
    )
    return forward, backward, (*_weight_gradients("d_a", "d_a"), _d_h0("d_a"))


def _gate(cell: type[Cell], gate: str, function: str, says: str) -> Equation:
    """A gate such as i[t] = sigmoid(x[t] @ W_xi + h[t] @ W_hi + b_i); `function` is sigmoid or tanh."""
    sums = (Line(cell.forward, "a"),) if cell is LSTMCell else (Line(cell.forward, "a_x"), Line(cell.forward, "a_h"))
    return Equation(
        GATES[gate],
        "forward",
        f"{GATES[gate]}[t] = {function}(x[t] @ W_x{gate} + h[t] @ W_h{gate} + b_{gate})",
        says,
        (TOKEN, BIAS, A_H, *sums, Line(cell.forward, gate)),
        (f"x[t] @ W_x{gate}", f"h[t] @ W_h{gate}", f"b_{gate}", f"a_{gate}[t]"),
    )


def _lstm(cell: Cell) -> tuple[tuple[Equation, ...], ...]:
    forward = (
        _gate(LSTMCell, "i", "sigmoid", "The input gate: how much of the candidate g each unit adds to c."),
        _gate(LSTMCell, "f", "sigmoid", "The forget gate: how much of its cell state c each unit keeps."),
        _gate(LSTMCell, "g", "tanh", "The candidate: what could be added to the cell state."),
        _gate(LSTMCell, "o", "sigmoid", "The output gate: how much of its cell state each unit passes to h."),
        Equation(
            "c",
            "forward",
            "c[t+1] = f[t] ⊙ c[t] + i[t] ⊙ g[t]",
            "The cell state: what the forget gate keeps, plus what the input gate adds.",
            (Line(LSTMCell.forward, "c"),),
            ("f[t]", "c[t]", "i[t]", "g[t]"),
        ),
        Equation(
            "h",
            "forward",
            "h[t+1] = o_gate[t] ⊙ tanh(c[t+1])",
            "The state that the output and the next step read.",
            (Line(LSTMCell.forward, "h"),),
            ("o_gate[t]", "tanh(c[t+1])"),
        ),
    )
    backward = (
        Equation(
            "d_h",
            "backward",
            "d_h[t+1] = d_o[t] @ W_hy.T + d_a[t+1] @ W_hh.T",
            f"{_TWO_USES}, which comes through W_hh of all four gates.",
            (Line(output_backward, "d_h"), D_H_NEXT, D_H_SENT, D_H),
            ("d_o[t] @ W_hy.T", "d_a[t+1] @ W_hh.T"),
        ),
        Equation(
            "d_c",
            "backward",
            "d_c[t+1] = f[t+1] ⊙ d_c[t+2] + o_gate[t] ⊙ (1 - tanh(c[t+1])²) ⊙ d_h[t+1]",
            "Again two gradients are added: that from the next cell state, through the forget gate alone; that from h.",
            (Line(LSTMCell.backward, "d_c_before"), Line(LSTMCell.backward, "d_c")),
            ("f[t+1] ⊙ d_c[t+2]", "o_gate[t]", "(1 - tanh(c[t+1])²)", "d_h[t+1]"),
        ),
        _d_gate(LSTMCell, "i", "i[t] ⊙ (1 - i[t]) ⊙ g[t] ⊙ d_c[t+1]", "i[t]", "g[t]", "d_c[t+1]"),
        _d_gate(LSTMCell, "f", "f[t] ⊙ (1 - f[t]) ⊙ c[t] ⊙ d_c[t+1]", "f[t]", "c[t]", "d_c[t+1]"),
        _d_gate(LSTMCell, "g", "(1 - g[t]²) ⊙ i[t] ⊙ d_c[t+1]", "g[t]", "i[t]", "d_c[t+1]"),
        _d_gate(
            LSTMCell,
            "o",
            "o_gate[t] ⊙ (1 - o_gate[t]) ⊙ tanh(c[t+1]) ⊙ d_h[t+1]",
            "o_gate[t]",
            "tanh(c[t+1])",
            "d_h[t+1]",
        ),
    )
    d_c0 = Equation(
        "d_c0",
        "gradients",
        "d_c[0] = f[0] ⊙ d_c[1]",
        "How L changes with the initial cell state.",
        (Line(LSTMCell.backward, "d_c_before"), D_S0),
        ("f[0]", "d_c[1]"),
    )
    return forward, backward, (*_weight_gradients("d_a", "d_a"), _d_h0("d_a"), d_c0)


def _gru(cell: Cell) -> tuple[tuple[Equation, ...], ...]:
    forward = (
        _gate(GRUCell, "r", "sigmoid", "The reset gate: how much of the recurrent product enters the candidate."),
        _gate(GRUCell, "z", "sigmoid", "The update gate: how much of its state each unit keeps."),
        Equation(
            "q",
            "forward",
            "q[t] = h[t] @ W_hn + b_hn",
            "The recurrent product of the candidate, with its own bias. The reset gate multiplies both.",
            (A_H, Line(GRUCell.forward, "q")),
            ("h[t] @ W_hn", "b_hn"),
        ),
        Equation(
            "n",
            "forward",
            "n[t] = tanh(x[t] @ W_xn + b_n + r[t] ⊙ q[t])",
            "The candidate: what could replace the state.",
            (TOKEN, BIAS, Line(GRUCell.forward, "a_x"), Line(GRUCell.forward, "n")),
            ("x[t] @ W_xn", "b_n", "r[t]", "q[t]"),
        ),
        Equation(
            "h",
            "forward",
            "h[t+1] = (1 - z[t]) ⊙ n[t] + z[t] ⊙ h[t]",
            "The state after the step: a mixture of the candidate and the previous state.",
            (Line(GRUCell.forward, "h"),),
            ("z[t]", "n[t]", "h[t]"),
        ),
    )
    backward = (
        Equation(
            "d_h",
            "backward",
            "d_h[t+1] = d_o[t] @ W_hy.T + d_a_h[t+1] @ W_hh.T + z[t+1] ⊙ d_h[t+2]",
            f"{_TWO_USES}, which comes through W_hh and, multiplied by the update gate z, directly.",
            (Line(output_backward, "d_h"), D_H_NEXT, Line(GRUCell.backward, "d_h_before"), D_H_SENT, D_H),
            ("d_o[t] @ W_hy.T", "d_a_h[t+1] @ W_hh.T", "z[t+1] ⊙ d_h[t+2]"),
        ),
        _d_gate(GRUCell, "n", "(1 - n[t]²) ⊙ (1 - z[t]) ⊙ d_h[t+1]", "n[t]", "z[t]", "d_h[t+1]"),
        _d_gate(GRUCell, "z", "z[t] ⊙ (1 - z[t]) ⊙ (h[t] - n[t]) ⊙ d_h[t+1]", "z[t]", "h[t]", "n[t]", "d_h[t+1]"),
        _d_gate(GRUCell, "r", "r[t] ⊙ (1 - r[t]) ⊙ q[t] ⊙ d_a_n[t]", "r[t]", "q[t]", "d_a_n[t]"),
        Equation(
            "d_q",
            "backward",
            "d_q[t] = r[t] ⊙ d_a_n[t]",
            "The gradient on the recurrent product of the candidate, which the reset gate multiplies.",
            (Line(GRUCell.backward, "d_q"),),
            ("r[t]", "d_a_n[t]"),
        ),
    )
    d_b_hn = Equation(
        "d_b_hn",
        "gradients",
        "d_b_hn = Σ_t d_q[t]",
        "b_hn is added once per step, in q, so its gradient is the sum of d_q over all steps.",
        (Line(GRUCell.backward, "d_b_hn"),),
        ("d_q[t]",),
    )
    d_h0 = Equation(
        "d_h0",
        "gradients",
        "d_h[0] = d_a_h[0] @ W_hh.T + z[0] ⊙ d_h[1]",
        "How L changes with the initial state.",
        (D_H_NEXT, Line(GRUCell.backward, "d_h_before"), D_H_SENT, D_S0),
        ("d_a_h[0]", "W_hh", "z[0]", "d_h[1]"),
    )
    return forward, backward, (*_weight_gradients("d_a_x", "d_a_h"), d_b_hn, d_h0)


def _d_gate(cell: type[Cell], gate: str, right: str, *operands: str) -> Equation:
    return Equation(
        f"d_a_{gate}",
        "backward",
        f"d_a_{gate}[t] = {right}",
        f"Back through gate {gate} to its pre-activation: the derivative of the gate, times what multiplies the "
        "gate, times the gradient of their product.",
        (Line(cell.backward, f"d_a_{gate}"),),
        operands,
    )


def _weight_gradients(d_a_x: str, d_a_h: str) -> tuple[Equation, ...]:
    """The gradients of W_hh, W_xh and b_h; the arguments name the gradients on the input and the recurrent product."""
    blocks = {
        "d_a": "",
        "d_a_h": " d_a_h holds d_a_r, d_a_z and d_q side by side.",
        "d_a_x": " d_a_x holds d_a_r, d_a_z and d_a_n side by side.",
    }
    return (
        Equation(
            "d_W_hh",
            "gradients",
            f"d_W_hh = Σ_t h[t].T @ {d_a_h}[t]",
            f"h[t] is the state before the step. The first one is zero, so the first step adds nothing.{blocks[d_a_h]}",
            (Line(cell_backward, "d_W_hh"),),
            ("h[t]", f"{d_a_h}[t]"),
        ),
        Equation(
            "d_W_xh",
            "gradients",
            f"d_W_xh = Σ_t x[t].T @ {d_a_x}[t]",
            f"Each {d_a_x}[t] is added to the row of the token that was read; other rows get 0.{blocks[d_a_x]}",
            (Line(embedding_backward, "d_W"),),
            ("x[t]", f"{d_a_x}[t]"),
        ),
        Equation(
            "d_b_h",
            "gradients",
            f"d_b_h = Σ_t {d_a_x}[t]",
            "The bias is added once per step, so its gradient is the sum over all steps.",
            (Line(cell_backward, "d_b_h"),),
            (f"{d_a_x}[t]",),
        ),
    )


def _d_h0(d_a_h: str) -> Equation:
    return Equation(
        "d_h0",
        "gradients",
        f"d_h[0] = {d_a_h}[0] @ W_hh.T",
        "How L changes with the initial state.",
        (D_H_NEXT, D_H_SENT, D_S0),
        (f"{d_a_h}[0]", "W_hh"),
    )
