"""A self-contained page of the steps: the unrolled network, every equation, and weights that can be edited.

assets/steps_engine.js computes the network in the browser; tests compare all of its numbers with those of Python.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from elman.look.steps import CLIP_NORM, LEARNING_RATE, steps_data
from elman.models import LanguageModel
from elman.training.storage import write_file

HERE = Path(__file__).parent
SCRIPTS = ("steps_engine.js", "steps_drawing.js", "steps_lab.js")
SHOWN = 8  # maximum number of units, and of tokens, that are listed


@dataclass(frozen=True, eq=False, repr=False)
class StepsPage:
    """A page to step through a network; a notebook displays it.

    Attributes
    ----------
    data : dict
        From `steps_data`.
    """

    data: dict[str, Any]

    def __repr__(self) -> str:
        texts, cell = f"{self.data['input']} → {self.data['target']}", self.data["network"]["cell"]
        return f"<StepsPage: {texts}, {cell}, {len(self.data['steps'])} steps>"

    def _repr_html_(self) -> str:
        page = escape(self.html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width:100%;height:900px;border:0" title="steps"></iframe>'

    def html(self) -> str:
        """The whole page as HTML, self-contained."""
        plain = json.dumps(self.data, allow_nan=False).replace("<", "\\u003c")  # no text can end the script element
        scripts = "\n".join((HERE / "assets" / name).read_text(encoding="utf-8") for name in SCRIPTS)
        page = (HERE / "steps_page.html").read_text(encoding="utf-8")
        return page.replace("/*SCRIPTS*/", scripts).replace("/*DATA*/", plain)

    def save(self, path: str | Path) -> None:
        """Write the page to a file.

        Parameters
        ----------
        path : str or Path
            The file.
        """
        write_file(Path(path), self.html().encode())


def step_through(
    input: str,
    target: str,
    *,
    model: LanguageModel | None = None,
    cell: str = "rnn",
    shown: int | None = SHOWN,
    bptt_steps: int | None = None,
    learning_rate: float = LEARNING_RATE,
    clip_norm: float = CLIP_NORM,
) -> StepsPage:
    """A page with every equation of a short text: step through it, edit weights, train.

    Parameters
    ----------
    input, target : str
        The input of the network, and the target of each step: the same number of tokens.
    model : LanguageModel, optional
        A trained model. Without one the network has three units and random weights from a fixed seed.
    cell : str
        The cell of the network without a model: "rnn", "gru" or "lstm".
    shown : int, optional
        The maximum number of units, of tokens and of embedding entries that are listed; None for all.
    bptt_steps : int, optional
        Backpropagate each loss over at most this many steps (k2, with k1 = 1); over all unless given.
    learning_rate, clip_norm : float
        Of the update, until they are changed on the page; a clip_norm of 0 disables clipping.

    Returns
    -------
    StepsPage
        A notebook displays it; ``save(path)`` writes it.

    Examples
    --------
    >>> step_through("hell", "ello", cell="lstm")
    <StepsPage: hell → ello, lstm, 79 steps>
    """
    data = steps_data(
        input, target, model=model, cell=cell, shown=shown, bptt_steps=bptt_steps,
        learning_rate=learning_rate, clip_norm=clip_norm, parameters=True,
    )  # fmt: skip
    return StepsPage(data)
