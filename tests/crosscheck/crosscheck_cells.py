"""PyTorch's nn.GRU and nn.LSTM, with packed sequences and autograd, as the judges of ours in float64: the equations in
NumPy and the compiled ones. Run by scripts/crosscheck.
"""

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elman.kernels import recurrence as compiled
from elman.maths import recurrence as equations
from elman.maths.cells import make_cell

T, B, X, H = 7, 4, 3, 5
RAGGED = np.array([3, 7, 1, 5])
MODULES = {"gru": torch.nn.GRU, "lstm": torch.nn.LSTM}
ENGINES = {"equations": equations, "compiled": compiled}


def drawn(cell, seed):
    """Parameters of one direction and an initial state."""
    rng = np.random.default_rng(seed)
    p = {name: 0.6 * rng.standard_normal(shape) for name, shape in cell.shapes(X, H).items()}
    return p, 0.6 * rng.standard_normal((cell.parts, B, H))


def module_of(cell, ps):
    """PyTorch's layer with these numbers; b_h is split over its two biases, except where b_hn is the second one."""
    module = MODULES[cell.name](X, H, bidirectional=len(ps) > 1).double()
    with torch.no_grad():
        for p, end in zip(ps, ("", "_reverse"), strict=False):
            first, second = p["b_h"] * 0.3, p["b_h"] * 0.7
            if "b_hn" in p:
                first[2 * H :], second[2 * H :] = p["b_h"][2 * H :], p["b_hn"]
            given = {"weight_ih": p["W_xh"].T, "weight_hh": p["W_hh"].T, "bias_ih": first, "bias_hh": second}
            for name, array in given.items():
                getattr(module, f"{name}_l0{end}").copy_(torch.from_numpy(array))
    return module


@pytest.mark.parametrize("lengths", [None, RAGGED], ids=["full", "packed"])
@pytest.mark.parametrize("steps", [1, T])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("given", [False, True], ids=["zeros", "initial state"])
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", MODULES)
def test_states_and_gradients(agree, name, engine, given, bidirectional, steps, lengths):
    cell, rng = make_cell(name), np.random.default_rng(9)
    ends = ("", "_reverse")[: 1 + bidirectional]
    drawn_of = [drawn(cell, seed) for seed in range(len(ends))]
    ps, x = [p for p, _ in drawn_of], rng.standard_normal((steps, B, X))
    tensor = torch.tensor(x, requires_grad=True)
    starts = torch.tensor(np.stack([s for _, s in drawn_of], axis=1), requires_grad=given)  # (P, D, B, H)
    start = (tuple(starts) if cell.parts > 1 else starts[0]) if given else None
    module = module_of(cell, ps)
    if lengths is None:
        states, last = module(tensor, start)
    else:
        lengths = np.minimum(lengths, steps)
        packed, last = module(pack_padded_sequence(tensor, torch.from_numpy(lengths), enforce_sorted=False), start)
        states, _ = pad_packed_sequence(packed, total_length=steps)
    last = torch.stack(last) if cell.parts > 1 else last[np.newaxis]  # (P, D, B, H)
    v, u = rng.standard_normal((len(ends), steps, B, H)), rng.standard_normal((cell.parts, len(ends), B, H))
    directions = torch.stack(states.split(H, dim=-1))
    ((directions * torch.from_numpy(v)).sum() + (last * torch.from_numpy(u)).sum()).backward()

    d_x, loops = 0, ENGINES[engine]
    inside = (np.arange(steps)[:, np.newaxis] < (steps if lengths is None else lengths))[..., np.newaxis]
    for d, end in enumerate(ends):
        p, options = ps[d], {"lengths": lengths, "reverse": end == "_reverse"}
        trace = loops.cell_forward(cell, x, drawn_of[d][1] if given else None, p, **options)
        s = trace.s.copy()
        agree(h=(s[0, 1:] * inside, directions[d]), last=(s[:, 1 if options["reverse"] else -1], last[:, d]))
        # PyTorch has zeros in the padding, and zeros are constant
        ours = loops.cell_backward(cell, v[d] * inside, trace, x, p, d_s_last=u[:, d].copy(), **options)
        theirs = {
            name: getattr(module, f"{name}_l0{end}").grad for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        }
        agree(d_W_xh=(ours.d_p["W_xh"], theirs["weight_ih"].T), d_W_hh=(ours.d_p["W_hh"], theirs["weight_hh"].T))
        agree(d_b_h=(ours.d_p["b_h"], theirs["bias_ih"]))
        if "b_hn" in p:
            agree(d_b_hn=(ours.d_p["b_hn"], theirs["bias_hh"][2 * H :]))
        if given:
            agree(d_s0=(ours.d_s0, starts.grad[:, d]))
        d_x = d_x + ours.d_x
    agree(d_x=(d_x, tensor.grad))
