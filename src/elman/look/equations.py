"""The equations of a vanilla network in the order in which they run, each with the code that computes it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from elman.look.line_tracer import Line
from elman.maths import activations
from elman.maths.cells.rnn import RNNCell
from elman.maths.layers import (
    embedding_backward,
    embedding_forward,
    input_backward,
    input_forward,
    output_backward,
    output_forward,
)
from elman.maths.loss import cross_entropy
from elman.maths.recurrence import cell_backward, cell_forward

READ = Line(cell_forward, "z", "z")  # of all steps at once
REMEMBERED = Line(cell_forward, "r", "r")
SUM = Line(RNNCell.forward, "a", "a")
Y_HAT = Line(cross_entropy, "y_hat", "y_hat")
D_H_DIRECT = Line(cell_backward, "last", "d_h_direct")
D_H = Line(cell_backward, "d_h", "d_s")
D_A = Line(RNNCell.backward, "d_a", "d_a")
D_H_NEXT = Line(cell_backward, "d_h_next", "d_h_next")
D_H_SENT = Line(cell_backward, "d_h_sent")
TOKEN = Line(embedding_forward, "x")

# where the input of a layer is the state of the layer below
STACKED = {
    "a": Line(input_forward, "dense"),
    "d_h": Line(input_backward, "d_x"),
    "d_W_xh": Line(input_backward, "d_W_xh"),
}
ACTIVATIONS = {  # f(a), and f' in terms of h
    "tanh": ("tanh(a[t])", "(1 - h[t+1]²)"),
    "relu": ("max(a[t], 0)", "(h[t+1] > 0)"),
    "sigmoid": ("1 / (1 + exp(-a[t]))", "h[t+1] ⊙ (1 - h[t+1])"),
    "identity": ("a[t]", "1"),
}


@dataclass(frozen=True)
class Equation:
    name: str
    phase: str  # forward, loss, backward, gradients
    formula: str
    says: str
    lines: tuple[Line, ...]

    def at(self, t: int) -> str:
        """The formula of step t."""
        return re.sub(r"\[t(\+1)?\]", lambda m: f"[{t + bool(m[1])}]", self.formula)


def equations(activation: str) -> dict[str, Equation]:
    """All of them, by the name of what they compute."""
    f, f_prime = ACTIVATIONS[activation]
    table = Line(activations, f"ACTIVATIONS {activation}")
    rows = (
        Equation(
            "x",
            "forward",
            "x[t] = one-hot row of the token",
            "1 at the token's number, 0 elsewhere. It is never made: x[t] @ W_xh is a row of W_xh, which this takes.",
            (TOKEN,),
        ),
        Equation(
            "a",
            "forward",
            "a[t] = x[t] @ W_xh + h[t] @ W_hh + b_h",
            "The weighted sum: what is read, plus what is remembered, plus a bias.",
            (TOKEN, Line(cell_forward, "bias"), REMEMBERED, SUM),
        ),
        Equation(
            "h",
            "forward",
            f"h[t+1] = {f}",
            "The state after the step: all that the network knows of what it has read.",
            (Line(RNNCell.forward, "h"), table),
        ),
        Equation(
            "o",
            "forward",
            "o[t] = h[t+1] @ W_hy + b_y",
            "A number for each possible next token: the higher, the likelier.",
            (Line(output_forward, "o"), Line(output_forward, "b_y")),
        ),
        Equation(
            "y_hat",
            "forward",
            "y_hat[t] = exp(o[t]) / Σ exp(o[t])",
            "Softmax: the numbers become probabilities that add up to 1.",
            (Line(cross_entropy, "shifted"), Line(cross_entropy, "exp"), Y_HAT),
        ),
        Equation(
            "L",
            "loss",
            "L = - Σ_t log y_hat[t][y[t]] / T",
            "The loss: what the right tokens cost, in nats, on average. From here everything runs backward.",
            (Line(cross_entropy, "log_total"), Line(cross_entropy, "loss")),
        ),
        Equation(
            "d_o",
            "backward",
            "d_o[t] = (y_hat[t] - y[t]) / T",
            "What was said minus what is right; scale is 1 / T. d_ means the derivative of L by what follows.",
            (Line(cross_entropy, "d_o"), Line(cross_entropy, "minus_one"), Line(cross_entropy, "scale")),
        ),
        Equation(
            "d_h",
            "backward",
            "d_h[t+1] = d_o[t] @ W_hy.T + d_a[t+1] @ W_hh.T",
            "The state was used twice: by its own output, and by the next step, which sends the second term back.",
            (Line(output_backward, "d_h"), D_H_NEXT, D_H_SENT, D_H),
        ),
        Equation(
            "d_a",
            "backward",
            f"d_a[t] = {f_prime} ⊙ d_h[t+1]",
            "Back through the activation, entry by entry: where its derivative is near 0 the gradient dies.",
            (D_A, table),
        ),
        Equation(
            "d_W_hy",
            "gradients",
            "d_W_hy = Σ_t h[t+1].T @ d_o[t]",
            "The same weights served at every step, so what the steps send is added up.",
            (Line(output_backward, "d_W_hy"),),
        ),
        Equation(
            "d_b_y",
            "gradients",
            "d_b_y = Σ_t d_o[t]",
            "A bias is added once a step, and receives each step's gradient as it is.",
            (Line(output_backward, "d_b_y"),),
        ),
        Equation(
            "d_W_hh",
            "gradients",
            "d_W_hh = Σ_t h[t].T @ d_a[t]",
            "h[t] is the state before the step. The first one is zero, so the first step adds nothing.",
            (Line(cell_backward, "d_W_hh"),),
        ),
        Equation(
            "d_W_xh",
            "gradients",
            "d_W_xh = Σ_t x[t].T @ d_a[t]",
            "Each d_a[t] is added to the row of the token that was read. A token that was not read gets nothing.",
            (Line(embedding_backward, "d_W"),),
        ),
        Equation(
            "d_b_h",
            "gradients",
            "d_b_h = Σ_t d_a[t]",
            "Again once a step.",
            (Line(cell_backward, "d_b_h"),),
        ),
        Equation(
            "d_h0",
            "gradients",
            "d_h[0] = d_a[0] @ W_hh.T",
            "What is left of the gradient at the very beginning: how L would change with the initial state.",
            (D_H_NEXT, D_H_SENT, Line(cell_backward, "d_h0")),
        ),
    )
    return {equation.name: equation for equation in rows}
