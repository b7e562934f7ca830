"""One-to-many, as in captioning: the initial state is computed from an image, and the network spells the digit.

python examples/digit_to_name.py [--quick]
"""

from shared import arguments, progress
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import elman

args = arguments(__doc__)
NAMES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
images, digits = load_digits(return_X_y=True)  # (1797, 64), each 8 × 8 shades from 0 to 16
X, X_test, y, y_test = train_test_split(images, digits, test_size=0.2, random_state=0)

model = elman.SequenceGenerator(random_state=0, epochs=10 if args.quick else 30, hidden=64)
model.fit(X, [NAMES[digit] for digit in y], listeners=[progress])

predicted = model.predict(X_test)
right = sum(name == NAMES[digit] for name, digit in zip(predicted, y_test, strict=True)) / len(predicted)
print(f"Trained on {len(X):,} images; of {len(predicted)} others {right:.1%} are named correctly.\n")
for row in X_test[:4].reshape(4, 8, 8).astype(int).transpose(1, 0, 2):  # (8, 4, 8): row by row, images side by side
    print("     ".join("".join(" ·░▒▓██"[shade // 3] * 2 for shade in image) for image in row))
print("     ".join(f"{name:^16}" for name in predicted[:4]))
