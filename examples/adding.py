"""A test of long memory: two of many numbers are marked, and the target is their sum.

The first marked number is in the first half, so the gradient of the loss must reach back over at least half of the
sequence. Three initializations of W_hh are compared: the identity, with relu (the IRNN of Le, Jaitly and Hinton, 2015);
a random orthogonal matrix, with tanh; and independent random entries, as Glorot and Bengio proposed (2010), with tanh.

python examples/adding.py [--quick]
"""

import numpy as np
from shared import arguments, progress

import elman

args = arguments(__doc__)
T, n = (20, 1500) if args.quick else (50, 10_000)
rng = np.random.default_rng(0)


def problem(n: int) -> tuple[np.ndarray, np.ndarray]:
    """X (n, T, 2): a number from 0 to 1, and whether it is marked; y (n,): the sum of the two marked ones."""
    X = np.zeros((n, T, 2))
    X[:, :, 0] = rng.random((n, T))
    for half in (0, T // 2):
        X[np.arange(n), half + rng.integers(T // 2, size=n), 1] = 1
    return X, (X[:, :, 0] * X[:, :, 1]).sum(axis=1)


X, y = problem(n)
X_test, y_test = problem(1000)
print(f"{T} steps. Always predicting 1 gives a mean squared error of {((1 - y_test) ** 2).mean():.3f}.\n")
for initial, activation in [("identity", "relu"), ("orthogonal", "tanh"), ("glorot", "tanh")]:
    cell = {"cell": "rnn", "activation": activation, "recurrent_init": initial}
    model = elman.SequenceRegressor(**cell, hidden=64, epochs=5, random_state=0)
    model.fit(X, y, listeners=[progress])
    error = ((model.predict(X_test) - y_test) ** 2).mean()
    print(f"{initial:>10}, {activation}:  {error:.4f}  {'solved' if error < 0.01 else 'not solved'}")
