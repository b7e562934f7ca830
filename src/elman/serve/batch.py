"""Texts of one model that are generated together, each with its own settings: one matrix product per step for all.

The letters of shapes are explained in stepper.py.
"""

from __future__ import annotations

import numpy as np

from elman.maths.arrays import Array
from elman.serve.sequence_job import Delta, SequenceJob, TokenInfo
from elman.serve.stepper import Stepper

BLOCK, MIN_BLOCK = 32, 4  # largest and smallest number of tokens that one call generates for each text
# multiplications in such a call, unless MIN_BLOCK tokens need more: a few milliseconds, for which new requests wait
BLOCK_WORK = 1 << 27


class Batch:
    def __init__(self, stepper: Stepper) -> None:
        self.stepper = stepper
        self.jobs: list[SequenceJob] = []
        self.o: Array = np.empty((0, stepper.network.outputs), stepper.parameters.buffer.dtype)  # (B, Y)
        self.state: Array = stepper.network.stack.zero_state(0, self.o.dtype)  # (L, P, B, H)

    def add(self, jobs: list[SequenceJob]) -> None:
        """Add jobs whose prompts have been read."""
        self.jobs += jobs
        self.o = np.concatenate([self.o, *(job.o[np.newaxis] for job in jobs if job.o is not None)])
        self.state = np.concatenate([self.state, *(job.state for job in jobs)], axis=2)

    def keep(self, kept: list[bool]) -> None:
        """Remove the jobs whose entry in `kept` is False."""
        if not all(kept):
            self.jobs = [job for job, keep in zip(self.jobs, kept, strict=True) if keep]
            self.o, self.state = self.o[kept], self.state[:, :, kept]

    def generate(self) -> list[Delta]:
        """Generate the next few tokens of each text; returns a delta for each."""
        n = max(MIN_BLOCK, min(BLOCK, BLOCK_WORK // (self.stepper.parameters.buffer.size * len(self.jobs))))
        n = min(n, max(job.max_tokens - job.tokens_generated for job in self.jobs))
        uniforms = np.stack([job.rng.random(n) for job in self.jobs], axis=1)  # (n, B)
        wanted = [i for i, job in enumerate(self.jobs) if job.logprobs is not None]
        o, state = self.o[wanted], self.state[:, :, wanted]
        sampling = [job.sampling for job in self.jobs]
        tokens, self.state = self.stepper.generate(self.o, self.state, uniforms, sampling)  # (n, B)
        infos = self._token_infos(wanted, tokens, o, state) if wanted else {}
        return [
            job.append(own, infos.get(i)) for i, (job, own) in enumerate(zip(self.jobs, tokens.T.tolist(), strict=True))
        ]

    def _token_infos(self, rows: list[int], tokens: Array, before: Array, state: Array) -> dict[int, list[TokenInfo]]:
        """The log-probabilities and activations of the tokens of some rows.

        These tokens are read a second time, because sampling does not return the states and logits of each step.
        """
        s = self.stepper.read(list(tokens[:, rows].T), state)  # (L, P, n+1, rows, H)
        o = self.stepper.logits(s[-1, 0, 1:])  # (n, rows, Y)
        return {
            i: self.jobs[i].token_infos(tokens[:, i], before[k], o[:, k], s[:, :, :, k]) for k, i in enumerate(rows)
        }
