"""Mistakes that somebody could make in the compiled kernels; see maths.py beside this for how to read the table.

Each mutant compiles anew, ten seconds and more: so there are few, and every file has one small judge.
"""

FOLDER = "elman/kernels"

CELL = "tests/kernels/test_kernels_cell.py::test_gradients_agree_with_central_differences"
PRODUCT = "tests/kernels/test_kernels_product.py::test_the_product_is_added"
ATTENTION = "tests/kernels/test_kernels_attention.py::test_a_small_attention_of_each_kind"
TESTS = {
    "attention.py": [ATTENTION],
    "recurrence.py": [CELL, "tests/network/test_network_tables.py"],
    "steps.py": [CELL, "tests/kernels/test_kernels_gated.py::test_a_small_layer_of_each_cell"],
    "cells/rnn.py": [CELL],
    "cells/gru.py": ["tests/kernels/test_kernels_gated.py::test_a_small_layer_of_each_cell"],
    "cells/lstm.py": ["tests/kernels/test_kernels_gated.py::test_a_small_layer_of_each_cell"],
    "vectors.py": [
        "tests/kernels/test_kernels_gated.py::test_tanh_of_vectors_is_exact_to_a_few_units_in_the_last_place",
        "tests/kernels/test_kernels_loss.py",
    ],
    "product.py": [
        PRODUCT,
        "tests/kernels/test_kernels_product.py::test_products_by_blocks_of_rows_have_the_bits_of_one_product",
    ],
    "gradient_product.py": ["tests/kernels/test_kernels_product.py::test_a_weight_gradient_is_the_transposed_product"],
    "tile.py": [PRODUCT],
    "elementwise.py": ["tests/kernels/test_kernels_elementwise.py"],
    "loss.py": ["tests/kernels/test_kernels_loss.py"],
    "pooling.py": ["tests/kernels/test_kernels_loss.py::test_pooling_is_that_of_maths"],
    "layers.py": ["tests/kernels/test_kernels_network.py::test_other_activations"],
    "dropout.py": ["tests/kernels/test_kernels_dropout.py"],
    "optimizers.py": ["tests/kernels/test_kernels_optimizers.py"],
    "sample.py": ["tests/kernels/test_kernels_sample.py"],
}

MUTANTS = [
    # the time loop
    ("steps.py", "copy(flat[at + before :], flat[at + after :], H)", "flat[at + after : at + after + H] = 0",
     "past its length a row forgets"),
    ("steps.py", "scratch[i] = given[i] * kept[i]", "scratch[i] = given[i]", "mask missing, forward"),
    ("steps.py", "last[i] += flat_d_s[i]", "last[i] += 0", "the gradient on the last state is lost"),
    ("steps.py", "to[i] += scratch[i] * kept[i]", "to[i] += scratch[i]", "mask missing from the recursion"),
    ("steps.py", "sums[(t * B + i) * A : (t * B + i + 1) * A] = 0", "pass", "padded steps change the weights"),
    ("steps.py", "direct[(t + 1 if reverse else t - 1) * size :]", "direct[t * size :]", "no recursion"),
    ("steps.py", "while stop < B and t < lengths[stop]", "while stop < B and t <= lengths[stop]", "a step too many"),
    ("cells/rnn.py", "s[after : after + rows * H]", "s[before : before + rows * H]", "h[t] for h[t+1]"),
    ("steps.py", "row, to = d[i, first:], d_W[ids[i]]\n        for j in range(row.size):\n            to[j] += row[j]",
     "row, to = d[i, first:], d_W[ids[i]]\n        for j in range(row.size):\n            to[j] = row[j]",
     "of several uses of a token one counts"),
    # cells with gates
    ("cells/gru.py", "(1 - n * n) * (1 - z) * d_h", "(1 - n * n) * z * d_h", "the candidate's share"),
    ("cells/gru.py", "(h - n) * d_h", "h * d_h", "n's part of d_z lost"),
    ("cells/gru.py", "r * (1 - r) * q * d_a_n", "r * (1 - r) * h * d_a_n", "reset before the product"),
    ("cells/gru.py", "return r * d_a_n, d_a_r", "return d_a_n, d_a_r", "d_a_n on the recurrent product"),
    ("cells/gru.py", "d_h_before + z * d_h", "d_h_before", "h's second path forgotten"),
    ("cells/lstm.py", "d_c_next + o *", "o *", "c's second path forgotten"),
    ("cells/lstm.py", "(1 - tanh_c * tanh_c)", "(1 - c_next * c_next)", "tanh' from c itself"),
    ("cells/lstm.py", "f * (1 - f) * c * d_c", "f * (1 - f) * c_next * d_c", "c[t+1] for c[t]"),
    ("cells/lstm.py", "d_a_o, f * d_c", "d_a_o, d_c", "the forget gate forgotten, backward"),
    ("recurrence.py", "N=gated, out_from=rest", "N=gated, out_from=0", "another gate"),
    ("vectors.py", "for k in range(len(xs) - 1, 0, -1)", "for k in range(1, len(xs))", "inverses in another order"),
    # the loss
    ("vectors.py", "builder.select(mask, last.value, nothing.value)", "last.value", "more classes than there are"),
    ("steps.py", "row[y[i]] -= weight", "row[y[i]] -= scale", "the target without its weight"),
    ("loss.py", "* (d[i, j] - inner)", "* d[i, j]", "softmax without the other classes"),
    ("loss.py", "* np.float64(row[j] - top)", "* np.float64(row[j])", "logits that were not shifted"),
    ("loss.py", "(weight + weight) * difference", "weight * difference", "the 2 of a square forgotten"),
    # pooling
    ("pooling.py", "to[j] = row[j] / steps", "to[j] = row[j] / d_h.shape[0]", "steps that are not there"),
    ("pooling.py", "row[j] > best[j]", "row[j] >= best[j]", "of equal ones the last"),
    # the layer around it
    ("recurrence.py", "pack_transposed_from(W, backward, first)", "pack_from(W, backward, first)", "not transposed"),
    ("recurrence.py", "d_a[(T - 1) * B :], out, work, add=True", "d_a[(T - 1) * B :], out.copy(), work, add=True",
     "reverse: the initial state adds nothing"),
    ("recurrence.py", "        zero(d_W.reshape(-1))", "        pass", "gradients of the step before"),
    # the product
    ("product.py", "at = a_at + start\n", "at = a_at\n", "the first rows of weights for all blocks"),
    ("product.py", "at = a_at + start * a_step", "at = a_at", "the first rows for all blocks"),
    ("gradient_product.py", "start * a_step + top", "top", "the first rows of a for all blocks"),
    ("gradient_product.py", "b_at + start * b_step + side", "b_at + start * b_step", "the first columns of b for all"),
    ("gradient_product.py", "used in (width, lanes) and", "True and", "columns beyond the last are written"),
    ("gradient_product.py", "(top + i) * c_step", "i * c_step", "the first columns of a for all blocks"),
    ("gradient_product.py", "range(0 if add else M)", "range(0)", "gradients of the step before"),
    ("tile.py", 'icmp_signed("<", following, K)', 'icmp_signed("<=", following, K)', "a step too many along K"),
    # entry by entry
    ("elementwise.py", "f4(9.02) if abs(x) > f4(9.02)", "f4(7.9) if abs(x) > f4(7.9)", "tanh stops short of 1"),
    ("vectors.py", "range(13, 0, -1)", "range(11, 0, -1)", "two terms of e^r forgotten"),
    # the output layer and dropout
    ("layers.py", "    d_b_y[:] = 0\n", "", "d_b_y of the step before"),
    ("dropout.py", "mix(u4(t) ^ low)", "mix(low)", "the same mask at all steps"),
    # optimizers
    ("optimizers.py", "n(1 - r.momentum), n(r.decay), n(1 - r.decay)",
     "n(1 - r.momentum), n(r.decay), n(1 - n(r.decay))",
     "1 - β in float32"),
    # sampling
    ("sample.py", "top_p * (1 - 1e-12) * total", "top_p * (1 - 1e-12)", "top_p of a sum that is not 1"),
    ("sample.py", "temperature == 0 or sharpness", "sharpness", "a temperature of -0"),
    ("sample.py", "or top == np.inf", "", "an infinite logit"),
    # attention
    ("attention.py", "row[j] = dot(flat_q, i * K, flat_keys, (j * B + i) * K, K) * scale", "row[j] = dot(flat_q, i * K, flat_keys, (j * B + i) * K, K)", "dot products without their scale"),  # noqa: E501
    ("attention.py", "scratch[k] = tanh(query[k] + key[k])\n                row[j]", "scratch[k] = query[k] + key[k]\n                row[j]", "additive scores without tanh"),  # noqa: E501
    ("attention.py", "        row[n:] = 0\n        if n:", "        n = T\n        if n:", "the padding is looked at"),
    ("attention.py", "valid[j] *= inverse", "valid[j] *= alpha.dtype.type(1)", "weights that do not sum to 1"),
    ("attention.py", "c[i, H:] = 0\n", "\n", "the context of the step before is kept"),
    ("attention.py", "copy(h[i], c[i], H)", "copy(c[i], h[i], H)", "the state is not combined"),
    ("attention.py", "    activate(out, 0)\n", "", "the combined vector without tanh"),
    ("attention.py", "activate_backward(d.reshape(-1), h_tilde.reshape(-1), 0)", "pass", "d_a without tanh'"),
    ("attention.py", "inner += row[j] * weights[j]", "inner += row[j]", "softmax backward without the weights"),
    ("attention.py", "row[j] = weights[j] * (row[j] - inner)", "row[j] = weights[j] * row[j]", "softmax backward without its sum"),  # noqa: E501
    ("attention.py", "                    d_query[k] += d_sum\n", "", "the query learns nothing from additive scores"),
    ("attention.py", "(one - scratch[k] * scratch[k])", "(one - scratch[k])", "tanh' without its square"),
    ("attention.py", "d_w_a[k] += d_score_j * scratch[k]", "d_w_a[k] = d_score_j * scratch[k]", "w_a learns from one source step"),  # noqa: E501
    ("attention.py", "                d_query[k] *= scale\n", "                d_query[k] *= one\n", "d_q without the scale"),  # noqa: E501
    ("attention.py", "        copy(d_c[i], d_h[i], H)\n", "        d_h[i] = 0\n", "the state's own gradient is lost"),
    ("attention.py", "transposed[j * S + t] = factors[t, i, j] * scale", "transposed[j * S + t] = factors[t, i, j]", "d_keys without the scale"),  # noqa: E501
    ("attention.py", "weight_gradient(c, v.d_q.reshape(-1, K)", "weight_gradient(c, v.q.reshape(-1, K)", "d_W_q of the query itself"),  # noqa: E501
]  # fmt: skip
