"""Many-to-one: a surname goes in, letter by letter, and out comes the language that it sounds like.

python examples/surname_to_language.py [FOLDER] [--quick]
"""

from shared import arguments, progress
from sklearn.model_selection import train_test_split

import elman
from elman.data.labeled_data import read_examples

args = arguments(__doc__, "names")
rows = read_examples(args.path, "classify")
X, X_test, y, y_test = train_test_split(rows.inputs, rows.targets, test_size=0.1, random_state=0)

model = elman.SequenceClassifier(random_state=0, epochs=2 if args.quick else 8)
model.fit(X, y, listeners=[progress])

print(f"{len(X):,} surnames of {len(model.classes_)} languages are learned.")
print(f"Of {len(X_test):,} others it tells the language of {model.score(X_test, y_test):.1%}.\n")
for name in ["Rossi", "Yamamoto", "O'Sullivan", "Papadopoulos", "Dostoevsky", "Schneider", "Nguyen"]:
    chances = model.predict_proba([name])[0]
    likely = chances.argsort()[::-1][:3]
    print(f"{name:>14}  " + "   ".join(f"{model.classes_[i]} {chances[i]:.0%}" for i in likely))
