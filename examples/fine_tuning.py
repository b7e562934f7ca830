"""Fine-tune a model of a novel on 50,000 characters of Python's documentation; compare it with a model of these alone.

python examples/fine_tuning.py [FILE] [--quick]
"""

from pathlib import Path

from shared import arguments, progress

import elman
from elman.data import find_source

args = arguments(__doc__, "pride-and-prejudice")
novel = Path(args.path).read_text(encoding="utf-8")[: 60_000 if args.quick else None]
documentation = Path(find_source("python-docs")).read_text(encoding="utf-8")
text, unseen = documentation[: 15_000 if args.quick else 50_000], documentation[50_000:70_000]

options = {"cell": "gru", "hidden": 64 if args.quick else 256}
pretrained = elman.LanguageModel(**options, epochs=2 if args.quick else 10).fit(novel, listeners=[progress])
tuned = elman.LanguageModel(epochs=3 if args.quick else 15).fit(text, start=pretrained, listeners=[progress])
alone = elman.LanguageModel(**options, epochs=3 if args.quick else 15).fit(text, listeners=[progress])

known = "".join(character for character in unseen if character in alone.vocabulary_.tokens)  # tuned has these too
print("Nats per character of other documentation, after training on")
for name, model in (("the novel, then", tuned), ("only", alone)):
    print(f"{name} {len(text):,} characters of documentation: {-model.score(known):.3f}")
old_before, old_after = tuned.fitted_.fine_tuning["old"]
print(f"\nloss on the novel: {old_before:.3f} nats per character before fine-tuning, {old_after:.3f} after")
print(f"\n{tuned.sample(200, prompt='The ', seed=1)}")
