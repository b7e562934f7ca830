"""Language models whose weights are drawn or planted: they need no training."""

from __future__ import annotations

import numpy as np

from elman.config import Config
from elman.data import CharVocabulary, Vocabulary
from elman.models import LanguageModel
from elman.models.fitted import FittedModel
from elman.models.task_spec import TaskSpec
from elman.network import language_network


def drawn_model(
    vocabulary: Vocabulary,
    *,
    hidden: int = 12,
    layers: int = 1,
    activation: str = "tanh",
    cell: str = "rnn",
    embedding: int = 0,
) -> LanguageModel:
    network = language_network(len(vocabulary), hidden, layers, activation=activation, cell=cell, embedding=embedding)
    rng = np.random.default_rng(0)
    p = network.initial(rng, recurrent="orthogonal", gain=0.9, token_scale=0.7, dtype=np.dtype(np.float64))
    p.buffer += 0.1 * rng.standard_normal(len(p.buffer))
    options = {"hidden": hidden, "layers": layers, "activation": activation, "cell": cell, "dtype": "float64",
               "embedding": embedding}  # fmt: skip
    config = Config().with_options(**options, tokens=vocabulary.kind)
    fitted = FittedModel(TaskSpec.language_model(vocabulary), config, network, p)
    return LanguageModel(hidden=hidden)._set_fitted(fitted)


def quoting_model(text: str, *, unit: int = 7, sign: int = 1, layers: int = 1) -> LanguageModel:
    """In the last layer one unit is a switch: “ turns it on, ” turns it off, and it holds itself in between."""
    model = drawn_model(CharVocabulary(text), layers=layers)
    p, last = model.parameters_, layers - 1
    W_xh, W_hh, b_h = (p[f"layers.{last}.{name}"] for name in ("W_xh", "W_hh", "b_h"))
    if last:  # two units of the layer below report the marks
        below = p["layers.0.W_xh"], p["layers.0.W_hh"], p["layers.0.b_h"]
        for reporter, mark in enumerate("“”"):
            below[0][:, reporter], below[1][:, reporter], below[2][reporter] = 0, 0, -4
            below[0][model.vocabulary_.tokens.index(mark), reporter] = 8
        marks = (0, 1)
    else:
        marks = tuple(model.vocabulary_.tokens.index(mark) for mark in "“”")
    W_xh[:, unit] = W_hh[:, unit] = 0
    W_xh[marks[0], unit], W_xh[marks[1], unit] = 8 * sign, -8 * sign
    W_hh[unit, unit], b_h[unit] = 4, 0
    return model
