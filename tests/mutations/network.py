"""Mistakes that somebody could make in networks, one a line, for scripts/mutate: see maths.py."""

FOLDER = "elman/network"
SHAPES, STACK = "tests/network/test_network_shapes.py", "tests/network/test_network_recurrent_stack.py"
LANGUAGE = "tests/network/test_network_stack.py"
TESTS = {
    "network.py": [SHAPES, LANGUAGE],
    "encoder_decoder.py": [SHAPES],
    "batch.py": [SHAPES],
    "stack.py": [STACK, LANGUAGE],
}
MUTANTS = [
    ("network.py", "d_h *= mask", "pass", "dropout forgotten on the way back"),
    ("network.py", "weights = step_weights(weights, batch.x_lengths, T, dtype)", "weights = weights + np.zeros((T, 1))", "the padding counts"),  # noqa: E501
    ("network.py", "trace.final[-len(self.stack.directions) :, 0]", "trace.final[: len(self.stack.directions), 0]", "the first layer is judged"),  # noqa: E501
    ("network.py", "d_final[-D:, 0] = d_vector.reshape(-1, D, self.stack.hidden).swapaxes(0, 1)", "d_final[-D:, 0] = d_vector.reshape(-1, D, self.stack.hidden).swapaxes(0, 1)[::-1]", "directions exchanged"),  # noqa: E501
    ("network.py", "return mean_backward(d_vector, T, lengths), None", "return mean_backward(d_vector, T, None), None", "shares for the padding"),  # noqa: E501
    ("network.py", "for part in parts if part is not gradients]", "for part in parts[2:]]", "one slice only"),
    ("network.py", "batch.state[...] = trace.final", "pass", "the state is not carried"),
    ("encoder_decoder.py", "targets[lengths, np.arange(B)] = self.edge", "pass", "no end is asked for"),
    ("encoder_decoder.py", "inputs[1:] = batch.y", "inputs[:-1] = batch.y", "the answer is given"),
    ("encoder_decoder.py", "return inputs, targets, lengths + 1,", "return inputs, targets, lengths,", "one step too few"),  # noqa: E501
    ("encoder_decoder.py", "d_b[...] = d_s.sum(axis=0)", "pass", "the bridge's bias"),
    ("encoder_decoder.py", "p, d_final = packed.p, d_state", "p, d_final = packed.p, 0 * d_state", "the encoder learns nothing"),  # noqa: E501
    ("encoder_decoder.py", "d_final = np.ascontiguousarray(d_c.reshape(shape).transpose(1, 2, 0, 3))", "d_final = np.ascontiguousarray(d_c.reshape(shape).transpose(1, 2, 0, 3)[::-1])", "the encoder's layers exchanged"),  # noqa: E501
    ("batch.py", "np.arange(T)[:, np.newaxis] < lengths, weights, 0", "np.arange(T)[:, np.newaxis] <= lengths, weights, 0", "one step of padding counts"),  # noqa: E501
    ("stack.py", "[...] = d_state[number, part].sum(axis=0)", "[...] = 0", "the learned state"),
    ("stack.py", "trace.s[:, 1 if self.directions[number % D] else -1]", "trace.s[:, -1]", "the state before anything was read"),  # noqa: E501
    ("stack.py", "d_x *= masks.inputs", "pass", "input dropout forgotten on the way back"),
    ("stack.py", "                d *= masks.layers[layer]", "                pass", "dropout between layers forgotten on the way back"),  # noqa: E501
    ("stack.py", "            d = d if d_x is None else d_x\n", "", "the layer below gets another layer's gradient"),
    ("stack.py", "add_x=side > 0", "add_x=False", "one direction only"),
]  # fmt: skip
