"""Many-to-one, with images for steps: a digit moves through a little video, and out comes the direction.

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
    """(FRAMES, SIZE · SIZE): any digit, from any place; where it leaves the picture, it comes in again."""
    picture = np.zeros((SIZE, SIZE))
    picture[:8, :8] = digits[rng.integers(len(digits))]
    start, step = rng.integers(SIZE, size=2), np.array(DIRECTIONS[direction])
    frames = [np.roll(picture, start + t * step, axis=(0, 1)) for t in range(FRAMES)]
    return np.stack(frames).reshape(FRAMES, -1)


n = 1500 if args.quick else 4000
y = rng.choice(list(DIRECTIONS), n)
X = np.stack([video(direction) for direction in y])  # (n, FRAMES, SIZE · SIZE)
held = n // 10
model = elman.SequenceClassifier(random_state=0, epochs=10)
model.fit(X[held:], y[held:], listeners=[progress])

print(
    f"{n - held:,} videos learned; of {held} others {model.score(X[:held], y[:held]):.1%} are classified correctly.\n"
)
for row in X[0].reshape(FRAMES, SIZE, SIZE).transpose(1, 0, 2):  # (SIZE, FRAMES, SIZE): row by row
    print("│".join("".join(" ·░▒▓█"[min(int(shade * 6), 5)] for shade in frame) for frame in row))
print(f"\nIt goes {y[0]}; the network says {model.predict(X[:1])[0]}.")
