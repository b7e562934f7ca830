"""Many-to-many, unaligned: a word is read letter by letter, then its sounds are written one by one.

python examples/spelling_to_pronunciation.py [FILE] [--quick]
"""

from shared import arguments, progress
from sklearn.model_selection import train_test_split

import elman
from elman.data.labeled_data import read_examples

args = arguments(__doc__, "pronunciation")
rows = read_examples(args.path, "translate")
X, X_test, y, y_test = train_test_split(rows.inputs, rows.targets, test_size=0.02, random_state=0)

model = elman.Seq2Seq(random_state=0, epochs=1 if args.quick else 4)
model.fit(X, y, listeners=[progress])

score = model.score(X_test, y_test)
print(f"Trained on {len(X):,} words; of {len(X_test)} others {score:.1%} are right.\n")
for spelling, right in list(zip(X_test, y_test, strict=True))[:10]:
    predicted = model.predict([spelling])[0]
    print(f"{spelling:>16}  {predicted:<32}" + ("" if predicted == right else f"  correct: {right}"))
