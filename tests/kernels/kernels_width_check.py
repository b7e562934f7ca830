"""Products, forward and backward of the vector width that ELMAN_VECTOR_BYTES asks for, against NumPy and elman.maths.

Run in a process of its own by test_kernels_cache.py: the width is fixed when elman.kernels is imported.
"""

import sys

import kernels_tools as cell
import numpy as np
from kernels_tools import Guard, assert_close, make, same_bits
from test_kernels_gated import Trial

from elman.kernels.compile import VECTOR_BYTES
from elman.kernels.gradient_product import space_size, transposed_product
from elman.kernels.product import edge_size, pack_forward, packed_size, panel_width, product
from elman.maths.cells.rnn import rnn_backward, rnn_forward

assert int(sys.argv[1]) == VECTOR_BYTES
assert panel_width(4) == 2 * VECTOR_BYTES // 4
rng = np.random.default_rng(0)
for dtype in (np.float32, np.float64):
    for K in (1, 33, 300):
        for N in (1, 7, 16, 31, 33, 64, 130, 257):
            W, a, c = (rng.standard_normal(shape).astype(dtype) for shape in ((K, N), (20, K), (20, N)))
            packed = np.empty(packed_size(K, N, W.itemsize), dtype)
            Guard(pack_forward, "packed")(W, packed)
            expected = c.astype(float) + a.astype(float) @ W.astype(float)
            results = []
            for rows in (1, 2, 3, 4, 5, 6, 7, 13, 14, 15, 20):
                results.append(c[:rows].copy())
                edge = np.empty(edge_size(rows, W.itemsize), dtype)
                Guard(product, "edge")(a[:rows].copy(), packed, results[-1], edge)
                assert same_bits(results[-1][:1], results[0]), "a row's bits depend on its neighbors"
            assert_close(results[-1], expected, dtype)
            of_a, of_b, out = (rng.standard_normal(shape).astype(dtype) for shape in ((40, K), (40, N), (K, N)))
            space = np.empty(space_size(40, K, N, out.itemsize), dtype)
            Guard(transposed_product, "space")(
                of_a.reshape(-1), K, 40, K, of_b.reshape(-1), 0, N, N, out.reshape(-1), 0, N, space, False
            )
            assert_close(out, of_a.astype(float).T @ of_b.astype(float), dtype)

for H in (1, 33, 49, 100):
    for ids in (None, np.int64):
        trial = make(H, 4, 17, 5, H, np.float32, ids=ids, ragged=True, masked=True)
        exact = trial.exact
        assert_close(
            cell.rnn_forward(*trial.arguments, **trial.options),
            rnn_forward(*exact.arguments, **exact.options),
            np.float32,
        )
        h = rnn_forward(*exact.arguments, **exact.options).astype(np.float32)
        ours = cell.rnn_backward(trial.d_h_direct, trial.x, h, trial.W_xh, trial.W_hh, **trial.options)
        theirs = rnn_backward(exact.d_h_direct, exact.x, h.astype(float), exact.W_xh, exact.W_hh, **exact.options)
        for d, d_exact in zip(ours, theirs, strict=True):
            if d is not None:
                assert_close(d, d_exact, np.float32)
for name in ("gru", "lstm"):
    for H in (1, 9, 33):
        Trial(H, name, 3, 5, 4, H, np.float32, ids=np.int64, ragged=True, masked=True).check()
print("fine")
