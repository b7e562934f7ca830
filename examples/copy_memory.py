"""A test of long memory: some letters are shown, then nothing for a while, then they are to be said again.

The letters have to live in the state alone. Only the network that starts as the identity keeps most of them for so long
after so little training; examples/adding.py says more about the three starts.

python examples/copy_memory.py [--quick]
"""

import numpy as np
from shared import arguments, progress

import elman

args = arguments(__doc__)
LETTERS, WAIT, n = 3, 10 if args.quick else 20, 2000 if args.quick else 10_000
rng = np.random.default_rng(0)


def problem(n: int) -> tuple[list[list[str]], list[list[str]]]:
    """b d a - - - - ? ? ?   goes in,   - - - - - - - b d a   should come out."""
    shown = rng.choice(list("abcdefgh"), (n, LETTERS)).tolist()
    X = [[*letters, *"-" * WAIT, *"?" * LETTERS] for letters in shown]
    return X, [[*"-" * (LETTERS + WAIT), *letters] for letters in shown]


X, y = problem(n)
X_test, y_test = problem(500)
wanted = np.array(y_test)[:, -LETTERS:]
print(f"{LETTERS} of 8 letters are to be kept for {WAIT} steps. A guess is right once in eight times, 12.5%.\n")
print(f"{'':>17}   {''.join(X_test[0])}")
for initial, activation in [("identity", "relu"), ("orthogonal", "tanh"), ("glorot", "tanh")]:
    model = elman.SequenceTagger(
        cell="rnn", recurrent_init=initial, activation=activation, hidden=64, bidirectional=False, embedding=0,
        dropout=0, input_dropout=0, recurrent_dropout=0, unk_dropout=0,
        learning_rate=2e-3, epochs=5, random_state=0,
    )  # fmt: skip
    model.fit(X, y, listeners=[progress])
    told = np.array(model.predict(X_test))
    kept = (told[:, -LETTERS:] == wanted).mean()
    print(f"{initial:>10}, {activation}:  {''.join(told[0])}  {kept:.1%} of the letters are kept")
