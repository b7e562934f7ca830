"""One model and any number of texts: read their prompts and generate their tokens, each text as if it were alone.

A compiled product gives a row the same bits whatever the other rows are. Without compiled kernels rows are computed one
by one, which gives the same guarantee.

Shapes: L layers, P parts of the state (h, and in an LSTM c), T or n tokens, B texts, H units, Y logits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from elman.maths.arrays import Array
from elman.models.sampling import Sampling, TextSampler
from elman.network import DecoderState, check_ids
from elman.serve.detokenizer import token_names


class Stepper:
    """A model whose weights are packed once."""

    def __init__(self, text_sampler: TextSampler) -> None:
        self.text_sampler, self.network, self.parameters = text_sampler, text_sampler.network, text_sampler.parameters
        self.vocabulary, self.names = text_sampler.vocabulary, token_names(text_sampler.vocabulary)
        self.decoder = text_sampler.decoder()
        self.zero_state = self.network.stack.zero_state(1, self.parameters.buffer.dtype)  # shared: never written to

    @property
    def compiled(self) -> bool:
        return self.decoder.sampler is not None

    def read(self, texts: Sequence[Array], state: Array) -> Array:
        """All states (L, P, T+1, B, H), starting with `state` (L, P, B, H); T is the length of the longest text.

        Past the end of its text the state of a row stays the same.
        """
        if not self.compiled and len(texts) > 1:
            alone = [self.read([text], state[:, :, [i]]) for i, text in enumerate(texts)]
            T = max(map(len, texts))
            return np.concatenate([s[:, :, np.minimum(np.arange(T + 1), s.shape[2] - 1)] for s in alone], axis=3)
        lengths = np.array([len(text) for text in texts], np.int64)  # (B,)
        x = np.zeros((lengths.max(), len(texts)), np.int64)  # (T, B)
        for i, text in enumerate(texts):
            x[: len(text), i] = text
        check_ids("x", x, self.network.stack.inputs)
        ragged, packed = None if (lengths == len(x)).all() else lengths, self.decoder.packed
        trace = self.network.stack.forward(packed.stacks[0], packed.p, x, state, lengths=ragged)
        return np.stack([layer.s for layer in trace.traces])

    def logits(self, h: Array) -> Array:
        """Logits (…, Y) of states h (…, H) of the top layer."""
        output = self.decoder.packed.output
        if self.compiled:
            return output.forward(h)
        o = np.concatenate([output.forward(row[np.newaxis]) for row in h.reshape(-1, h.shape[-1])])
        return o.reshape(*h.shape[:-1], -1)

    def generate(self, o: Array, state: Array, uniforms: Array, sampling: Sequence[Sampling]) -> tuple[Array, Array]:
        """Tokens (n, B) for uniforms (n, B), and the state (L, P, B, H) after them; o (B, Y) is updated in place."""
        tokens, after = self.decoder.write(o, DecoderState(state), uniforms, sampling)
        return tokens, after.state
