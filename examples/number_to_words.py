"""Many-to-many, unaligned: a number is read digit by digit, then written in words.

python examples/number_to_words.py [--quick]
"""

import numpy as np
from shared import arguments, number_in_words, progress

import elman

args = arguments(__doc__)
numbers = np.random.default_rng(0).permutation(1000 if args.quick else 10_000).tolist()
train, test = numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :]
model = elman.Seq2Seq(random_state=0, epochs=30 if args.quick else 12, hidden=128, embedding=16, tokens="char")
model.fit([str(n) for n in train], [number_in_words(n) for n in train], listeners=[progress])

right = model.score([str(n) for n in test], [number_in_words(n) for n in test])
print(f"Trained on {len(train):,} numbers; of {len(test):,} others {right:.1%} are written without a mistake.\n")
for n in test[:8]:
    print(f"{n:>6}  {model.predict([str(n)])[0]}")
