"""A test of long memory: the network reads some letters, then blanks, and must then output the letters.

Only the state can carry them over the blanks. After this short training only the network whose W_hh starts as the
identity recalls most of them; examples/adding.py describes the three initializations.

python examples/copy_memory.py [--quick]
"""

import numpy as np
from shared import arguments, progress

import elman

args = arguments(__doc__)
LETTERS, WAIT, n = 3, 10 if args.quick else 20, 2000 if args.quick else 10_000
rng = np.random.default_rng(0)


def problem(n: int) -> tuple[list[list[str]], list[list[str]]]:
    """Inputs such as b d a - - - - ? ? ?, with the targets - - - - - - - b d a."""
    recalled = rng.choice(list("abcdefgh"), (n, LETTERS)).tolist()
    X = [[*letters, *"-" * WAIT, *"?" * LETTERS] for letters in recalled]
    return X, [[*"-" * (LETTERS + WAIT), *letters] for letters in recalled]


X, y = problem(n)
X_test, y_test = problem(500)
wanted = np.array(y_test)[:, -LETTERS:]
print(f"{LETTERS} letters, each one of 8, must be recalled after {WAIT} blanks. A guess is right in 12.5% of cases.\n")
print(f"{'':>17}   {''.join(X_test[0])}")
for initial, activation in [("identity", "relu"), ("orthogonal", "tanh"), ("glorot", "tanh")]:
    model = elman.SequenceTagger(
        cell="rnn", recurrent_init=initial, activation=activation, hidden=64, bidirectional=False, embedding=0,
        dropout=0, input_dropout=0, recurrent_dropout=0, unk_dropout=0,
        learning_rate=2e-3, epochs=5, random_state=0,
    )  # fmt: skip
    model.fit(X, y, listeners=[progress])
    predicted = np.array(model.predict(X_test))
    right = (predicted[:, -LETTERS:] == wanted).mean()
    print(f"{initial:>10}, {activation}:  {''.join(predicted[0])}  {right:.1%} of the letters are right")
