"""Many-to-many, unaligned: an English sentence is read completely, then translated into French.

python examples/english_to_french.py [FILE] [--quick]
"""

from shared import arguments, progress

import elman
from elman.data.labeled_data import read_examples

args = arguments(__doc__, "english-french")
rows = read_examples(args.path, "translate")
short = [i for i, sentence in enumerate(rows.inputs) if len(sentence.split()) <= 3]
english, french = [rows.inputs[i] for i in short], [rows.targets[i] for i in short]

model = elman.Seq2Seq(random_state=0, epochs=2 if args.quick else 8)
model.fit(english, french, listeners=[progress])

known = set(english)
print(f"Trained on {len(english):,} short sentences. Translations of some of them, and of new ones:\n")
for sentence in [
    "I am happy.", "She is happy.", "I love you.", "Where is Tom?", "He is very tall.", "We are not alone.",
    "Are they old?", "She was tired.", "Tom looks happy.", "You are not late.",
]:  # fmt: skip
    print(f"{sentence:>20}  {model.predict([sentence], beam=5)[0]:<28}{'' if sentence in known else 'new'}")
