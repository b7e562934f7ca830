"""The report of a sweep: one HTML file with its history, the importance of each option, and every trial."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from typing import Any

from elman.errors import MissingExtraError
from elman.look.page import Page, card, tiles
from elman.models.sweep_study import loss_of

BLUE = "#4a7be0"  # visible on light and on dark
NAMES = {  # labels that replace those of Optuna
    "Best Value": "best so far",
    "Hyperparameter": "",
    "Hyperparameter Importance": "share",
    "Intermediate Value": "nats per token",
    "Step": "validation",
    "Trial": "trial",
}
# labels of trials that were not trained to the end, by why they ended
OUTCOMES = {"pruned": "pruned", "diverged": "diverged", "impossible": "not possible"}


def sweep_html(name: str, study: Any, finished: Sequence[Any]) -> str:
    """The page of a sweep; `finished` are its trials, the best first."""
    page = Page(f"{name}: a sweep")
    done = [trial for trial in finished if trial.user_attrs.get("why") == "done"]
    page.add(
        f'<header><div><p class="eyebrow">A sweep</p><h1>{escape(name)}</h1></div>'
        '<button class="theme" type="button">Dark</button></header>'
    )
    figures = {"trials": str(len(finished)), "trained to the end": str(len(done))}
    if done:
        figures = {"nats per token: the best validation loss": f"{loss_of(done[0]):.4f}", **figures}
    page.add(tiles(figures))
    for title, note, draw in _figures():
        figure = _drawn(draw, study) if len(done) > 1 else None
        if figure is not None:
            page.add(page.figure(figure, title, note, wide=True))
    page.add(card(f"<h3>All trials</h3>{_table(finished)}"))
    page.add("<footer>Made by Elman and Optuna. This file is self-contained: it opens offline.</footer>")
    return page.html()


def _figures() -> list[tuple[str, str, Callable[..., Any]]]:
    try:
        from optuna import visualization
    except ImportError:
        raise MissingExtraError("Sweeps need Optuna", do="Install it: pip install 'elman[sweep]'") from None
    draw: Any = visualization
    named = {"target_name": "nats per token"}
    history, together = draw.plot_optimization_history, draw.plot_parallel_coordinate
    return [
        ("History", "Each point is a trial; the line is the best so far.", partial(history, **named)),
        ("Importance", "The share of the differences in loss that each option explains.", draw.plot_param_importances),
        ("Options together", "A line is a trial; the darker it is, the better the trial.", partial(together, **named)),
        ("Options one by one", "Validation loss against each option.", partial(_slices, draw.plot_slice)),
        ("Pruning", "Validation loss of each trial at its validations.", draw.plot_intermediate_values),
    ]


def _drawn(draw: Callable[..., Any], study: Any) -> Any | None:
    """The figure, or None if Optuna cannot draw it: the importance of options if all losses are equal, for example."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # most warn that a feature of Optuna is experimental
            figure = draw(study)
    except (ValueError, RuntimeError, ZeroDivisionError):
        return None
    figure.update_layout(title=None, template=None, width=None, height=figure.layout.height or 420)
    for axis in (*figure.select_xaxes(), *figure.select_yaxes()):
        axis.title.text = NAMES.get(axis.title.text, axis.title.text)
    for trace in figure.data:
        trace.name = NAMES.get(trace.name, trace.name)
        if str(trace.line.color if trace.type == "scatter" else "").startswith("rgb("):
            trace.line = {"color": _darker(trace.line.color), "width": 2}
    return figure


def _darker(color: str) -> str:
    """A darker color, so that the worst trial is not white on a white background."""
    return f"rgb({', '.join(f'{0.75 * float(part):.0f}' for part in color[4:-1].split(','))})"


def _slices(draw: Callable[..., Any], study: Any) -> Any:
    """The slice plot in one color instead of Optuna's colors by trial number."""
    return draw(study, target_name="nats per token").update_traces(marker={"color": BLUE, "showscale": False})


def _table(finished: Sequence[Any]) -> str:
    names = list(dict.fromkeys(name for trial in finished for name in trial.params))
    head = "".join(
        f"<th>{escape(name)}</th>" for name in ("trial", "nats per token", *names, "", "to repeat it: elman train …")
    )
    rows = []
    for trial in finished:
        loss = loss_of(trial)
        values = [trial.params.get(name, "") for name in names]
        cells = [
            str(trial.number),
            f"{loss:.4f}" if loss < float("inf") else "–",
            *(f"{value:.4g}" if isinstance(value, float) else str(value) for value in values),
            OUTCOMES.get(trial.user_attrs.get("why", ""), ""),
        ]
        words = f"<td><code>{escape(trial.user_attrs.get('flags', ''))}</code></td>"
        rows.append("".join(f"<td>{escape(cell)}</td>" for cell in cells) + words)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
