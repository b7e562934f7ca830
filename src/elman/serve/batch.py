"""Texts of one model, each with settings of its own: one product a step for all of them."""

from __future__ import annotations

import numpy as np

from elman.maths.arrays import Array
from elman.network import State
from elman.serve.stepper import Stepper
from elman.serve.writing import Delta, Note, Writing

BLOCK, LEAST = 32, 4  # tokens that are written in one call of compiled code
WORK = 1 << 27  # multiplications in it, a few milliseconds: newcomers wait no longer for a large model


class Batch:
    def __init__(self, stepper: Stepper) -> None:
        self.stepper = stepper
        self.rows: list[Writing] = []
        self.o: Array = np.empty((0, stepper.network.outputs), stepper.parameters.buffer.dtype)  # (B, Y)
        self.state: State = stepper.network.zero_state(0, self.o.dtype)  # (B, H) a layer

    def join(self, new: list[Writing]) -> None:
        """Texts whose prompts are read."""
        self.rows += new
        self.o = np.concatenate([self.o, *(row.o[np.newaxis] for row in new if row.o is not None)])
        self.state = [np.concatenate([h, *(row.state[layer] for row in new)]) for layer, h in enumerate(self.state)]

    def keep(self, stay: list[bool]) -> None:
        if not all(stay):
            self.rows = [row for row, stays in zip(self.rows, stay, strict=True) if stays]
            self.o, self.state = self.o[stay], [h[stay] for h in self.state]

    def write(self) -> list[Delta]:
        """What the next few tokens add to each text."""
        n = max(LEAST, min(BLOCK, WORK // (self.stepper.parameters.buffer.size * len(self.rows))))
        n = min(n, max(row.length - row.written for row in self.rows))
        uniforms = np.stack([row.rng.random(n) for row in self.rows], axis=1)  # (n, B)
        noted = [i for i, row in enumerate(self.rows) if row.wanted is not None]
        o, state = self.o[noted], [h[noted] for h in self.state]
        tokens = self.stepper.write(self.o, self.state, uniforms, [row.how for row in self.rows])  # (n, B)
        notes = self._notes(noted, tokens, o, state) if noted else {}
        return [
            row.add(own, notes.get(i)) for i, (row, own) in enumerate(zip(self.rows, tokens.T.tolist(), strict=True))
        ]

    def _notes(self, rows: list[int], tokens: Array, before: Array, state: State) -> dict[int, list[Note]]:
        """The rows that want notes are read once more, which gives every state and every o."""
        h = self.stepper.read(list(tokens[:, rows].T), state)
        o = self.stepper.logits(h[-1][1:])  # (n, rows, Y)
        return {
            i: self.rows[i].notes(tokens[:, i], before[k], o[:, k], [states[:, k] for states in h])
            for k, i in enumerate(rows)
        }
