"""Many-to-one: a sentence is read word by word, and classified as positive or negative.

python examples/sentence_to_sentiment.py [FILE] [--quick]
"""

from shared import arguments, progress
from sklearn.model_selection import train_test_split

import elman
from elman.data.labeled_data import read_examples

args = arguments(__doc__, "sentiment")
rows = read_examples(args.path, "classify")
X, X_test, y, y_test = train_test_split(rows.inputs, rows.targets, test_size=0.1, random_state=0)

model = elman.SequenceClassifier(random_state=0, epochs=4 if args.quick else 12)
model.fit(X, y, listeners=[progress])

score = model.score(X_test, y_test)
print(f"Trained on {len(X):,} sentences; of {len(X_test)} others {score:.1%} are classified correctly.\n")
positive = model.classes_.tolist().index("positive")
for sentence in [
    "The food was great and the waiter was very friendly.",
    "The food was terrible and the waiter was rude.",
    "I would recommend this phone to everyone.",
    "What a waste of money.",
    "This is the best movie that I have ever seen.",
]:
    probability = model.predict_proba([sentence])[0, positive]
    print(f"{'█' * round(20 * probability):░<20}  {sentence}")
