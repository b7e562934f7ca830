"""What one unit learned in Pride and Prejudice: train (or --run RUN), read the last tenth, rank the units.

python docs/lessons/7-a-unit.py --run runs/pride-and-prejudice
"""

from __future__ import annotations

import sys

import numpy as np
from lesson import Told, svg, tell, words

from elman import LanguageModel
from elman.data import find_source, open_corpus
from elman.look import gradient_flow, memory_horizon
from elman.look.units import Ranking, rank_units, read_text

SHOWN = ("a capital", "inside a word", "after the end of a sentence", "letters of the word so far")
SENTENCE = 'Mr. Hill rose at once. "You are late," he said, "and it rains."'
TINY = {"hidden": 24, "steps": 20, "batch_size": 8, "window": 32}


def drawn(model: LanguageModel, ranking: Ranking) -> str:
    """Our own sentence under the eyes of four units: blue is +1, red is -1."""
    parts = [words(345, 24, "the state of four units after each letter: blue +1, red −1")]
    reading = read_text(model, SENTENCE)
    for row, feature in enumerate(name for name in SHOWN if name in ranking.features):
        best = ranking.best(feature)[0]
        top = 44 + 62 * row
        parts.append(words(22, top + 12, f"unit {best.unit}: {feature} ({'+' if best.rises else '−'})", "start"))
        for t, value in enumerate(reading.h[best.layer, :, best.unit]):
            color, x = "#1f5fa8" if value > 0 else "#c0392b", 22 + 10.1 * t
            box = f'x="{x:.1f}" y="{top + 18}" width="10" height="22" fill="{color}" opacity="{abs(value) * 0.6:.2f}"'
            parts += [f"<rect {box}/>", words(x + 5, top + 33, SENTENCE[t])]
    return svg(parts, height=60 + 62 * len(SHOWN))


def lesson(quick: bool = False, run: str | None = None) -> Told:
    path = find_source("pride-and-prejudice")
    model = LanguageModel.load(run) if run else LanguageModel(**TINY if quick else {}).fit(path)
    held_out = open_corpus(path, vocabulary=model.vocabulary_).split(0.1, 0.0).validation
    ids = np.asarray(held_out[:6_000] if quick else held_out, np.int64)
    ranking = rank_units(read_text(model, model.vocabulary_.decode(ids)))
    flow = gradient_flow(model.network_, model.parameters_, ids[:200], ids[1:201])
    lines = [f"{len(ids):,} letters that it was not trained on; fitted on half of them, scored on the other"]
    for feature, measure, best in ranking.by_feature():
        way = "higher" if best.rises else "lower"
        lines.append(f"{feature:28}  {measure:3} {best.score:.3f}  unit {best.unit:3}, {way}")
    lines.append(f"a gradient is down to 1 % after {memory_horizon(flow)} letters")
    return Told(lines, drawn(model, ranking))


if __name__ == "__main__":
    tell(__file__, lesson(run=sys.argv[sys.argv.index("--run") + 1] if "--run" in sys.argv else None))
