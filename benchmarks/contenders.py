"""One training step of a language model, and sampling from it, of the same network in each library.

A step is: forward, softmax cross-entropy, backward, clip by global norm, SGD. The state after a window is the state
before the next one, as in training on a text. Each function named …_step returns a function that takes one step and
returns its loss; torch_sampler returns one that draws n tokens of each sequence. Elman's are in adapter.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Step = Callable[[], float]


class Size(NamedTuple):
    B: int
    T: int
    H: int
    V: int
    L: int = 1
    cell: str = "rnn"

    @property
    def gates(self) -> int:
        return {"rnn": 1, "gru": 3, "lstm": 4}[self.cell]


class Hyper(NamedTuple):
    rate: float = 1e-3
    limit: float = 5.0  # of the gradient's norm


class Problem:
    """Weights and tokens, the same in every library: layers of W_xh, W_hh, b_h and a GRU's b_hn, the output layer, ids.

    Gates are in the order of Elman and PyTorch: r, z, n and i, f, g, o.
    """

    def __init__(self, size: Size) -> None:
        rng = np.random.default_rng(0)
        self.size = size
        B, T, H, V, L, cell = size
        N = size.gates * H

        def weights(*shape: int, deviation: float) -> Any:
            return rng.normal(0, deviation, shape).astype(np.float32)

        self.layers = [
            (
                weights(H, N, deviation=H**-0.5) if layer else weights(V, N, deviation=0.3),
                weights(H, N, deviation=0.8 * H**-0.5),
                weights(N, deviation=0.1),
                *([weights(H, deviation=0.1)] if cell == "gru" else []),
            )
            for layer in range(L)
        ]
        self.head = weights(H, V, deviation=H**-0.5), weights(V, deviation=0.1)
        self.x, self.y = rng.integers(V, size=(2, T, B))  # (T, B) each


def torch_step(problem: Problem, hyper: Hyper) -> Step:
    import torch
    import torch.nn.functional as F

    B, _, H, V, L, cell = problem.size
    rnn, head = getattr(torch.nn, cell.upper())(V, H, L), torch.nn.Linear(H, V)
    with torch.no_grad():
        for layer, (W_xh, W_hh, b_h, *b_hn) in enumerate(problem.layers):
            getattr(rnn, f"weight_ih_l{layer}").copy_(torch.from_numpy(W_xh.T))
            getattr(rnn, f"weight_hh_l{layer}").copy_(torch.from_numpy(W_hh.T))
            getattr(rnn, f"bias_ih_l{layer}").copy_(torch.from_numpy(b_h))
            # the second bias stays 0 where one is enough: the sum of two would learn twice as fast
            second = getattr(rnn, f"bias_hh_l{layer}").zero_()
            if b_hn:
                second[2 * H :] = torch.from_numpy(b_hn[0])
                only_n = torch.cat([torch.zeros(2 * H), torch.ones(H)])
                second.register_hook(lambda d, only_n=only_n: d * only_n)
            else:
                second.requires_grad_(False)
        head.weight.copy_(torch.from_numpy(problem.head[0].T))
        head.bias.copy_(torch.from_numpy(problem.head[1]))
    x, y = torch.from_numpy(problem.x), torch.from_numpy(problem.y).view(-1)

    def forward(state: Any) -> tuple[Any, Any]:
        out, state = rnn(F.one_hot(x, V).float(), state)  # PyTorch's layers take no token ids
        last = tuple(part.detach() for part in state) if cell == "lstm" else state.detach()
        return F.cross_entropy(head(out).view(-1, V), y), last

    params = [p for p in (*rnn.parameters(), *head.parameters()) if p.requires_grad]
    zeros = torch.zeros(L, B, H)
    start = (zeros, zeros) if cell == "lstm" else zeros
    return torch_training(torch.optim.SGD(params, lr=hyper.rate), params, forward, start, hyper.limit)


def compile_step(problem: Problem, hyper: Hyper) -> Step:
    """A loop that torch.compile unrolls, with token ids as they are: nn.RNN itself is opaque to it."""
    import torch
    import torch.nn.functional as F

    B, T, H, V, L, cell = problem.size
    if cell != "rnn":
        raise ValueError("only the vanilla cell is written out for torch.compile")
    arrays = [a for layer in problem.layers for a in layer] + [*problem.head]
    params = [torch.from_numpy(a.copy()).requires_grad_() for a in arrays]
    x, y = torch.from_numpy(problem.x), torch.from_numpy(problem.y).view(-1)

    def forward(h0: Any) -> tuple[Any, Any]:
        h, last = F.embedding(x, params[0]), []
        for layer in range(L):
            W_xh, W_hh, b_h = params[3 * layer : 3 * layer + 3]
            z, state, out = (h @ W_xh if layer else h) + b_h, h0[layer], []
            for t in range(T):
                state = torch.tanh(torch.addmm(z[t], state, W_hh))
                out.append(state)
            h = torch.stack(out)
            last.append(state)
        return F.cross_entropy((h @ params[-2] + params[-1]).view(-1, V), y), torch.stack(last).detach()

    forward.__code__ = forward.__code__.replace()  # what is compiled is kept per code object: one for each size
    forward = torch.compile(forward, dynamic=False)
    return torch_training(torch.optim.SGD(params, lr=hyper.rate), params, forward, torch.zeros(L, B, H), hyper.limit)


def torch_training(
    optimizer: Any, params: list[Any], forward: Callable[[Any], tuple[Any, Any]], h: Any, limit: float
) -> Step:
    """`forward` gets the state that is carried from step to step, and returns the loss and the next state."""
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    carried = [h]

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss, carried[0] = forward(carried[0])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(params, limit)
        optimizer.step()
        return loss.item()

    return step


def torch_sampler(problem: Problem, n: int) -> Step:
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    B, _, H, V, _, kind = problem.size
    cell = getattr(torch.nn, f"{kind.upper()}Cell")(V, H)
    head, one_hot = torch.nn.Linear(H, V), torch.eye(V)
    with torch.no_grad():
        for p, a in zip([*cell.parameters(), *head.parameters()], _cell_arrays(problem), strict=True):
            p.copy_(torch.from_numpy(a))
    zeros = torch.zeros(B, H)
    carried = [(zeros, zeros) if kind == "lstm" else zeros, torch.zeros(B, dtype=torch.int64)]

    @torch.inference_mode()
    def write() -> float:
        state, ids = carried
        for _ in range(n):
            state = cell(one_hot[ids], state)
            h = state[0] if kind == "lstm" else state
            ids = torch.multinomial(torch.softmax(head(h), -1), 1)[:, 0]
        carried[:] = state, ids
        return float(ids[0])

    return write


def _cell_arrays(problem: Problem) -> list[Any]:
    (W_xh, W_hh, b_h, *b_hn), (W_hy, b_y) = problem.layers[0], problem.head
    second = np.zeros_like(b_h)
    if b_hn:
        second[-problem.size.H :] = b_hn[0]
    return [W_xh.T, W_hh.T, b_h, second, W_hy.T, b_y]


def jax_step(problem: Problem, hyper: Hyper) -> Step:
    import jax
    import jax.numpy as jnp

    B, _, H, _, L, kind = problem.size
    layers, head = jax.tree.map(jnp.asarray, (problem.layers, problem.head))
    x, y = jnp.asarray(problem.x), jnp.asarray(problem.y)

    def loss(p: Any, h0: Any) -> tuple[Any, Any]:
        (layers, (W_hy, b_y)), h, last = p, x, []
        for layer, (W_xh, W_hh, b_h, *b_hn) in enumerate(layers):

            def cell(state: Any, a_x: Any, W_hh: Any = W_hh, b_hn: Any = b_hn) -> tuple[Any, Any]:
                a_h = state[0] @ W_hh
                if kind == "rnn":
                    state = (jnp.tanh(a_x + a_h),)
                elif kind == "gru":
                    r, z = jnp.split(jax.nn.sigmoid(a_x[:, : 2 * H] + a_h[:, : 2 * H]), 2, axis=1)
                    n = jnp.tanh(a_x[:, 2 * H :] + r * (a_h[:, 2 * H :] + b_hn[0]))
                    state = ((1 - z) * n + z * state[0],)
                else:
                    i, f, g, o = jnp.split(a_x + a_h, 4, axis=1)
                    c = jax.nn.sigmoid(f) * state[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
                    state = (jax.nn.sigmoid(o) * jnp.tanh(c), c)
                return state, state[0]

            end, h = jax.lax.scan(cell, h0[layer], (h @ W_xh if layer else W_xh[h]) + b_h)
            last.append(end)
        log_p = jax.nn.log_softmax(h @ W_hy + b_y)
        return -jnp.take_along_axis(log_p, y[..., None], -1).mean(), last

    @jax.jit
    def update(p: Any, h: Any) -> tuple[Any, Any, Any]:
        (value, h), g = jax.value_and_grad(loss, has_aux=True)(p, h)
        norm = jnp.sqrt(sum(jnp.vdot(a, a) for a in jax.tree.leaves(g)))
        scale = hyper.rate * jnp.minimum(1, hyper.limit / norm)
        return jax.tree.map(lambda a, b: a - scale * b, p, g), h, value

    start = (jnp.zeros((B, H)),) * (2 if kind == "lstm" else 1)
    carried = [(layers, head), [start] * L]

    def step() -> float:
        *carried[:], value = jax.block_until_ready(update(*carried))
        return float(value)

    return step


def product_step(n: int) -> Step:
    """The machine's limit: one large product by the BLAS of NumPy."""
    a, b = np.random.default_rng(0).normal(size=(2, n, n)).astype(np.float32)
    out = np.empty_like(a)
    return lambda: float(np.matmul(a, b, out=out)[0, 0])


NAMES = {
    "elman": "Elman",
    "numpy": "NumPy",
    "torch": "PyTorch",
    "compile": "torch.compile",
    "jax": "JAX",
}
RIVALS = ("torch", "compile", "jax")
STEPS = {"torch": torch_step, "compile": compile_step, "jax": jax_step}
