"""Mistakes that somebody could make in the equations, one a line: scripts/mutate makes each, and a test must fail.

FOLDER is what is changed, TESTS says which tests judge a file, MUTANTS are (file, old text, new text, why). An old text
occurs exactly once in its file. A change that makes no difference to the mathematics does not belong here.
"""

FOLDER = "elman/maths"

TESTS = {
    "activations.py": ["tests/maths/test_maths_cell.py"],
    "cell.py": ["tests/maths/test_maths_cell.py"],
    "layers.py": ["tests/maths/test_maths_layers.py", "tests/maths/test_maths_cell.py"],
    "loss.py": ["tests/maths/test_maths_loss.py"],
    "truncation.py": ["tests/maths/test_maths_truncation.py"],
    "rtrl.py": ["tests/maths/test_maths_rtrl.py"],
    "jacobian.py": ["tests/maths/test_maths_jacobian.py"],
    "gradcheck.py": ["tests/maths/test_maths_gradcheck.py"],
}

D_W_HH = "out.d_W_hh[...] += before.reshape(T * B, H).T @ d_a.reshape(T * B, H)"
CARRIED = "d_h_next[over] = d_h[over]"
D_A = "np.multiply(derivative(h[t + 1]), d_h, out=d_a[t])"
BEFORE_REVERSE = "np.concatenate([h[2:], h[:1]])"
PLACED = "d_block[np.minimum(t - self.start, last)[n], n] += d_h_direct[t[n], self.rows[n]]"

MUTANTS = [
    # activations
    ("activations.py", "lambda h: 1 - h * h", "lambda h: 1 - h", "tanh' without its square"),
    ("activations.py", "lambda h: h * (1 - h)", "lambda h: h * (1 + h)", "a sign in sigmoid'"),
    ("activations.py", "(h > 0)", "(h >= 0)", "relu passes gradients where it is 0"),
    ("activations.py", "np.tanh(a / 2)", "np.tanh(a)", "sigmoid of 2a"),
    # cell, forward
    ("cell.py", "h[0] = 0 if h0 is None else h0", "h[0] = 0", "initial state ignored"),
    ("cell.py", "    z += b_h\n", "", "b_h forgotten"),
    ("cell.py", "a = state @ W_hh ", "a = state @ W_hh.T ", "W_hh transposed, forward"),
    ("cell.py", "a += z[t]", "a += z[t - 1]", "the input of the step before"),
    ("cell.py", "state = h[before] if h_mask is None else h[before] * h_mask", "state = h[before]", "mask, forward"),
    ("cell.py", "h[t + 1, over] = h[before, over]", "h[t + 1, over] = 0", "past its length a row forgets its state"),
    ("cell.py", "t >= lengths  # (B,)\n            h[", "t > lengths\n            h[", "a step too many, forward"),
    ("cell.py", "(t, t + 2 if t < T - 1 else 0)", "(t, t + 1 if t < T - 1 else 0)", "reverse reads what it writes"),
    ("cell.py", "t + 2 if t < T - 1 else 0", "t + 2 if t < T - 2 else 0", "reverse starts twice"),
    ("cell.py", "for t in reversed(range(T))] if reverse", "for t in range(T)] if reverse", "reverse in forward order"),
    # cell, backward
    ("cell.py", "in reversed(steps(T, reverse))", "in steps(T, reverse)", "backward in forward order"),
    ("cell.py", "d_h = d_h_direct[t] + d_h_next", "d_h = d_h_direct[t]", "no recursion: Elman's 1990 gradient"),
    ("cell.py", "d_h = d_h_direct[t] + d_h_next", "d_h = d_h_next", "direct gradients lost"),
    ("cell.py", "d_h = d_h_direct[t] + d_h_next", "d_h = d_h_direct[t] - d_h_next", "a sign in the recursion"),
    ("cell.py", "d_h = d_h_direct[t] + d_h_next", "d_h = d_h_direct[t - 1] + d_h_next", "another step's gradient"),
    ("cell.py", "derivative(h[t + 1])", "derivative(h[t])", "h[t] for h[t+1]"),
    ("cell.py", D_A, "d_a[t] = d_h", "1 - h² missing"),
    ("cell.py", "d_a[t, over] = 0", "pass", "padded steps change the weights"),
    ("cell.py", "t >= lengths  # (B,)\n            d_a", "t > lengths\n            d_a", "a step too many, backward"),
    ("cell.py", "d_h_next = d_a[t] @ W_hh.T", "d_h_next = d_a[t] @ W_hh", "W_hh.T without its transpose"),
    ("cell.py", "d_h_next = d_a[t] @ W_hh.T", "d_h_next = d_h @ W_hh.T", "d_h for d_a in the recursion"),
    ("cell.py", "d_h_next *= h_mask", "pass", "mask missing from the recursion"),
    ("cell.py", CARRIED, "d_h_next[over] = 0", "a carried state loses its gradient"),
    ("cell.py", CARRIED, "d_h_next[over] = d_h[over] - d_h_direct[t, over]", "gradients on padded states lost"),
    ("cell.py", f"before = {BEFORE_REVERSE} if reverse else h[:-1]",
     f"before = {BEFORE_REVERSE} if reverse else h[1:]", "d_W_hh from h[t+1]"),
    ("cell.py", BEFORE_REVERSE, "np.concatenate([h[:1], h[2:]])", "d_W_hh in reverse from the wrong states"),
    ("cell.py", BEFORE_REVERSE, "h[1:]", "d_W_hh in reverse from the state after"),
    ("cell.py", "before = before * h_mask", "pass", "mask missing from d_W_hh"),
    ("cell.py", D_W_HH, "out.d_W_hh[...] += d_a.reshape(T * B, H).T @ before.reshape(T * B, H)", "d_W_hh transposed"),
    ("cell.py", D_W_HH, "out.d_W_hh[...] += before[1:].reshape(-1, H).T @ d_a[1:].reshape(-1, H)",
     "the sum for d_W_hh stops one step early"),
    ("cell.py", D_W_HH, D_W_HH.replace("+=", "="), "d_W_hh overwrites what was there"),
    ("cell.py", "d_a.sum(axis=(0, 1))", "d_a[:-1].sum(axis=(0, 1))", "d_b_h without the last step"),
    ("cell.py", "d_a.sum(axis=(0, 1))", "d_h_direct.sum(axis=(0, 1))", "d_b_h from d_h"),
    ("cell.py", "d_W_xh=out.d_W_xh, d_x=out.d_x)", "d_W_xh=out.d_W_xh, d_x=None)", "d_x dropped"),
    ("cell.py", "    out.d_h0[...] += d_h_next\n", "", "d_h0 dropped"),
    ("cell.py", "out.d_h0[...] += d_h_next", "out.d_h0[...] += d_h", "d_h0 without its product with W_hh.T"),
    ("cell.py", "out.d_h0[...] += d_h_next", "out.d_h0[...] = d_h_next", "d_h0 overwrites what was there"),
    # layers
    ("layers.py", "    o += b_y\n", "", "b_y forgotten"),
    ("layers.py", "h.reshape(-1, H).T @ rows", "h.reshape(-1, H)[:-1].T @ rows[:-1]", "d_W_hy without the last row"),
    ("layers.py", "rows.sum(axis=0)", "rows.mean(axis=0)", "d_b_y is a mean"),
    ("layers.py", "out.d_h[...] += (rows @ W_hy.T)", "out.d_h[...] -= (rows @ W_hy.T)", "a sign in d_h"),
    ("layers.py", "out.d_W_hy[...] +=", "out.d_W_hy[...] =", "d_W_hy overwrites what was there"),
    ("layers.py", "ids.ravel()", "ids.T.ravel()", "rows added to the ids of others"),
    ("layers.py", "d_W += (one_hot.T @ rows)", "d_W[...] = (one_hot.T @ rows)", "d_W overwrites what was there"),
    ("layers.py", "d_W_xh += x.reshape(-1, X).T @", "d_W_xh -= x.reshape(-1, X).T @", "a sign in d_W_xh"),
    ("layers.py", "d_x += (d_a.reshape(-1, H) @ W_xh.T)", "d_x[...] = (d_a.reshape(-1, H) @ W_xh.T)", "d_x overwrites"),
    # loss
    ("loss.py", "np.subtract(o, o.max(axis=-1, keepdims=True), out=out)", "np.subtract(o, o.max(), out=out)",
     "softmax shifted by another row's maximum"),
    ("loss.py", "y_hat * (d_y_hat - inner)", "y_hat * d_y_hat", "softmax's Jacobian is a diagonal"),
    ("loss.py", "inner = (d_y_hat * y_hat).sum(", "inner = (d_y_hat * y_hat).mean(", "a mean in softmax's Jacobian"),
    ("loss.py", "shifted = o - o.max(axis=-1, keepdims=True)", "shifted = o - 0", "logits of 1e4 overflow"),
    ("loss.py", "y * (log_total - shifted)", "y * (shifted - log_total)", "the minus of the loss, distributions"),
    ("loss.py", "(scale * y * (", "(y * (", "loss of distributions without weight and normaliser"),
    ("loss.py", "(scale * (log_total - ", "(1 * (log_total - ", "loss of ids without weight and normaliser"),
    ("loss.py", "(log_total - np.take", "(log_total + np.take", "log y_hat with a wrong sign"),
    ("loss.py", "        d_o -= y\n", "", "d_o = y_hat, which lost - y"),
    ("loss.py", "ids, axis=-1) - 1, axis", "ids, axis=-1) + 1, axis", "y_hat + y"),
    ("loss.py", "    d_o *= scale\n", "", "d_o without weight and normaliser"),
    ("loss.py", "d_o *= 2 * scale", "d_o *= scale", "the 2 of the squared error"),
    ("loss.py", "(scale * d_o * d_o)", "(d_o * d_o)", "squared error without weight and normaliser"),
    ("loss.py", "weights[..., np.newaxis] * scale", "weights[..., np.newaxis]", "normaliser lost beside weights"),
    ("loss.py", "scale = 1 / (1.0 if normaliser is None else normaliser)",
     "scale = 1.0 if normaliser is None else normaliser", "multiplied by the normaliser"),
    # truncation
    ("truncation.py", "np.arange(0, T, k1)", "np.arange(0, T - 1, k1)", "the last block lost"),
    ("truncation.py", "np.minimum(first + k1, T", "np.minimum(first + k1 - 1, T", "a block ends one step early"),
    ("truncation.py", "np.maximum(end - k2, 0)", "np.maximum(end - k2 + 1, 0)", "reach one step short"),
    ("truncation.py", "np.maximum(end - k2, 0)", "np.maximum(np.minimum(first, end - 1), 0)", "the block alone"),
    ("truncation.py", "np.tile(np.arange(B), len(first)", "np.repeat(np.arange(B), len(first)", "rows mixed up"),
    ("truncation.py", "s in range(self.k1)", "s in range(self.k1 - 1)", "the last loss of each block lost"),
    ("truncation.py", "s in range(self.k1)", "s in range(1, self.k1)", "the first loss of each block lost"),
    ("truncation.py", PLACED, PLACED.replace("+=", "="), "of several losses past a row's end only one counts"),
    ("truncation.py", "h[self._at(self.k2 + 1, len(h)), self.rows]",
     "h[np.minimum(self._at(self.k2 + 1, len(h)) + 1, len(h) - 1), self.rows]", "h[t+1] for h[t] in a block"),
    ("truncation.py", "if k2 >= T:", "if k2 >= T - 1:", "full gradient for a reach of all steps but one"),
    ("truncation.py", "lengths=blocks.lengths,", "lengths=None,", "steps past a block's end take part"),
    ("truncation.py", "None if h_mask is None else h_mask[blocks.rows]", "None", "mask missing from the blocks"),
    ("truncation.py", "np.add.at(out.d_x, (blocks._at(blocks.k2, T), blocks.rows), d_x)",
     "out.d_x[blocks._at(blocks.k2, T), blocks.rows] += d_x", "of several blocks one reaches x"),
    ("truncation.py", "np.add.at(out.d_h0, blocks.rows[from_start], d_h0[from_start])",
     "out.d_h0[blocks.rows[from_start]] += d_h0[from_start]", "of several blocks one reaches h0"),
    ("truncation.py", "from_start = blocks.start == 0", "from_start = blocks.start >= 0", "fixed states move h0"),
    # real-time recurrent learning
    ("rtrl.py", "P, d_h_direct[t])", "P_next, d_h_direct[t])", "padded steps go on"),
    ("rtrl.py", "(P * mask[:, np.newaxis, np.newaxis]) @ W_hh", "P @ W_hh", "mask missing from ∂h/∂W"),
    ("rtrl.py", "(P * mask[:, np.newaxis, np.newaxis]) @ W_hh", "0", "only the immediate derivative"),
    ("rtrl.py", "R_next = f_prime[:, np.newaxis] * ", "R_next = ", "f' missing from ∂h/∂h[0]"),
    ("jacobian.py", "derivative(h)[..., np.newaxis, :]", "derivative(h)[..., np.newaxis]", "diag on the wrong side"),
    ("jacobian.py", "d_a @ W_hh.T  #", "d_a @ W_hh  #", "W_hh not transposed"),
    ("jacobian.py", "derivative(h) * d_h", "d_h", "f' missing from a step back"),
    # the judge
    ("gradcheck.py", "(2 * epsilon)", "epsilon", "one-sided divisor"),
    ("gradcheck.py", "array[...] = kept\n", "pass\n", "arrays not restored"),
    ("gradcheck.py", "row.error <= self.tolerance for row", "not row.error > self.tolerance for row", "NaN passes"),
]  # fmt: skip
