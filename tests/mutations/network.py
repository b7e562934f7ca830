"""Mistakes that somebody could make in networks over sequences, one a line, for scripts/mutate: see maths.py."""

FOLDER = "elman/network"
SHAPES, ENCODER = "tests/network/test_network_shapes.py", "tests/network/test_network_encoder.py"
TESTS = {
    "reader.py": [SHAPES],
    "teller.py": [SHAPES],
    "shape.py": [SHAPES],
    "encoder.py": [ENCODER],
    "fused.py": ["tests/kernels/test_kernels_network.py::test_other_activations"],
}
MUTANTS = [
    ("reader.py", "d_vector *= mask.head", "pass", "dropout forgotten on the way back"),
    ("reader.py", "weights = step_weights(weights, batch.x_lengths, len(o), o.dtype)", "weights = weights + 0 * o[..., 0]", "the padding counts"),  # noqa: E501
    ("reader.py", "trace.final[-len(self.encoder.directions) :]", "trace.final[: len(self.encoder.directions)]", "the first layer is judged"),  # noqa: E501
    ("reader.py", "return None, [*below, *map(np.ascontiguousarray, sides)]", "return None, [*below, *map(np.ascontiguousarray, sides[::-1])]", "directions exchanged"),  # noqa: E501
    ("reader.py", "return mean_backward(d_vector, T, lengths), None", "return mean_backward(d_vector, T, None), None", "shares for the padding"),  # noqa: E501
    ("teller.py", "wanted[lengths, np.arange(B)] = self.edge", "pass", "no end is asked for"),
    ("teller.py", "told[1:] = y", "told[:-1] = y", "the answer is told"),
    ("teller.py", "return told, wanted, lengths + 1", "return told, wanted, lengths", "one step too few"),
    ("teller.py", "d_outputs *= mask.head", "pass", "dropout forgotten on the way back"),
    ("teller.py", 'gradients["bridge.b_h"][...] += d_h.sum(axis=0)', "pass", "the bridge's bias"),
    ("teller.py", "d_final = d_states\n", "d_final = [0 * d for d in d_states]\n", "the encoder learns nothing"),
    ("teller.py", "np.split(d_c, len(self.encoder.cells), axis=1)", "np.split(d_c, len(self.encoder.cells), axis=1)[::-1]", "the encoder's cells exchanged"),  # noqa: E501
    ("shape.py", "gradients.buffer += work.buffer", "gradients.buffer[:] = work.buffer", "one slice only"),
    ("shape.py", "work.buffer[:] = 0", "pass", "gradients of the step before"),
    ("shape.py", "np.arange(T)[:, np.newaxis] < lengths, weights, 0", "np.arange(T)[:, np.newaxis] <= lengths, weights, 0", "one step of padding counts"),  # noqa: E501
    ("encoder.py", 'gradients[f"{cell}.h0"][...] += start.sum(axis=0)', "pass", "the learned state"),
    ("encoder.py", "direct[0 if reverse else -1] += d_final[number]", "direct[-1] += d_final[number]", "the end of the other direction"),  # noqa: E501
    ("encoder.py", "d *= masks.inputs", "pass", "input dropout forgotten on the way back"),
    ("encoder.py", "trace.final.append(h[1] if reverse else h[-1])", "trace.final.append(h[-1])", "the state before anything was read"),  # noqa: E501
    ("fused.py", "                d, d_below = d_below, d\n", "", "the layer below gets the gradient of the one above"),
    ("fused.py", "np.dot(before[layer].T, d", "np.dot(states[layer].T, d", "h[t+1] for h[t]"),
    ("fused.py", "np.dot(left[layer - 1].T, d", "np.dot(states[layer - 1].T, d", "as if nothing had been dropped"),
]  # fmt: skip
