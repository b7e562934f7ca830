"""Many-to-one: a surname is read letter by letter, and its language is predicted.

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

print(f"Trained on {len(X):,} surnames of {len(model.classes_)} languages.")
print(f"It predicts the right language of {model.score(X_test, y_test):.1%} of {len(X_test):,} others.\n")
for name in ["Rossi", "Yamamoto", "O'Sullivan", "Papadopoulos", "Dostoevsky", "Schneider", "Nguyen"]:
    probabilities = model.predict_proba([name])[0]
    likely = probabilities.argsort()[::-1][:3]
    print(f"{name:>14}  " + "   ".join(f"{model.classes_[i]} {probabilities[i]:.0%}" for i in likely))
