"""What one unit learned in Pride and Prejudice: train (or --run RUN), read the last tenth, rank the units.

python docs/lessons/7-a-unit.py --run runs/pride-and-prejudice
"""

from __future__ import annotations

import sys

import numpy as np
from lesson import Result, label, run, svg

from elman import LanguageModel
from elman.data import find_source, open_corpus
from elman.look import Ranking, gradient_flow, memory_horizon, rank_units, read_text

SHOWN = ("a capital", "inside a word", "after the end of a sentence", "letters of the word so far")
SENTENCE = 'Mr. Hill rose at once. "You are late," he said, "and it rains."'
MARKED = {  # the letters of the sentence for which a feature holds
    "a capital": lambda text, t: text[t].isupper(),
    "inside a word": lambda text, t: text[t].isalpha(),
    "after the end of a sentence": lambda text, t: text[: t + 1].rstrip(' "')[-1:] in ".!?",
    "letters of the word so far": lambda text, t: text[t].isalpha(),
}
TINY = {"hidden": 24, "steps": 20, "batch_size": 8, "window": 32}


def drawn(model: LanguageModel, ranking: Ranking) -> str:
    """The states of four units along a sentence as bars, up for positive; the letters of the feature are underlined."""
    parts = [label(345, 24, "the state of four units after each letter: bars up are positive, bars down negative")]
    reading = read_text(model, SENTENCE)
    for row, feature in enumerate(name for name in SHOWN if name in ranking.features):
        best = ranking.best(feature)[0]
        zero = 92 + 104 * row
        way = "higher" if best.rises else "lower"
        parts.append(label(22, zero - 36, f"unit {best.unit} is {way}: {feature}", "start"))
        parts.append(f'<line class="grid" x1="22" x2="{22 + 10.1 * len(SENTENCE):.0f}" y1="{zero}" y2="{zero}"/>')
        states = reading.h[best.layer, :, best.unit]
        for t, (letter, value) in enumerate(zip(SENTENCE, states, strict=True)):
            x, up = 22 + 10.1 * t, value > 0
            bar = f'x="{x + 1:.1f}" y="{zero - 26 * max(value, 0):.1f}" width="8" height="{26 * abs(value):.1f}"'
            parts += [f'<rect class="{"blue" if up else "orange"}" {bar}/>', label(x + 5, zero + 44, letter)]
            if MARKED[feature](SENTENCE, t):
                parts.append(f'<rect class="gray" x="{x:.1f}" y="{zero + 49}" width="10.1" height="2.5"/>')
    return svg(parts, height=60 + 104 * len(SHOWN))


def lesson(quick: bool = False, run: str | None = None) -> Result:
    path = find_source("pride-and-prejudice")
    model = LanguageModel.load(run) if run else LanguageModel(**TINY if quick else {}, embedding=0).fit(path)
    held_out = open_corpus(path, vocabulary=model.vocabulary_).split(0.1, 0.0).validation
    ids = np.asarray(held_out[:6_000] if quick else held_out, np.int64)
    ranking = rank_units(read_text(model, model.vocabulary_.decode(ids)))
    flow = gradient_flow(model.network_, model.parameters_, ids[:200], ids[1:201])
    lines = [f"{len(ids):,} letters of validation text; fitted on one half, scored on the other"]
    for feature, measure, best in ranking.by_feature():
        way = "higher" if best.rises else "lower"
        lines.append(f"{feature:28}  {measure:3} {best.score:.3f}  unit {best.unit:3}, {way}")
    lines.append(f"less than 1 % of a gradient is left after {memory_horizon(flow)} letters")
    return Result(lines, drawn(model, ranking))


if __name__ == "__main__":
    run(__file__, lesson(run=sys.argv[sys.argv.index("--run") + 1] if "--run" in sys.argv else None))
