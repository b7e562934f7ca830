"""Mistakes that somebody could make in the compiled kernels; see maths.py beside this for how to read the table.

Each mutant compiles anew, ten seconds and more: so there are few, and every file has one small judge.
"""

FOLDER = "elman/kernels"

CELL = "tests/kernels/test_kernels_cell.py::test_gradients_agree_with_central_differences"
PRODUCT = "tests/kernels/test_kernels_product.py::test_the_product_is_added"
TESTS = {
    "cell.py": [CELL],
    "steps.py": [CELL],
    "product.py": [PRODUCT],
    "tile.py": [PRODUCT],
    "elementwise.py": ["tests/kernels/test_kernels_elementwise.py"],
    "loss.py": ["tests/kernels/test_kernels_loss.py"],
    "pooling.py": ["tests/kernels/test_kernels_loss.py::test_pooling_is_that_of_maths"],
    "window.py": ["tests/kernels/test_kernels_network.py::test_other_activations"],
    "optimise.py": ["tests/kernels/test_kernels_optimise.py"],
    "sample.py": ["tests/kernels/test_kernels_sample.py::test_any_logits_and_any_choice"],
}

MUTANTS = [
    # the recurrence
    ("steps.py", "(t + 2 if t < T - 1 else 0)", "(t + 2 if t < T - 2 else 0)", "reverse starts twice"),
    ("steps.py", "copy(state[i * H :], a[i * H :], H)", "a[i * H : (i + 1) * H] = 0", "past its length a row forgets"),
    ("steps.py", "d_t[i] += d_next[i]", "d_t[i] -= d_next[i]", "a sign in the recursion"),
    ("steps.py", "states[(t + 1) * size : (t + 2) * size]", "states[t * size : (t + 1) * size]", "h[t] for h[t+1]"),
    ("steps.py", "d_next[i] *= mask[i]", "d_next[i] *= 1", "mask missing from the recursion"),
    ("steps.py", "        d_next[:] = 0\n        add_product", "        add_product", "what was sent is sent again"),
    ("steps.py", "copy(carried[i * H :], d_next[i * H :], H)", "d_next[i * H : (i + 1) * H] *= 1", "carried d_h lost"),
    ("steps.py", "to[j] += row[j]", "to[j] = row[j]", "of several uses of a token one counts"),
    # the loss
    ("steps.py", "range(4 * quarter, row.size)", "range(4 * quarter, row.size - 1)", "a class not summed"),
    ("steps.py", "row[y[i]] -= share", "row[y[i]] -= scale", "the target without its weight"),
    ("loss.py", "* (d[i, j] - inner)", "* d[i, j]", "softmax without the other classes"),
    ("loss.py", "* np.float64(row[j] - top)", "* np.float64(row[j])", "logits that were not shifted"),
    ("loss.py", "(share + share) * off", "share * off", "the 2 of a square forgotten"),
    # pooling
    ("pooling.py", "to[j] = share[j] / steps", "to[j] = share[j] / d_h.shape[0]", "steps that are not there"),
    ("pooling.py", "row[j] > best[j]", "row[j] >= best[j]", "of equal ones the last"),
    # the cell around it
    ("cell.py", "pack_transposed(W_hh, packed)", "pack(W_hh, packed)", "W_hh.T without its transpose"),
    ("cell.py", "out.d_h0[...] += d_next.reshape(B, H)", "out.d_h0[...] += d_a[0]", "d_h0 without its product"),
    # the product
    ("product.py", "at = a_at + start", "at = a_at", "the first rows of weights for all blocks"),
    ("tile.py", 'icmp_signed("<", following, K)', 'icmp_signed("<=", following, K)', "a step too many along K"),
    # entry by entry
    ("elementwise.py", "f4(9.02) if abs(x) > f4(9.02)", "f4(7.9) if abs(x) > f4(7.9)", "tanh stops short of 1"),
    ("elementwise.py", "range(13, 0, -1)", "range(11, 0, -1)", "two terms of e^r forgotten"),
    # a whole network
    ("window.py", "flat[i] *= kept[i]", "flat[i] *= 1", "mask missing from the gradient"),
    # optimisers
    ("optimise.py", "n(1 - r.momentum), n(r.decay), n(1 - r.decay)", "n(1 - r.momentum), n(r.decay), n(1 - n(r.decay))",
     "1 - β in float32"),
    # sampling
    ("sample.py", "top_p * (1 - 1e-12) * total", "top_p * (1 - 1e-12)", "top_p of a sum that is not 1"),
]  # fmt: skip
