"""PyTorch's autograd as the judge of the equations and of every gradient, in float64. Run by scripts/crosscheck.

The name of this file keeps it out of a plain `pytest`: torch is no dependency. Losses are random projections, Σ v · h,
so that every entry of every state has a gradient of its own.
"""

from itertools import product

import numpy as np
import pytest
import torch
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elman import maths

T, B, X, H, Y = 7, 4, 3, 5, 6
RAGGED = np.array([3, 7, 1, 5])
EMPTY = np.array([3, 7, 0, 5])  # a row without any step: packing refuses it, a loop does not
SOFTSIGN = maths.Activation(lambda a: a / (1 + abs(a)), lambda h: (1 - abs(h)) ** 2)
ACTIVATIONS = {
    "tanh": torch.tanh,
    "relu": torch.relu,
    "sigmoid": torch.sigmoid,
    "identity": lambda a: a,
    SOFTSIGN: F.softsign,
}
CELL = ("W_xh", "W_hh", "b_h")

raggedness = pytest.mark.parametrize("lengths", [None, RAGGED], ids=["full", "ragged"])
inputs = pytest.mark.parametrize("ids", [False, True], ids=["floats", "ids"])


def draw(seed=0, steps=T, **shapes):
    """NumPy arrays, and tensors that share their numbers and collect gradients."""
    rng = np.random.default_rng(seed)
    shapes = {"x": (steps, B, X), "h0": (B, H), "W_xh": (X, H), "W_hh": (H, H), "b_h": (H,)} | shapes
    arrays = {name: 0.6 * rng.standard_normal(shape) for name, shape in shapes.items()}
    return arrays, {name: torch.tensor(array, requires_grad=True) for name, array in arrays.items()}


def gradients(ours, theirs, names):
    """d_name of ours beside the gradient that autograd left at the tensor with this name."""
    return {f"d_{name}": (getattr(ours, f"d_{name}"), theirs[name].grad) for name in names}


def torch_rnn(ps, activation="tanh", bidirectional=False):
    """nn.RNN with the weights of one direction or two; b_h is split over its two biases."""
    module = torch.nn.RNN(len(ps[0]["W_xh"]), H, nonlinearity=activation, bidirectional=bidirectional).double()
    with torch.no_grad():
        for p, end in zip(ps, ("", "_reverse"), strict=False):
            getattr(module, "weight_ih_l0" + end).copy_(torch.from_numpy(p["W_xh"].T))
            getattr(module, "weight_hh_l0" + end).copy_(torch.from_numpy(p["W_hh"].T))
            getattr(module, "bias_ih_l0" + end).copy_(torch.from_numpy(p["b_h"] * 0.3))
            getattr(module, "bias_hh_l0" + end).copy_(torch.from_numpy(p["b_h"] * 0.7))
    return module


def module_gradients(ours, module, end=""):
    grad = {kind: getattr(module, f"{kind}_l0{end}").grad for kind in ("weight_ih", "weight_hh", "bias_ih")}
    return {
        "d_W_xh": (ours.d_W_xh, grad["weight_ih"].T),
        "d_W_hh": (ours.d_W_hh, grad["weight_hh"].T),
        "d_b_h": (ours.d_b_h, grad["bias_ih"]),
    }


@raggedness
@pytest.mark.parametrize("steps", [1, T])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("given", [False, True], ids=["zeros", "h0"])
def test_rnn(agree, lengths, steps, activation, bidirectional, given):
    ends = ("", "_reverse")[: 1 + bidirectional]
    ps = [draw(seed, steps)[0] for seed in range(len(ends))]
    x = torch.tensor(ps[0]["x"], requires_grad=True)
    h0 = torch.tensor(np.stack([p["h0"] for p in ps]), requires_grad=True) if given else None
    module = torch_rnn(ps, activation, bidirectional)
    if lengths is None:
        states, last = module(x, h0)
    else:
        lengths = np.minimum(lengths, steps)
        packed, last = module(pack_padded_sequence(x, torch.from_numpy(lengths), enforce_sorted=False), h0)
        states, _ = pad_packed_sequence(packed, total_length=steps)
    rng = np.random.default_rng(9)
    v, u = rng.standard_normal((len(ends), steps, B, H)), rng.standard_normal((len(ends), B, H))
    directions = torch.stack(states.split(H, dim=-1))
    ((directions * torch.from_numpy(v)).sum() + (last * torch.from_numpy(u)).sum()).backward()

    d_x = 0
    inside = (np.arange(steps)[:, np.newaxis] < (steps if lengths is None else lengths))[..., np.newaxis]
    for d, end in enumerate(ends):
        p, options = ps[d], {"activation": activation, "lengths": lengths, "reverse": end == "_reverse"}
        h = maths.rnn_forward(ps[0]["x"], p["h0"] if given else None, *(p[n] for n in CELL), **options)
        final = 0 if options["reverse"] else -1  # where the direction ends: it is behind a short row's own end
        agree(h=(h[1:] * inside, directions[d]), last=(h[1:][final], last[d]))
        d_h = v[d] * inside  # PyTorch has zeros in the padding, and zeros are constant
        d_h[final] += u[d]
        ours = maths.rnn_backward(d_h, ps[0]["x"], h, p["W_xh"], p["W_hh"], **options)
        agree(**module_gradients(ours, module, end))
        if given:
            agree(d_h0=(ours.d_h0, h0.grad[d]))
        d_x = d_x + ours.d_x
    agree(d_x=(d_x, x.grad))


def loop(p, x, activation=torch.tanh, lengths=None, reverse=False, mask=None):
    """The states after each step, row by row: nothing that is padding is ever computed."""
    rows = []
    for row in range(B):
        h, n = p["h0"][row], len(x) if lengths is None else int(lengths[row])
        states = {}
        for t in reversed(range(n)) if reverse else range(n):
            h = activation(x[t, row] @ p["W_xh"] + (h if mask is None else h * mask[row]) @ p["W_hh"] + p["b_h"])
            states[t] = h
        carried = p["h0"][row] if reverse else h
        rows.append(torch.stack([states.get(t, carried) for t in range(len(x))]))
    return torch.stack(rows, dim=1)


@inputs
@pytest.mark.parametrize("lengths", [None, EMPTY], ids=["full", "ragged"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: a if isinstance(a, str) else "own")
def test_loop(agree, ids, lengths, reverse, masked, activation):
    """What nn.RNN lacks: the recurrent mask, the other activations, a row without any step."""
    p, q = draw()
    rng = np.random.default_rng(8)
    v, tokens = rng.standard_normal((T, B, H)), rng.integers(X, size=(T, B))
    mask = rng.integers(2, size=(B, H)) * 2.0 if masked else None
    x = F.one_hot(torch.from_numpy(tokens), X).double() if ids else q["x"]
    mask_tensor = None if mask is None else torch.from_numpy(mask)
    states = loop(q, x, ACTIVATIONS[activation], lengths, reverse, mask_tensor)
    (states * torch.from_numpy(v)).sum().backward()

    options = {"activation": activation, "lengths": lengths, "reverse": reverse, "h_mask": mask}
    x = tokens if ids else p["x"]
    h = maths.rnn_forward(x, p["h0"], *(p[name] for name in CELL), **options)
    ours = maths.rnn_backward(v, x, h, p["W_xh"], p["W_hh"], **options)
    agree(h=(h[1:], states), **gradients(ours, q, (*CELL, "h0") if ids else (*CELL, "h0", "x")))


def truncated(p, x, v, lengths, mask, k1, k2):
    """The definition, block by block and row by row: each starts from a detached state, unless that is h[0] itself."""
    fixed = torch.cat([p["h0"][np.newaxis], loop(p, x, lengths=lengths, mask=mask)]).detach()
    total = 0
    for row, first in product(range(B), range(0, T, k1)):
        block = range(first, min(first + k1, T))
        end = min(block.stop, T if lengths is None else int(lengths[row]))
        start = max(0, end - k2)
        h = fixed[start, row] if start else p["h0"][row]
        states = {start: h}  # the state before step t
        for t in range(start, end):
            h = torch.tanh(x[t, row] @ p["W_xh"] + (h * mask[row]) @ p["W_hh"] + p["b_h"])
            states[t + 1] = h
        total = total + sum((states[min(t + 1, end)] * v[t, row]).sum() for t in block)
    return total


@inputs
@pytest.mark.parametrize("lengths", [None, RAGGED, EMPTY], ids=["full", "ragged", "empty"])
@pytest.mark.parametrize("k", [(1, 1), (1, 3), (1, 6), (2, 2), (2, 3), (3, 5), (4, 6), (5, 5), (7, 7), (3, 20)])
@pytest.mark.parametrize("masked", [False, True])
def test_truncated(agree, ids, lengths, k, masked):
    p, q = draw()
    rng = np.random.default_rng(7)
    v, tokens = rng.standard_normal((T, B, H)), rng.integers(X, size=(T, B))
    mask = rng.integers(2, size=(B, H)) * 2.0 if masked else np.ones((B, H))
    x = F.one_hot(torch.from_numpy(tokens), X).double() if ids else q["x"]
    truncated(q, x, torch.from_numpy(v), lengths, torch.from_numpy(mask), *k).backward()

    x = tokens if ids else p["x"]
    options = {"lengths": lengths, "h_mask": mask if masked else None}
    h = maths.rnn_forward(x, p["h0"], *(p[name] for name in CELL), **options)
    ours = maths.truncated_backward(v, x, h, p["W_xh"], p["W_hh"], k1=k[0], k2=k[1], **options)
    agree(**gradients(ours, q, (*CELL, "h0") if ids else (*CELL, "h0", "x")))


@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_truncated_as_pytorch_users_do_it(agree, k):
    """k1 = k2: nn.RNN over one piece after the other, with the state detached between them.

    The pieces are of equal length: of a shorter last one our gradients would still reach k2 steps back.
    """
    p, q = draw(steps=6)
    module = torch_rnn([p])
    v = np.random.default_rng(6).standard_normal((6, B, H))
    state, total = q["h0"][np.newaxis], 0
    for piece, direct in zip(q["x"].split(k), torch.from_numpy(v).split(k), strict=True):
        states, state = module(piece, state)
        state = state.detach()
        total = total + (states * direct).sum()
    total.backward()
    h = maths.rnn_forward(p["x"], p["h0"], *(p[name] for name in CELL))
    ours = maths.truncated_backward(v, p["x"], h, p["W_xh"], p["W_hh"], k1=k, k2=k)
    agree(**module_gradients(ours, module), **gradients(ours, q, ("x", "h0")))


@raggedness
@pytest.mark.parametrize("way", ["one-hot", "Embedding"])
def test_token_ids(agree, lengths, way):
    """An id is a one-hot row: nn.RNN gets that row written out, or W_xh as an nn.Embedding before unit weights."""
    p, _ = draw()
    tokens = np.random.default_rng(5).integers(X, size=(T, B))
    if way == "one-hot":
        module = torch_rnn([p])
        x = F.one_hot(torch.from_numpy(tokens), X).double()
    else:
        module = torch_rnn([p | {"W_xh": np.eye(H)}])
        embedding = torch.nn.Embedding.from_pretrained(torch.tensor(p["W_xh"]), freeze=False)
        x = embedding(torch.from_numpy(tokens))
    h0 = torch.tensor(p["h0"][np.newaxis], requires_grad=True)
    v = np.random.default_rng(4).standard_normal((T, B, H))
    n = np.full(B, T) if lengths is None else lengths
    packed, _ = module(pack_padded_sequence(x, torch.from_numpy(n), enforce_sorted=False), h0)
    states, _ = pad_packed_sequence(packed, total_length=T)
    (states * torch.from_numpy(v)).sum().backward()

    inside = (np.arange(T)[:, np.newaxis] < n)[..., np.newaxis]
    h = maths.rnn_forward(tokens, p["h0"], *(p[name] for name in CELL), lengths=lengths)
    ours = maths.rnn_backward(v * inside, tokens, h, p["W_xh"], p["W_hh"], lengths=lengths)
    assert ours.d_x is None
    pairs = module_gradients(ours, module)
    if way == "Embedding":
        pairs["d_W_xh"] = (ours.d_W_xh, embedding.weight.grad)
    agree(h=(h[1:] * inside, states), d_h0=(ours.d_h0, h0.grad[0]), **pairs)


LOSSES = ("ids", "probabilities", "squares")


def their_loss(kind, o, y, weights, normalizer):
    """What F calls the loss, for each row, weighed and added up."""
    y = torch.from_numpy(y)
    if kind == "squares":
        rows = F.mse_loss(o, y, reduction="none").sum(dim=-1)
    else:  # F wants the classes in the second axis
        rows = F.cross_entropy(o.movedim(-1, 1), y.movedim(-1, 1) if kind == "probabilities" else y, reduction="none")
    return (rows * torch.from_numpy(np.ones((T, B)) if weights is None else weights)).sum() / normalizer


def target(kind, rng):
    if kind == "ids":
        return rng.integers(Y, size=(T, B))
    return rng.dirichlet(np.ones(Y), (T, B)) if kind == "probabilities" else rng.standard_normal((T, B, Y))


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("normalizer", [None, 3.7])
@pytest.mark.parametrize("scale", [1, 300], ids=["", "large"])
def test_output_and_loss(agree, kind, weighed, normalizer, scale):
    p, q = draw(h=(T, B, H), W_hy=(H, Y), b_y=(Y,))
    rng = np.random.default_rng(3)
    y, weights = target(kind, rng), rng.uniform(0, 2, (T, B)) if weighed else None
    their_o = scale * (q["h"] @ q["W_hy"] + q["b_y"])
    their_o.retain_grad()
    their_value = their_loss(kind, their_o, y, weights, normalizer or 1)
    their_value.backward()

    o = scale * maths.output_forward(p["h"], p["W_hy"], p["b_y"])
    loss = maths.mean_squared_error if kind == "squares" else maths.cross_entropy
    value, d_o = loss(o, y, weights=weights, normalizer=normalizer)
    ours = maths.output_backward(scale * d_o, p["h"], p["W_hy"])
    agree(o=(o, their_o), loss=(value, their_value), d_o=(d_o, their_o.grad))
    agree(**gradients(ours, q, ("W_hy", "b_y", "h")))


def test_softmax(agree):
    p, q = draw(o=(T, B, Y))
    v = np.random.default_rng(2).standard_normal((T, B, Y))
    theirs = torch.softmax(q["o"], dim=-1)
    (theirs * torch.from_numpy(v)).sum().backward()
    y_hat = maths.softmax(p["o"])
    agree(y_hat=(y_hat, theirs), d_o=(maths.softmax_backward(v, y_hat), q["o"].grad))


def test_embedding(agree):
    p, q = draw(E=(Y, X))
    rng = np.random.default_rng(1)
    ids, v = rng.integers(Y - 1, size=(T, B)), rng.standard_normal((T, B, X))  # ids repeat, and one is never used
    theirs = F.embedding(torch.from_numpy(ids), q["E"])
    (theirs * torch.from_numpy(v)).sum().backward()
    agree(x=(maths.embedding_forward(ids, p["E"]), theirs), d_E=(maths.embedding_backward(v, ids, p["E"]), q["E"].grad))


@raggedness
@pytest.mark.parametrize("kind", LOSSES)
def test_whole_network(agree, lengths, kind):
    """Embedding, cell, output and loss in one chain, the padding weighed with 0, as a model is trained."""
    p, q = draw(E=(Y, X), W_hy=(H, Y), b_y=(Y,))
    rng = np.random.default_rng(0)
    tokens, y = rng.integers(Y, size=(T, B)), target(kind, rng)
    weights = (np.arange(T)[:, np.newaxis] < (np.full(B, T) if lengths is None else lengths)).astype(float)
    states = loop(q, F.embedding(torch.from_numpy(tokens), q["E"]), lengths=lengths)
    their_value = their_loss(kind, states @ q["W_hy"] + q["b_y"], y, weights, weights.sum())
    their_value.backward()

    x = maths.embedding_forward(tokens, p["E"])
    h = maths.rnn_forward(x, p["h0"], *(p[name] for name in CELL), lengths=lengths)
    loss = maths.mean_squared_error if kind == "squares" else maths.cross_entropy
    o = maths.output_forward(h[1:], p["W_hy"], p["b_y"])
    value, d_o = loss(o, y, weights=weights, normalizer=weights.sum())
    output = maths.output_backward(d_o, h[1:], p["W_hy"])
    cell = maths.rnn_backward(output.d_h, x, h, p["W_xh"], p["W_hh"], lengths=lengths)
    agree(loss=(value, their_value), **gradients(output, q, ("W_hy", "b_y")), **gradients(cell, q, (*CELL, "h0")))
    agree(d_E=(maths.embedding_backward(cell.d_x, tokens, p["E"]), q["E"].grad))


class ElmanRNN(torch.autograd.Function):
    """Our cell as a function of PyTorch's: both passes are ours."""

    @staticmethod
    def forward(ctx, x, h0, W_xh, W_hh, b_h, options):
        arrays = [tensor.detach().numpy() for tensor in (x, h0, W_xh, W_hh, b_h)]
        h = maths.rnn_forward(*arrays, **options)
        ctx.kept = (arrays[0], h, *arrays[2:4]), options
        return torch.from_numpy(h[1:])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_h):
        kept, options = ctx.kept
        ours = maths.rnn_backward(d_h.numpy(), *kept, **options)
        found = (ours.d_x, ours.d_h0, ours.d_W_xh, ours.d_W_hh, ours.d_b_h)
        return *(torch.from_numpy(d) for d in found), None


@pytest.mark.parametrize("lengths", [None, EMPTY], ids=["full", "ragged"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS, ids=lambda a: a if isinstance(a, str) else "own")
def test_gradcheck(lengths, reverse, masked, activation):
    _, q = draw()
    mask = np.random.default_rng(0).integers(2, size=(B, H)) * 2.0 if masked else None
    options = {"activation": activation, "lengths": lengths, "reverse": reverse, "h_mask": mask}
    assert torch.autograd.gradcheck(ElmanRNN.apply, (*(q[name] for name in ("x", "h0", *CELL)), options))
