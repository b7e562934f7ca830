"""How the benchmark runs the Elman of this commit. `scripts/bench --against COMMIT` uses the file of that commit.

When Elman's internals change, the three public functions here must be adapted. adapter_04bc60f.py stays as it is, for
commits that are older than this file.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np


def _network(problem: Any) -> tuple[Any, Any]:
    from elman.network import Parameters, language_network

    network = language_network(problem.size.V, problem.size.H, problem.size.L, cell=problem.size.cell)
    p = Parameters(network.shapes, np.float32)
    for array, value in zip(p.values(), [a for layer in problem.layers for a in layer] + [*problem.head], strict=True):
        array[...] = value
    return network, p


def training_step(problem: Any, hyper: Any) -> Callable[[], float]:
    from elman.kernels import Rates, clip_in_place, update
    from elman.network import Batch

    network, p = _network(problem)
    g, state = p.zeros(), network.stack.zero_state(problem.size.B, np.float32)
    batch = Batch(problem.x, problem.y, state=state)
    rates = Rates(hyper.rate, 1, 0.9, 0.99, 1e-8, 0.0)

    def step() -> float:
        loss = network.loss_and_gradients(p, batch, g, normalizer=problem.y.size)
        norm = clip_in_place(g.buffer, math.inf)
        update("sgd", p.buffer, g.buffer, rates._replace(scale=min(1.0, hyper.limit / norm)), [])
        return float(loss)

    return step


def sampler(problem: Any, n: int) -> Callable[[], float]:
    from elman.network import make_sampler

    network, p = _network(problem)
    B, V = problem.size.B, problem.size.V
    made, state, rng = make_sampler(network.stack, p), network.stack.zero_state(B, np.float32), np.random.default_rng(0)
    o, nothing = np.zeros((B, V), np.float32), np.zeros(0, np.int64)
    ones, all_tokens = np.ones(B), np.full(B, V)

    def write() -> float:
        uniforms = rng.random((n, B))
        return made.write(o, state, uniforms, temperature=ones, top_k=all_tokens, top_p=ones, banned=nothing)[-1, 0]

    return write


def task_step(problem: Any, hyper: Any) -> Callable[[], float]:
    from elman.kernels import Rates, clip_in_place, update
    from elman.network import Batch, EncoderDecoder, HeadNetwork, Parameters, Stack

    task = problem.task

    def stack(inputs: int, prefix: str = "") -> Stack:
        return Stack(inputs, task.H, bidirectional=task.bidirectional, embedding=task.E, prefix=prefix)

    if task.translates:
        network: Any = EncoderDecoder(
            stack(task.X, "encoder."), stack(task.Y, "decoder."), task.Y, edge=problem.edge,
            attention="dot" if task.attention else "none",
        )  # fmt: skip
    else:
        network = HeadNetwork(stack(task.X), task.Y, pooling="none" if task.name == "tagger" else "last")
    p = Parameters(network.shapes, np.float32)
    for name, array in p.items():
        array[...] = problem.weights[name]
    batch = Batch(problem.x, problem.y, np.ones(task.B), problem.x_lengths, problem.y_lengths)
    normalizer, g, taken = network.loss_count(batch), p.zeros(), [0]
    memory = [np.zeros_like(p.buffer) for _ in range(2)]

    def step() -> float:
        taken[0] += 1
        loss = network.loss_and_gradients(p, batch, g, normalizer=normalizer)
        scale = min(1.0, hyper.limit / clip_in_place(g.buffer, math.inf))
        update("adam", p.buffer, g.buffer, Rates(hyper.rate, taken[0], *hyper.betas, 1e-8, 0.0, scale), memory)
        return float(loss)

    return step
