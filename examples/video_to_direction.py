"""Many-to-one, each step an image: a digit moves through a small video, and its direction is predicted.

python examples/video_to_direction.py [--quick]
"""

import numpy as np
from shared import arguments, progress
from sklearn.datasets import load_digits

import elman

args = arguments(__doc__)
DIRECTIONS = {"up": (-1, 0), "down": (1, 0), "left": (0, -1), "right": (0, 1)}
FRAMES, SIZE = 6, 10
digits = load_digits().images / 16  # (1797, 8, 8)
rng = np.random.default_rng(0)


def video(direction: str) -> np.ndarray:
    """(FRAMES, SIZE · SIZE): a random digit, from a random position; it leaves at one edge and enters at the other."""
    picture = np.zeros((SIZE, SIZE))
    picture[:8, :8] = digits[rng.integers(len(digits))]
    start, step = rng.integers(SIZE, size=2), np.array(DIRECTIONS[direction])
    frames = [np.roll(picture, start + t * step, axis=(0, 1)) for t in range(FRAMES)]
    return np.stack(frames).reshape(FRAMES, -1)


n = 1500 if args.quick else 4000
y = rng.choice(list(DIRECTIONS), n)
X = np.stack([video(direction) for direction in y])  # (n, FRAMES, SIZE · SIZE)
n_test = n // 10
model = elman.SequenceClassifier(random_state=0, epochs=10)
model.fit(X[n_test:], y[n_test:], listeners=[progress])

score = model.score(X[:n_test], y[:n_test])
print(f"Trained on {n - n_test:,} videos; of {n_test} others {score:.1%} are classified correctly.\n")
for row in X[0].reshape(FRAMES, SIZE, SIZE).transpose(1, 0, 2):  # (SIZE, FRAMES, SIZE): row by row
    print("│".join("".join(" ·░▒▓█"[min(int(shade * 6), 5)] for shade in frame) for frame in row))
print(f"\nDirection: {y[0]}; predicted: {model.predict(X[:1])[0]}.")
