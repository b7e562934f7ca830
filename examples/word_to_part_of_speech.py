"""Many-to-many, aligned: a part of speech for each word of a sentence, which is read in both directions.

python examples/word_to_part_of_speech.py [FILE] [--quick]
"""

from shared import arguments, progress
from sklearn.model_selection import train_test_split

import elman
from elman.data.labeled_data import read_examples

args = arguments(__doc__, "part-of-speech")
rows = read_examples(args.path, "tag")
X, X_test, y, y_test = train_test_split(rows.inputs, rows.targets, test_size=0.1, random_state=0)

model = elman.SequenceTagger(random_state=0, epochs=8 if args.quick else 25)
model.fit(X, y, listeners=[progress])

score = model.score(X_test, y_test)
print(f"Trained on {len(X):,} sentences; in {len(X_test)} others {score:.1%} of the tags are right.\n")
for sentence in ["The old man saw a small boat .", "I saw her face .", "They run a good race .", "Can I open it ?"]:
    pairs = list(zip(sentence.split(), model.predict([sentence.split()])[0], strict=True))
    print("  ".join(f"{word:<{len(tag)}}" for word, tag in pairs))
    print("  ".join(f"{tag:<{len(word)}}" for word, tag in pairs) + "\n")
