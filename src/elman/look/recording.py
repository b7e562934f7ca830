"""Records every quantity of a forward and a backward pass over a short text, while `elman.maths` computes it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from elman.look.equations import A_H, A_X, ACTIVATIONS, D_H, D_H_DIRECT, D_H_NEXT, GATES, Y_HAT
from elman.look.line_tracer import Line, watch
from elman.look.traces import in_float64
from elman.maths.activations import get_activation
from elman.maths.arrays import Array
from elman.maths.cells import Cell, GRUCell, LSTMCell, RNNCell, Weights
from elman.maths.layers import output_backward, output_forward
from elman.maths.loss import cross_entropy, surprise
from elman.maths.recurrence import CellTrace
from elman.maths.truncation import Truncation
from elman.network import HeadNetwork, Parameters, Stack
from elman.network.stack import Packed, StackTrace

# the quantities that the backward pass of a cell computes at each step, by name, with their lines
BACKWARD = {
    "rnn": {"d_a[t]": Line(RNNCell.backward, "d_a", "d_a")},
    "gru": {
        **{f"d_a_{gate}[t]": Line(GRUCell.backward, f"d_a_{gate}", f"d_a_{gate}") for gate in "nzr"},
        **{f"{name}[t]": Line(GRUCell.backward, name, name) for name in ("d_q", "d_a_x", "d_a_h")},
        "z[t] ⊙ d_h[t+1]": Line(GRUCell.backward, "d_h_before", "d_h_before"),
    },
    "lstm": {
        "d_c[t+1]": Line(LSTMCell.backward, "d_c", "d_c"),
        **{f"d_a_{gate}[t]": Line(LSTMCell.backward, f"d_a_{gate}", f"d_a_{gate}") for gate in "ifgo"},
        "d_a[t]": Line(LSTMCell.backward, "d_a", "d_a"),
        "f[t] ⊙ d_c[t+1]": Line(LSTMCell.backward, "d_c_before", "d_c_before"),
    },
}


# terms that come from the next step, besides that through W_hh: by name, the quantity of the next step that they are
LATER = {"gru": {"z[t+1] ⊙ d_h[t+2]": "z[t] ⊙ d_h[t+1]"}, "lstm": {"f[t+1] ⊙ d_c[t+2]": "f[t] ⊙ d_c[t+1]"}}


class Quantity(NamedTuple):
    """An array and a letter for each of its axes.

    T steps, B rows, X input tokens, E entries of an embedding, H units, G gates times units, Y outputs. T is always the
    first axis.
    """

    array: Array
    axes: str

    @property
    def by_step(self) -> bool:
        """Whether the first axis is the step."""
        return self.axes.startswith("T")


Quantities = dict[str, Quantity]


class Recording(NamedTuple):
    """All quantities of a forward and a backward pass by name, as in the formulas: "h[t+1]" has T entries."""

    T: int
    k2: int  # the steps over which each loss is backpropagated alone; 0: all losses over all steps together
    cell: Cell
    p: Parameters
    gradients: Parameters
    output: Quantities  # of the output layer and the loss
    layers: list[Quantities]
    of_losses: list[list[Quantities]]  # of each backward pass, that of each loss or that of all; of each layer


def record(network: HeadNetwork, p: Parameters, x: Array, y: Array, bptt_steps: int | None = None) -> Recording:
    """Record both passes over the ids x, (T,), with the targets y, (T,): one row, in float64, the loss divided by T.

    With fewer bptt_steps than T, each loss is backpropagated alone, over at most this many steps, and a quantity of the
    backward pass is the sum over all losses.
    """
    stack = network.stack
    packed, p = in_float64(stack, p)
    cell, T = stack.cell, len(x)
    W_hy, b_y = p["head.W_hy"], p["head.b_y"]
    ids, targets = (np.asarray(i, np.int64)[:, np.newaxis] for i in (x, y))  # (T, 1)
    trace, (a_x, a_h) = watch(partial(stack.forward, packed, p, ids), (A_X, A_H))
    o = output_forward(trace.outputs, W_hy, b_y)  # (T, 1, Y)
    (L, d_o), ((y_hat,),) = watch(partial(cross_entropy, o, targets, normalizer=T), (Y_HAT,))
    d_output = output_backward(d_o, trace.outputs, W_hy)
    truncation = None if bptt_steps is None or bptt_steps >= T else Truncation(1, bptt_steps)
    gradients = p.zeros()
    _, d_state = stack.backward(packed, p, trace, d_output.d_h.copy(), gradients, truncation=truncation)
    gradients["head.W_hy"][...], gradients["head.b_y"][...] = d_output.d_W_hy, d_output.d_b_y
    k2 = 0 if truncation is None else truncation.k2
    reached = [range(max(0, t + 1 - k2), t + 1) for t in range(T)] if k2 else [range(T)]
    of_losses = [_backward(stack, packed, p, trace, d_output.d_h, steps) for steps in reached]
    backward = [_summed(of_layer) for of_layer in zip(*of_losses, strict=True)]
    recurrent = np.stack(a_h).reshape(stack.layers, T, *a_h[0].shape)
    layers = []
    for i, name in enumerate(stack.names):
        x_in = Quantity(trace.inputs[i], "TBH" if i else "TBE")
        if trace.inputs[i].ndim == 2:
            x_in = Quantity(_one_hot(ids, stack.inputs), "TBX")  # only to be shown
        found = _forward(cell, p.part(name), a_x[i], recurrent[i], trace.traces[i], x_in.axes[-1]) | {"x[t]": x_in}
        found |= backward[i]
        d, wide = gradients.part(name), "G" if cell.gates > 1 else "H"
        found["d_W_hh"], found["d_W_xh"] = Quantity(d["W_hh"], f"H{wide}"), Quantity(d["W_xh"], x_in.axes[-1] + wide)
        found["d_b_h"] = Quantity(d["b_h"], wide)
        for short in cell.extra_shapes(stack.hidden):
            found[f"d_{short}"] = Quantity(d[short], "H")
        for part, of_state in enumerate(cell.state_names):
            found[f"d_{of_state}[0]"] = Quantity(d_state[i, part], "BH")
        layers.append(found)
    output = {
        "W_hy": Quantity(W_hy, "HY"),
        "b_y": Quantity(b_y, "Y"),
        "o[t]": Quantity(o, "TBY"),
        "y_hat[t]": Quantity(y_hat, "TBY"),
        "y[t]": Quantity(_one_hot(targets, network.outputs), "TBY"),
        "L": Quantity(np.asarray(L), ""),
        "-log y_hat[t][y[t]]": Quantity(surprise(o, targets), "TB"),
        "d_o[t]": Quantity(d_o, "TBY"),
        "d_W_hy": Quantity(d_output.d_W_hy, "HY"),
        "d_b_y": Quantity(d_output.d_b_y, "Y"),
    }
    return Recording(T, k2, cell, p, gradients, output, layers, of_losses)


def _backward(
    stack: Stack, packed: Packed, p: Parameters, trace: StackTrace, d_outputs: Array, steps: range
) -> list[Quantities]:
    """The quantities of a backward pass over these steps, by layer; they are 0 at all other steps.

    It begins with the losses of all steps if the steps are all there are, otherwise with that of the last one alone.
    """
    T, cut, cell = len(d_outputs), slice(steps.start, steps.stop), stack.cell
    traces = [
        CellTrace(layer.s[:, steps.start : steps.stop + 1], tuple(part[cut] for part in layer.kept))
        for layer in trace.traces
    ]
    ids = None if trace.ids is None else trace.ids[cut]
    window = StackTrace(ids, [part[cut] for part in trace.inputs], traces, trace.final)
    d = d_outputs[cut].copy()
    d[: 0 if len(steps) == T else -1] = 0
    back, of_cell = partial(stack.backward, packed, p, window, d, p.zeros()), BACKWARD[cell.name]
    _, (direct, *values) = watch(back, (D_H_DIRECT, D_H, D_H_NEXT, *of_cell.values()))
    # in the order of computation: a backward pass begins with the last layer and the last step
    d_s, d_next, *rest = (np.stack(v).reshape(stack.layers, len(steps), *v[0].shape)[::-1, ::-1] for v in values)
    found = {
        "d_o[t] @ W_hy.T": np.stack(direct)[::-1],  # below the top layer: d_x[t] of the layer above
        "d_h[t+1]": d_s[:, :, 0],
        ("d_a_h" if cell.name == "gru" else "d_a") + "[t+1] @ W_hh.T": _later(d_next),
        **dict(zip(of_cell, rest, strict=True)),
    }
    found |= {next_step: _later(found[step]) for next_step, step in LATER.get(cell.name, {}).items()}
    wide = ["d_a[t]", "d_a_x[t]", "d_a_h[t]"] if cell.gates > 1 else []
    before_and_after = ((0, 0), (steps.start, T - steps.stop), (0, 0), (0, 0))
    padded = {key: np.pad(part, before_and_after) for key, part in found.items()}
    return [
        {key: Quantity(part[i], "TBG" if key in wide else "TBH") for key, part in padded.items()}
        for i in range(stack.layers)
    ]


def _summed(of_losses: Sequence[Quantities]) -> Quantities:
    """Each quantity, summed over the losses."""
    return {
        key: Quantity(np.sum([of_loss[key].array for of_loss in of_losses], axis=0), quantity.axes)
        for key, quantity in of_losses[0].items()
    }


def _forward(cell: Cell, p: Weights, a_x: Array, a_h: Array, trace: CellTrace, inputs: str) -> Quantities:
    """The quantities of a layer's forward pass; a_x has no bias; inputs is the letter of the axis of x[t]."""
    wide = "G" if cell.gates > 1 else "H"
    found = {
        "W_xh": Quantity(p["W_xh"], inputs + wide),
        "W_hh": Quantity(p["W_hh"], f"H{wide}"),
        "b_h": Quantity(p["b_h"], wide),
        "x[t] @ W_xh": Quantity(a_x, f"TB{wide}"),
        "h[t] @ W_hh": Quantity(a_h, f"TB{wide}"),
        **{short: Quantity(p[short], "H") for short in cell.extra_shapes(trace.s.shape[-1])},
    }
    for state, values in zip(cell.state_names, trace.s, strict=True):
        found[f"{state}[t]"], found[f"{state}[t+1]"] = Quantity(values[:-1], "TBH"), Quantity(values[1:], "TBH")
    if cell.gates == 1:
        found["a[t]"] = Quantity(a_x + p["b_h"] + a_h, "TBH")
        f_prime = ACTIVATIONS[str(cell.activation)][1]
        found[f_prime] = Quantity(get_activation(cell.activation).derivative(trace.s[0, 1:]), "TBH")
        return found
    blocks = [np.split(part, cell.gates, axis=-1) for part in (a_x, a_h, p["b_h"], a_x + p["b_h"] + a_h)]
    for gate, from_x, from_h, bias, a in zip(cell.gate_names, *blocks, strict=True):
        found[f"x[t] @ W_x{gate}"], found[f"h[t] @ W_h{gate}"] = Quantity(from_x, "TBH"), Quantity(from_h, "TBH")
        found[f"b_{gate}"], found[f"a_{gate}[t]"] = Quantity(bias, "H"), Quantity(a, "TBH")
    for kept, values in zip(cell.kept_names, trace.kept, strict=True):
        found[f"{GATES.get(kept, kept)}[t]"] = Quantity(values, "TBH")
    if cell.name == "lstm":
        tanh_c = np.tanh(trace.s[1, 1:])
        found |= {"tanh(c[t+1])": Quantity(tanh_c, "TBH"), "(1 - tanh(c[t+1])²)": Quantity(1 - tanh_c**2, "TBH")}
    return found


def _later(values: Array) -> Array:
    """The values (layers, T, …) of the next step; 0 at the last step."""
    return np.concatenate([values[:, 1:], np.zeros_like(values[:, :1])], axis=1)


def _one_hot(ids: Array, size: int) -> Array:
    """The one-hot rows of ids, without the identity matrix, which would be large for a large vocabulary."""
    rows = np.zeros((*ids.shape, size))
    np.put_along_axis(rows, ids[..., np.newaxis], 1.0, axis=-1)
    return rows
