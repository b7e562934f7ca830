"""How the benchmark runs Elman as of commit 04bc60f, the first release.

Each function gets a problem in NumPy arrays (contenders.Problem, tasks.TaskProblem) and returns a function that takes
one step and returns its loss, or writes some tokens. Nothing else of the benchmark is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def _network(problem: Any) -> tuple[Any, Any]:
    from elman.network import Network, Parameters

    network = Network(problem.size.V, problem.size.H, problem.size.L, problem.size.V)
    p = Parameters(network.shapes, np.float32)
    for array, value in zip(p.values(), [a for layer in problem.layers for a in layer] + [*problem.head], strict=True):
        array[...] = value
    return network, p


def training_step(problem: Any, hyper: Any) -> Callable[[], float]:
    from elman.kernels import Rates, clip_by_norm, update

    network, p = _network(problem)
    x, y, g = problem.x, problem.y, p.zeros()
    state = network.zero_state(problem.size.B, np.float32)
    rates = Rates(hyper.rate, 1, 0.9, 0.99, 1e-8, 0.0)

    def step() -> float:
        g.buffer[:] = 0
        loss = network.loss_and_gradients(p, x, y, state, g, normaliser=y.size)
        clip_by_norm(g.buffer, hyper.limit)
        update("sgd", p.buffer, g.buffer, rates, [])
        return float(loss)

    return step


def sampler(problem: Any, n: int) -> Callable[[], float]:
    from elman.network.speaker import Speaker

    network, p = _network(problem)
    B, V = problem.size.B, problem.size.V
    speaker, state, rng = Speaker(network, p), network.zero_state(B, np.float32), np.random.default_rng(0)
    o, nothing = np.zeros((B, V), np.float32), np.zeros(0, np.int64)
    ones, all_tokens = np.ones(B), np.full(B, V)

    def write() -> float:
        uniforms = rng.random((n, B))
        return speaker.write(o, state, uniforms, temperature=ones, top_k=all_tokens, top_p=ones, banned=nothing)[-1, 0]

    return write


def task_step(problem: Any, hyper: Any) -> Callable[[], float]:
    from elman.network.encoder import Encoder
    from elman.network.reader import Reader
    from elman.network.shape import Batch
    from elman.network.teller import Teller

    from elman.kernels import Rates, clip_by_norm, update
    from elman.network import Parameters

    task = problem.task

    def encoder(inputs: int, prefix: str = "") -> Encoder:
        return Encoder(inputs, task.H, both_ways=task.bidirectional, embedding=task.E, prefix=prefix)

    if task.name == "translator":
        network = Teller(encoder(task.X, "encoder."), encoder(task.Y, "decoder."), task.Y, edge=problem.edge)
    else:
        network = Reader(encoder(task.X), task.Y, pooling="none" if task.name == "tagger" else "last")
    p = Parameters(network.shapes, np.float32)
    for name, array in p.items():
        array[...] = problem.weights[name]
    batch = Batch(problem.x, problem.y, np.ones(task.B), problem.x_lengths, problem.y_lengths)
    normalizer, g, memory, taken = network.units(batch), p.zeros(), [np.zeros_like(p.buffer) for _ in range(2)], [0]

    def step() -> float:
        taken[0] += 1
        g.buffer[:] = 0
        loss = network.loss_and_gradients(p, batch, g, normaliser=normalizer)
        clip_by_norm(g.buffer, hyper.limit)
        update("adam", p.buffer, g.buffer, Rates(hyper.rate, taken[0], *hyper.betas, 1e-8, 0.0), memory)
        return float(loss)

    return step
