"""Fine-tuning: a model of one author learns 50 KB of another, compared with a model that has only these 50 KB.

python examples/fine_tuning.py [FILE] [--quick]
"""

from pathlib import Path

from shared import arguments, progress

import elman
from elman.data import find_source

args = arguments(__doc__, "pride-and-prejudice")
first = Path(args.path).read_text(encoding="utf-8")[: 60_000 if args.quick else None]
other = Path(find_source("python-docs")).read_text(encoding="utf-8")
text, unseen = other[: 15_000 if args.quick else 50_000], other[50_000:70_000]

options = {"cell": "gru", "hidden": 64 if args.quick else 256}
novel = elman.LanguageModel(**options, epochs=2 if args.quick else 10).fit(first, listeners=[progress])
tuned = elman.LanguageModel(epochs=3 if args.quick else 15).fit(text, start=novel, listeners=[progress])
alone = elman.LanguageModel(**options, epochs=3 if args.quick else 15).fit(text, listeners=[progress])

known = "".join(character for character in unseen if character in alone.vocabulary_.tokens)
for name, model in (("the novel first, then", tuned), ("only", alone)):
    print(f"{name} {len(text):,} characters of documentation: {-model.score(known):.3f} nats per character")
old_before, old_after = tuned.fitted_.fine_tuning["old"]
print(f"what it costs: {old_before:.3f} nats on the novel before, {old_after:.3f} after")
print(f"\n{tuned.sample(200, prompt='The ', seed=1)}")
