"""The attention weights of a translator, between each target token and each source token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from elman.data.inputs import TokenInputs
from elman.errors import ArgumentError, DataError
from elman.maths.arrays import Array
from elman.models.predictors import TranslatingPredictor
from elman.network import EncoderDecoder

END = "(end)"


@dataclass(frozen=True, eq=False, repr=False)
class AttentionMap:
    """The attention weights for one sequence: T source tokens, S target tokens with the end token.

    Attributes
    ----------
    source : tuple of str, length T
        The source tokens in the order of the text; the numbers of the steps if the source is numbers.
    target : tuple of str, length S
        The target tokens, and "(end)" as the last one.
    alpha : ndarray, shape (S, T)
        The attention weights of the decoder step that predicts each target token; each row sums to 1.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    alpha: Array

    def __repr__(self) -> str:
        pairs = zip(self.target, self.alpha.argmax(axis=1), strict=True)
        best = [f"{token.strip()} ← {self.source[j].strip()}" for token, j in pairs]
        return f"<AttentionMap: {', '.join(best)}>"

    def figure(self) -> Any:
        """A heat map, one row for each target token (plotly)."""
        import plotly.graph_objects as go

        from elman.look.theme import figure, visible

        rows, columns = ([visible(token) for token in tokens] for tokens in (self.target, self.source))
        heatmap = go.Heatmap(
            z=self.alpha.astype(np.float32),
            text=[[f"“{target}” ← “{source}”" for source in columns] for target in rows],
            coloraxis="coloraxis",
            hovertemplate="%{text}: %{z:.3f}<extra></extra>",
        )
        return figure(
            [heatmap],
            x="source",
            y="target",
            height=150 + 26 * len(rows),
            coloraxis={"cmin": 0, "cmax": 1, "colorbar": {"title": {"text": "alpha"}}},
            x_tickvals=list(range(len(columns))),
            x_ticktext=columns,
            y_tickvals=list(range(len(rows))),
            y_ticktext=rows,
            y_autorange="reversed",
        )


def attention_map(model: TranslatingPredictor, sequence: Any, target: Any = None) -> AttentionMap:
    """The attention weights of a translator for one source.

    Parameters
    ----------
    model : Seq2Seq
        A fitted model with attention="dot" or "additive".
    sequence : str, list of str, or array of numbers
        One source, as in training.
    target : str or list of str, optional
        The target; the model's prediction unless given.

    Returns
    -------
    AttentionMap
        Tokens and weights; `figure()` draws them.

    Examples
    --------
    >>> from elman import Seq2Seq, look
    >>> options = {"hidden": 8, "attention": "dot", "epochs": 1}
    >>> model = Seq2Seq(**options).fit(["ab", "ba"] * 10, ["BA", "AB"] * 10, listeners=[])
    >>> found = look.attention_map(model, "ab", "BA")
    >>> found.target, found.alpha.shape
    (('B', 'A', '(end)'), (3, 2))
    """
    fitted = model._fitted_model()
    network = fitted.network
    if not isinstance(network, EncoderDecoder) or network.attention is None:
        raise ArgumentError(
            "model", expected="a translator with attention", got=f"{type(model).__name__} without attention",
            do='Train one with attention="dot".',
        )  # fmt: skip
    x = model._encoded([sequence])
    if not x.lengths[0]:
        raise DataError("the sequence", expected="at least one token", got="none")
    ids = model.symbols_.encode(target) if target is not None else model.predict_ids([sequence])[0]
    rows = np.array([0])
    padded = x.padded(rows)
    read = padded.astype(fitted.parameters.buffer.dtype if padded.dtype.kind == "f" else np.int64)
    y = np.asarray(ids, np.int64)[:, np.newaxis]  # (S-1, 1), without the end
    alpha = network.attention_weights(network.pack(fitted.parameters), read, x.lengths, y)[:, :, 0]
    inputs = fitted.spec.inputs
    if isinstance(inputs, TokenInputs):
        source = [inputs.symbols.tokens[i] for i in x.values]
    else:
        source = [str(step) for step in range(len(alpha[0]))]
    targets = [model.symbols_.tokens[i] for i in ids]
    return AttentionMap(tuple(source), (*targets, END), alpha)
