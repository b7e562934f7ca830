"""The mean loss of a text, read by all ranks at once.

Each rank reads its part of the text from a zero state; then again from the state with which the rank before it ended,
until the state is the one that it was at this place before. Networks forget: a few hundred tokens on, a state no longer
depends on how it began, so one more chunk is all that is read twice. One that does not forget is read part by part, in
as many rounds as there are ranks, which is no slower than reading it alone.
"""

from __future__ import annotations

import numpy as np

from elman.maths.arrays import Array
from elman.models.evaluation import CHUNK, chunk_losses
from elman.network import HeadNetwork, Parameters
from elman.training.distributed import World

SAME = 256  # times the distance of two neighboring floats: what rounding leaves between two states that have met


def shared_mean_loss(network: HeadNetwork, p: Parameters, ids: Array, world: World) -> float:
    """Nats a token, the same on all ranks; the sum is taken in the order of the text."""
    chunks = -(-(len(ids) - 1) // CHUNK)
    part = world.share(chunks)
    readers = [rank for rank in range(world.rank) if world.share(chunks, rank).stop > world.share(chunks, rank).start]
    packed, zero = network.pack(p), network.stack.zero_state(1, p.buffer.dtype)  # (L, P, 1, H)
    begins: dict[int, Array] = {}
    sums: dict[int, float] = {}
    begin, end = zero, zero
    ends: Array | None = None
    for _ in range(world.size + 1):
        state = begin
        for chunk in range(part.start, part.stop):
            if chunk in begins and _same(state, begins[chunk]):
                break
            begins[chunk] = state
            start = chunk * CHUNK
            losses, state = chunk_losses(network, packed, ids[start : start + CHUNK + 1], state)
            sums[chunk] = float(losses.sum())
        else:
            end = state
        before, ends = ends, world.joined(end[np.newaxis])  # (ranks, L, P, 1, H)
        if before is not None and _same(ends, before):
            break
        begin = ends[readers[-1]] if readers else zero
    total = world.joined(np.array([sums[chunk] for chunk in sorted(sums)]))
    return float(sum(total.tolist())) / (len(ids) - 1)


def _same(a: Array, b: Array) -> bool:
    return np.allclose(a, b, rtol=0, atol=SAME * np.finfo(a.dtype).eps, equal_nan=True)
