"""Any number of texts of one model, side by side: prompts are read, tokens are written, each as if it were alone.

Products go through the packed tile for any number of rows, so a row's bits do not depend on its neighbours. Where
nothing is compiled, rows take their steps one by one, which keeps that true.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from elman.kernels import output_forward, rnn_forward
from elman.maths.arrays import Array
from elman.models.sampling import Sampling, Writer, as_arrays, distribution, pick
from elman.network import State, new_speaker
from elman.network.stack import check_ids
from elman.serve.transcript import names


class Stepper:
    """A model with its weights packed once."""

    def __init__(self, writer: Writer) -> None:
        self.writer, self.network, self.parameters = writer, writer.network, writer.parameters
        self.vocabulary, self.names = writer.vocabulary, names(writer.vocabulary)
        self.speaker = new_speaker(self.network, self.parameters)
        self.zero_state = self.network.zero_state(1, self.parameters.buffer.dtype)  # which nobody writes to

    def read(self, texts: Sequence[Array], state: State) -> list[Array]:
        """States of all layers, (T+1, B, H) each, T that of the longest text: past its end a row's state stays."""
        if self.speaker is None and len(texts) > 1:
            alone = [self.read([text], [h[i : i + 1] for h in state]) for i, text in enumerate(texts)]
            return [_side_by_side(rows) for rows in zip(*alone, strict=True)]
        lengths = np.array([len(text) for text in texts], np.int64)  # (B,)
        x = np.zeros((lengths.max(), len(texts)), np.int64)  # (T, B)
        for i, text in enumerate(texts):
            x[: len(text), i] = text
        check_ids("x", x, self.network.inputs)
        ragged = None if (lengths == len(x)).all() else lengths
        h: list[Array] = []
        for layer in range(self.network.layers):
            W_xh, W_hh, b_h = (self.parameters[f"layers.{layer}.{name}"] for name in ("W_xh", "W_hh", "b_h"))
            below = h[-1][1:] if layer else x
            activation = self.network.activation
            h.append(rnn_forward(below, state[layer], W_xh, W_hh, b_h, activation=activation, lengths=ragged))
        return h

    def logits(self, h: Array) -> Array:
        """o of states of the top layer, (…, H) to (…, Y)."""
        W_hy, b_y = self.parameters["head.W_hy"], self.parameters["head.b_y"]
        if self.speaker is None:
            rows = h.reshape(-1, h.shape[-1])
            o = np.concatenate([output_forward(row[np.newaxis], W_hy, b_y) for row in rows])
            return o.reshape(*h.shape[:-1], -1)
        return output_forward(h, W_hy, b_y)

    def write(self, o: Array, state: State, uniforms: Array, how: Sequence[Sampling]) -> Array:
        """n tokens for each of B texts, (n, B); o (B, Y) and state (B, H) become those after the last."""
        if self.speaker is not None:
            each = as_arrays(how, self.network.outputs)
            return self.speaker.write(o, state, uniforms, **each, banned=self.writer.banned)
        tokens = np.empty(uniforms.shape, np.int64)
        for s, i in np.ndindex(*uniforms.shape):
            token = pick(distribution(o[i], how[i], self.writer.banned), float(uniforms[s, i]))
            tokens[s, i] = token
            o[i], after = self.writer.read([token], [h[i : i + 1] for h in state])
            for h, row in zip(state, after, strict=True):
                h[i : i + 1] = row
        return tokens


def _side_by_side(rows: Sequence[Array]) -> Array:
    """(T_i+1, 1, H) each as one (T+1, B, H); a shorter one goes on with its last state."""
    longest = max(len(h) for h in rows)
    return np.concatenate([np.concatenate([h, *[h[-1:]] * (longest - len(h))]) for h in rows], axis=1)
