"""Why a fixed state fails: reversed strings, exact match by length, with and without attention."""

from __future__ import annotations

import numpy as np
from lesson import BLUE, GRAY, GREEN, ORANGE, Curve, Result, chart, run

from elman import Seq2Seq, look

LETTERS, LONGEST, EXAMPLES, TESTED = "abcdefgh", 20, 6000, 50
NETWORKS = {  # what the decoder gets of the source
    "last state, 64 units": ({"attention": "none", "hidden": 64}, GRAY, "2 3"),
    "last state, 128 units": ({"attention": "none", "hidden": 128}, ORANGE, "6 3"),
    "attention, 64 units": ({"attention": "dot", "hidden": 64}, BLUE, ""),
    "additive, 64 units": ({"attention": "additive", "hidden": 64}, GREEN, "9 3"),
}
SHOWN = 3, 6, 10, 15, 20


def strings(rng: np.random.Generator, lengths: np.ndarray) -> list[str]:
    return ["".join(rng.choice(list(LETTERS), size=n)) for n in lengths]


def reversed_strings(words: list[str]) -> list[str]:
    return [word[::-1] for word in words]


def lesson(quick: bool = False) -> Result:
    rng = np.random.default_rng(0)
    n, longest = (200, 6) if quick else (EXAMPLES, LONGEST)
    learned = strings(rng, rng.integers(1, longest + 1, n))
    held_out = {length: strings(rng, np.full(TESTED, length)) for length in range(1, longest + 1)}
    lines = [f"{'the decoder gets':38}weights, exact match at length {', '.join(map(str, SHOWN))}"]
    curves, model = [], None
    for name, (options, color, dash) in NETWORKS.items():
        model = Seq2Seq(
            **options, embedding=16, dropout=0.0, learning_rate=5e-3, epochs=1 if quick else 15, random_state=0
        )
        model.fit(learned, reversed_strings(learned), listeners=[])
        right = [model.score(words, reversed_strings(words)) for words in held_out.values()]
        weights = model.fitted_.parameters.buffer.size
        each = ", ".join(f"{right[min(length, longest) - 1]:.2f}" for length in SHOWN)
        lines.append(f"trained {name:30}{weights:7,}: {each}")
        curves.append(Curve(name, right, color, dash, list(range(1, longest + 1))))
        if name == "attention, 64 units":
            word = held_out[min(10, longest)][0]
            found = look.attention_map(model, word, word[::-1])
            places = found.alpha[: len(word)].argmax(axis=1)
            right_places = int((places == np.arange(len(word))[::-1]).sum())
            steps = f"{right_places} of {len(word)} steps"
            lines.append(f"trained attention: the largest weight is on the letter to copy in {steps}")
    title = "reversing strings that were not in the training data: exact match by length"
    figure = chart(curves, title=title, x="length of the string", y="exact match", low=0, high=1)
    return Result(lines, figure)


if __name__ == "__main__":
    run(__file__, lesson())
