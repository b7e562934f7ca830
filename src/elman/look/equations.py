"""The equations in the order in which they run, each with what it says and the lines of code that are it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from elman.look.watch import Line
from elman.maths import activations
from elman.maths.cell import rnn_backward, rnn_forward
from elman.maths.layers import (
    embedding_backward,
    embedding_forward,
    input_backward,
    input_forward,
    output_backward,
    output_forward,
)
from elman.maths.loss import cross_entropy

READ = Line(rnn_forward, "z = input_forward(x, W_xh)", "z")  # of all steps at once
REMEMBERED = Line(rnn_forward, "a = state @ W_hh", "a")
SUM = Line(rnn_forward, "a += z[t]", "a")
Y_HAT = Line(cross_entropy, "y_hat /= total", "y_hat")
D_H = Line(rnn_backward, "d_h = d_h_direct[t] + d_h_next", "d_h")
D_A = Line(rnn_backward, "np.multiply(derivative(h[t + 1]), d_h, out=d_a[t])", "d_a")
D_H_NEXT = Line(rnn_backward, "d_h_next = d_a[t] @ W_hh.T", "d_h_next")
TOKEN = Line(embedding_forward, 'return np.take(W, ids, axis=0, out=out, mode="clip" if out is not None else "raise")')

# where the input of a layer is the state of the layer below
STACKED = {
    "a": Line(input_forward, "return (x.reshape(T * B, X) @ W_xh).reshape(T, B, -1)"),
    "d_h": Line(input_backward, "d_x += (d_a.reshape(-1, H) @ W_xh.T).reshape(x.shape)"),
    "d_W_xh": Line(input_backward, "d_W_xh += x.reshape(-1, X).T @ d_a.reshape(-1, H)"),
}
ACTIVATIONS = {  # the row of the table, f(a), f' in terms of h
    "tanh": ('"tanh": Activation(np.tanh, lambda h: 1 - h * h),', "tanh(a[t])", "(1 - h[t+1]²)"),
    "relu": (
        '"relu": Activation(lambda a: np.maximum(a, 0), lambda h: (h > 0).astype(h.dtype)),',
        "max(a[t], 0)",
        "(h[t+1] > 0)",
    ),
    "sigmoid": (
        '"sigmoid": Activation(lambda a: (1 + np.tanh(a / 2)) / 2, lambda h: h * (1 - h)),',
        "1 / (1 + exp(-a[t]))",
        "h[t+1] ⊙ (1 - h[t+1])",
    ),
    "identity": ('"identity": Activation(lambda a: a, np.ones_like),', "a[t]", "1"),
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
    row, f, f_prime = ACTIVATIONS[activation]
    table = Line(activations, row)
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
            (TOKEN, Line(rnn_forward, "z += b_h"), REMEMBERED, SUM),
        ),
        Equation(
            "h",
            "forward",
            f"h[t+1] = {f}",
            "The state after the step: all that the network knows of what it has read.",
            (Line(rnn_forward, "h[t + 1] = f(a)"), table),
        ),
        Equation(
            "o",
            "forward",
            "o[t] = h[t+1] @ W_hy + b_y",
            "A number for each possible next token: the higher, the likelier.",
            (
                Line(output_forward, "np.matmul(h.reshape(-1, H), W_hy, out=o.reshape(-1, Y))"),
                Line(output_forward, "o += b_y"),
            ),
        ),
        Equation(
            "y_hat",
            "forward",
            "y_hat[t] = exp(o[t]) / Σ exp(o[t])",
            "Softmax: the numbers become probabilities that add up to 1.",
            (
                Line(cross_entropy, "shifted = o - o.max(axis=-1, keepdims=True)"),
                Line(cross_entropy, "y_hat = np.exp(shifted, out=out)"),
                Y_HAT,
            ),
        ),
        Equation(
            "L",
            "loss",
            "L = - Σ_t log y_hat[t][y[t]] / T",
            "The loss: what the right tokens cost, in nats, on average. From here everything runs backward.",
            (
                Line(cross_entropy, "log_total = np.log(total)"),
                Line(
                    cross_entropy,
                    "loss = (scale * (log_total - np.take_along_axis(shifted, ids, axis=-1))).sum(dtype=np.float64)",
                ),
            ),
        ),
        Equation(
            "d_o",
            "backward",
            "d_o[t] = (y_hat[t] - y[t]) / T",
            "What was said minus what is right; scale is 1 / T. d_ means the derivative of L by what follows.",
            (
                Line(cross_entropy, "d_o = y_hat"),
                Line(cross_entropy, "np.put_along_axis(d_o, ids, np.take_along_axis(d_o, ids, axis=-1) - 1, axis=-1)"),
                Line(cross_entropy, "d_o *= scale"),
            ),
        ),
        Equation(
            "d_h",
            "backward",
            "d_h[t+1] = d_o[t] @ W_hy.T + d_a[t+1] @ W_hh.T",
            "The state was used twice: by its own output, and by the next step, which sends the second term back.",
            (Line(output_backward, "out.d_h[...] += (rows @ W_hy.T).reshape(h.shape)"), D_H_NEXT, D_H),
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
            (Line(output_backward, "out.d_W_hy[...] += h.reshape(-1, H).T @ rows"),),
        ),
        Equation(
            "d_b_y",
            "gradients",
            "d_b_y = Σ_t d_o[t]",
            "A bias is added once a step, and receives each step's gradient as it is.",
            (Line(output_backward, "out.d_b_y[...] += rows.sum(axis=0)"),),
        ),
        Equation(
            "d_W_hh",
            "gradients",
            "d_W_hh = Σ_t h[t].T @ d_a[t]",
            "h[t] is the state before the step. The first one is zero, so the first step adds nothing.",
            (Line(rnn_backward, "out.d_W_hh[...] += before.reshape(T * B, H).T @ d_a.reshape(T * B, H)"),),
        ),
        Equation(
            "d_W_xh",
            "gradients",
            "d_W_xh = Σ_t x[t].T @ d_a[t]",
            "Each d_a[t] is added to the row of the token that was read. A token that was not read gets nothing.",
            (Line(embedding_backward, "d_W += (one_hot.T @ rows).astype(W.dtype, copy=False)"),),
        ),
        Equation(
            "d_b_h",
            "gradients",
            "d_b_h = Σ_t d_a[t]",
            "Again once a step.",
            (Line(rnn_backward, "out.d_b_h[...] += d_a.sum(axis=(0, 1))"),),
        ),
        Equation(
            "d_h0",
            "gradients",
            "d_h[0] = d_a[0] @ W_hh.T",
            "What is left of the gradient at the very beginning: how L would change with the initial state.",
            (D_H_NEXT, Line(rnn_backward, "out.d_h0[...] += d_h_next")),
        ),
    )
    return {equation.name: equation for equation in rows}
