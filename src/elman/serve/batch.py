"""Texts of one model, each with settings of its own: one product a step for all of them."""

from __future__ import annotations

import numpy as np

from elman.maths.arrays import Array
from elman.serve.stepper import Stepper
from elman.serve.writing import Delta, Note, Writing

BLOCK, LEAST = 32, 4  # tokens that are written in one call of compiled code
WORK = 1 << 27  # multiplications in it, a few milliseconds: newcomers wait no longer for a large model


class Batch:
    def __init__(self, stepper: Stepper) -> None:
        self.stepper = stepper
        self.rows: list[Writing] = []
        self.o: Array = np.empty((0, stepper.network.outputs), stepper.parameters.buffer.dtype)  # (B, Y)
        self.state: Array = stepper.network.stack.zero_state(0, self.o.dtype)  # (L, P, B, H)

    def join(self, new: list[Writing]) -> None:
        """Texts whose prompts are read."""
        self.rows += new
        self.o = np.concatenate([self.o, *(row.o[np.newaxis] for row in new if row.o is not None)])
        self.state = np.concatenate([self.state, *(row.state for row in new)], axis=2)

    def keep(self, stay: list[bool]) -> None:
        if not all(stay):
            self.rows = [row for row, stays in zip(self.rows, stay, strict=True) if stays]
            self.o, self.state = self.o[stay], self.state[:, :, stay]

    def write(self) -> list[Delta]:
        """What the next few tokens add to each text."""
        n = max(LEAST, min(BLOCK, WORK // (self.stepper.parameters.buffer.size * len(self.rows))))
        n = min(n, max(row.length - row.written for row in self.rows))
        uniforms = np.stack([row.rng.random(n) for row in self.rows], axis=1)  # (n, B)
        noted = [i for i, row in enumerate(self.rows) if row.wanted is not None]
        o, state = self.o[noted], self.state[:, :, noted]
        how = [row.how for row in self.rows]
        tokens, self.state = self.stepper.write(self.o, self.state, uniforms, how)  # (n, B)
        notes = self._notes(noted, tokens, o, state) if noted else {}
        return [
            row.add(own, notes.get(i)) for i, (row, own) in enumerate(zip(self.rows, tokens.T.tolist(), strict=True))
        ]

    def _notes(self, rows: list[int], tokens: Array, before: Array, state: Array) -> dict[int, list[Note]]:
        """The rows that want notes are read once more, which gives every state and every o."""
        s = self.stepper.read(list(tokens[:, rows].T), state)  # (L, P, n+1, rows, H)
        o = self.stepper.logits(s[-1, 0, 1:])  # (n, rows, Y)
        return {i: self.rows[i].notes(tokens[:, i], before[k], o[:, k], s[:, 0, :, k]) for k, i in enumerate(rows)}
