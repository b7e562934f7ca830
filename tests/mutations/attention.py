"""Mistakes that somebody could make in decoders with attention, one a line, for scripts/mutate: see maths.py."""

FOLDER = "elman/network"
KERNELS = "reference"  # what is broken here is none of theirs, and a copy would compile them anew
ATTENTION = [
    f"tests/network/test_network_attention.py::test_{name}"
    for name in ("step_by_step_is_as_all_at_once", "a_row_has_the_same_bits_alone_and_beside_longer_ones",
                 "every_gradient_with_dropout")
]  # fmt: skip
TESTS = {"attention.py": ATTENTION, "encoder_decoder.py": ATTENTION}
MUTANTS = [
    ("encoder_decoder.py", "gradients, batch.x_lengths, masks[0], work, tables, d_memory", "gradients, batch.x_lengths, masks[0], work, tables", "what was looked at learns nothing"),  # noqa: E501
    ("encoder_decoder.py", "ids[np.newaxis], state.state, Memory(*memory), h_tilde[0])", "ids[np.newaxis], state.state, Memory(*memory))", "a step is not fed what the one before found"),  # noqa: E501
    ("attention.py", "d += packed.feed.backward(d_a)", "pass", "nothing goes back through input feeding"),
    ("attention.py", "if t < S - 1:", "if t < S - 2:", "one step of input feeding forgotten"),
    ("attention.py", "d *= masks.head[t]", "pass", "dropout of the outputs forgotten on the way back"),
    ("attention.py", "d *= masks.layers[number - 1][t]", "pass", "dropout between layers forgotten on the way back"),
    ("attention.py", "outputs[t] = combined if masks.head is None else combined * masks.head[t]\n            h_tilde = outputs[t]", "outputs[t] = combined if masks.head is None else combined * masks.head[t]\n            h_tilde = combined", "what is fed is not dropped, but goes back as if"),  # noqa: E501
    ("attention.py", "trace.outputs[:-1], d_a[0][1:]", "trace.outputs[1:], d_a[0][1:]", "W_fh learns from the step after"),  # noqa: E501
    ("attention.py", "d_a[0][1:]", "d_a[0][:-1]", "W_fh learns from the step before"),
    ("attention.py", "        d_values += d_keys\n", "", "the keys send nothing to the encoder"),
    ("attention.py", "weight_gradient(memory.values, d_rows", "weight_gradient(memory.values, 2 * d_rows", "W_k learns twice as fast"),  # noqa: E501
    ("attention.py", "np.full((1, B), T) if lengths is None else lengths[np.newaxis]", "np.full((1, B), T)", "the padding is looked at"),  # noqa: E501
    ("attention.py", "d_x *= masks.inputs", "pass", "input dropout forgotten on the way back"),
    ("attention.py", "        d_W[...] = 0\n", "", "gradients of the step before"),
    ("attention.py", "[np.stack(d_a[::-1]) for d_a in d_a_of_layers]", "[np.stack(d_a) for d_a in d_a_of_layers]", "steps in the wrong order"),  # noqa: E501
    ("attention.py", "return np.stack([layer.state for layer in self.layers])", "return np.stack([layer.state for layer in self.layers[::-1]])", "layers exchanged from step to step"),  # noqa: E501
]  # fmt: skip
