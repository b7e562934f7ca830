"""One-to-many: the initial state is computed from a language, and the network spells a new surname.

python examples/language_to_surname.py [FOLDER] [--quick]
"""

from shared import arguments, progress
from sklearn.model_selection import train_test_split

import elman
from elman.data.labeled_data import read_examples

args = arguments(__doc__, "names")
rows = read_examples(args.path, "generate")
X, X_test, y, y_test = train_test_split(rows.targets, rows.inputs, test_size=0.1, random_state=0)

model = elman.SequenceGenerator(random_state=0, epochs=2 if args.quick else 8)
model.fit(X, y, listeners=[progress])

nats = -model.score(X_test, y_test)
print(f"Trained on {len(X):,} surnames; the loss on {len(X_test):,} others is {nats:.2f} nats per letter.\n")
known = set(rows.inputs)
for language in sorted(set(X)):
    sampled = model.sample([language] * 30, temperature=0.6)
    new = [name for name in dict.fromkeys(sampled) if name not in known]  # not in the data
    print(f"{language:>12}  {', '.join(new[:6])}")
