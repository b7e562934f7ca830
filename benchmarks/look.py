"""How long the analyses of elman.look take: .venv/bin/python benchmarks/look.py

Gradient flow for T = 128 and H = 256, which should take less than two seconds; one backward pass per loss, for
comparison; and the ranking of all units over 100,000 characters, which should take less than ten. The weights are
random: the time does not depend on them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from elman.config import Config
from elman.data import CharVocabulary
from elman.kernels import cell_backward, cell_forward
from elman.look import gradient_flow, rank_units, read_text
from elman.maths.recurrence import CellTrace
from elman.models import LanguageModel
from elman.models.fitted import new_model
from elman.models.task_spec import TaskSpec

T, H, CHARACTERS = 128, 256, 100_000
WORDS = "“It is a truth,” said she, “universally acknowledged (by some), that a single man must want a wife.”\n"


def best_of(count: int, call: Callable[[], object]) -> float:
    """Seconds of the fastest call: other programs disturb it least."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def random_model(text: str) -> LanguageModel:
    spec = TaskSpec.language_model(CharVocabulary(text))
    return LanguageModel(hidden=H)._set_fitted(new_model(spec, Config().with_options(hidden=H)))


def one_backward_a_loss(model: LanguageModel, x: np.ndarray) -> None:
    """The T backward passes that gradient_flow makes unnecessary; they would not even give the norms at each step."""
    cell, x = model.network_.stack.cell, x[:, np.newaxis]
    p = {name: array.astype(np.float64) for name, array in model.parameters_.part("layers.0").items()}
    s = cell_forward(cell, x, None, p).s
    for t in range(len(x)):
        direct = np.zeros((t + 1, 1, H))
        direct[t] = 1
        cell_backward(cell, direct, CellTrace(s[:, : t + 2]), x[: t + 1], p)


def main() -> None:
    text = (WORDS * (CHARACTERS // len(WORDS) + 1))[:CHARACTERS]
    model = random_model(text)
    ids = model.vocabulary_.encode(text[: T + 1]).astype(np.int64)
    x, y = ids[:-1], ids[1:]
    flow = best_of(5, lambda: gradient_flow(model.network_, model.parameters_, x, y))
    print(f"gradient flow, T = {T}, H = {H}: {flow:.3f} s (aim: under 2)")
    one_backward_a_loss(model, x)  # compiles the kernels if they are not in the cache
    print(f"one backward pass per loss: {best_of(3, lambda: one_backward_a_loss(model, x)):.3f} s")
    start = time.perf_counter()
    reading = read_text(model, text)
    read = time.perf_counter() - start
    rank_units(reading)
    whole = time.perf_counter() - start
    print(f"{H} units ranked over {CHARACTERS:,} characters: {whole:.1f} s, {read:.1f} of it reading (aim: under 10)")


if __name__ == "__main__":
    main()
