"""A model card in Hugging Face's layout: README.md in the run folder, made from the template card.md."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path
from shlex import quote
from string import Template
from typing import NamedTuple

from elman.errors import ElmanError, RunError, option
from elman.exchange.cells import unit_kind
from elman.files import read_regular
from elman.look.history import is_number
from elman.models import LanguageModel, runs
from elman.models.evaluation import Evaluation
from elman.models.fitted import FittedModel
from elman.models.held_out import evaluate_held_out
from elman.training.metrics import UNITS
from elman.training.run import Run
from elman.training.storage import write_file

MARK = b"<!-- made by elman card -->"
MAX_CARD = 1 << 24  # bytes
NOT_MEASURED = "Not measured: nothing was held out."


class Task(NamedTuple):
    """How the card describes a task."""

    description: str  # completes "A network that …"
    tag: str
    pipeline: str | None  # Hugging Face's name of the task; None if it has none


TASKS = {
    "lm": Task("continues a text, token by token", "language-model", "text-generation"),
    "classify": Task("assigns a class to a sequence", "classification", "text-classification"),
    "regress": Task("predicts numbers from a sequence", "regression", None),
    "tag": Task("assigns a tag to every step of a sequence", "tagging", "token-classification"),
    "generate": Task("generates a sequence from a label or from numbers", "generation", "text-generation"),
    "translate": Task("translates a sequence into another one", "sequence-to-sequence", "translation"),
}
KINDS = {"rnn": "An Elman network (vanilla RNN)", "gru": "A GRU network", "lstm": "An LSTM network"}


def write_card(
    run: str | Path, *, seed: int = 0, length: int = 500, temperature: float = 0.8, force: bool = False
) -> Path:
    """Write a model card, README.md, into a run folder.

    The card says what the model is, how good it is, what it was trained on and how to use it; that of a language model
    shows a sample. The front matter follows Hugging Face's format, so that the folder can be uploaded.

    Parameters
    ----------
    run : str or Path
        The run folder.
    seed, length, temperature : int, int, float
        Options of the sample; its length is in tokens.
    force : bool
        Replace a README.md that `write_card` did not write.

    Returns
    -------
    Path
        The file written.

    Examples
    --------
    >>> import elman
    >>> from elman.exchange import write_card
    >>> model = elman.LanguageModel(hidden=8, steps=5).fit("hello world\\n" * 40, listeners=[])
    >>> folder = model.save("runs/hello")
    >>> write_card("runs/hello").name
    'README.md'
    """
    opened, fitted = runs.load(Path(run))
    card = opened.path / "README.md"
    _refuse_foreign(card, force=force)
    name = opened.path.resolve().name
    data = _data(opened, fitted)
    part, scores = _scores(opened, fitted)
    parts = {
        "front_matter": front_matter(TASKS[fitted.spec.task], name, str(data.get("name") or "unnamed"), part, scores),
        "name": plain(name),
        "model": _model(fitted),
        "data": table(data) if data else "The training data are not recorded.",
        "results": f"On the {part} part:\n\n{table(scores)}" if scores else NOT_MEASURED,
        "sample": "",
        "folder": repr(name),
        "commands": f"elman predict {quote(name)}   # reads standard input; see elman predict --help",
        "call": "model",
        "summary": plain(fitted.summary()),
        "training": table(_training(opened, fitted)),
    }
    if fitted.spec.task == "lm":
        where = quote(name)
        parts["sample"] = _sample(opened.path, seed=seed, length=length, temperature=temperature)
        parts["commands"] = (
            f"elman sample {where} --seed {seed} --length {length} --temperature {temperature}   # the text above\n"
            f"elman export {where} --to html   # a page that runs the model in any browser"
        )
        parts["call"] = "model.sample(300)"
    text = Template((files("elman.exchange") / "card.md").read_text("utf-8")).substitute(parts)
    shown = (c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
    write_file(card, "".join(shown).encode())
    return card


def _refuse_foreign(path: Path, *, force: bool) -> None:
    """Raise RunError for a file that elman card did not write, unless force is set."""
    try:
        ours = force or MARK in read_regular(path, MAX_CARD)
    except FileNotFoundError:
        ours = True
    except OSError:  # too large, a folder, a link, a pipe
        ours = False
    if not ours:
        raise RunError(f"{path} was not made by elman card", do=f"{option('force', True)} replaces it.")


def _scores(run: Run, fitted: FittedModel) -> tuple[str, dict[str, float]]:
    """The part of the data of elman eval and the scores on it, or the best validation loss in training."""
    try:
        part, scores = evaluate_held_out(run.path)
    except (ElmanError, OSError):  # there are no data, or they have changed
        losses = [row["validation_loss"] for row in fitted.history if is_number(row.get("validation_loss"))]
        return "validation", {UNITS[fitted.spec.task]: round(min(losses), 4)} if losses else {}
    values = scores._asdict() if isinstance(scores, Evaluation) else asdict(scores)
    return part, {name.replace("_", " "): round(x, 4) for name, x in values.items() if is_number(x)}


def front_matter(task: Task, name: str, data: str, part: str, scores: Mapping[str, float]) -> str:
    """YAML, one entry in a line; its values are JSON, which is valid YAML."""
    result = {
        "task": {"type": task.pipeline or task.tag},
        "dataset": {"name": data, "type": "text", "split": part},
        "metrics": [
            {"type": score.replace(" ", "_"), "name": score, "value": value}
            for score, value in scores.items()
            if isinstance(value, float)  # not a count
        ],
    }
    entries = {
        "library_name": "elman",
        "pipeline_tag": task.pipeline,
        "tags": ["elman", "rnn", task.tag],
        "model-index": [{"name": name, "results": [result]}] if scores else None,
    }
    return "\n".join(f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in entries.items() if value)


def _model(fitted: FittedModel) -> str:
    c, size = fitted.config, fitted.parameters.buffer.size
    units = f"{c.layers} × {c.hidden} {unit_kind(c.cell, c.activation)} units"
    return f"{KINDS[c.cell]} that {TASKS[fitted.spec.task].description}: {units}, {size:,} parameters, {c.dtype}"


def _sample(run: Path, *, seed: int, length: int, temperature: float) -> str:
    model = LanguageModel.load(run)
    text = model.sample(length, seed=seed, temperature=temperature)
    try:
        copied = f"Of this sample, {plain(str(model.copies(text)))}."
    except (ElmanError, OSError):
        copied = "How much of it is copied is unknown: the training text is missing or has changed."
    block = text.replace("\n", "\n    ")
    return f"## A sample\n\nTemperature {temperature:g}, seed {seed}:\n\n    {block}\n\n{copied}\n\n"


def _data(run: Run, fitted: FittedModel) -> dict[str, object]:
    recorded = _recorded(run, "data", ("name", "sha256", "tokens", "characters", "examples"))
    parts = {"validation": fitted.config.validation_fraction, "test": fitted.config.test_fraction}
    held_out: dict[str, object] = {f"held out for {part}": f"{fraction:.0%}" for part, fraction in parts.items()}
    return recorded | held_out if recorded else {}


def _training(run: Run, fitted: FittedModel) -> dict[str, object]:
    windows = ("window",) if fitted.spec.task == "lm" else ()  # other tasks have no window
    names = ("optimizer", "learning_rate", "schedule", "batch_size", *windows, "clip_norm", "seed")
    facts = {name.replace("_", " "): getattr(fitted.config, name) for name in names}
    facts["batch size"] = run.config.get("batch_size", fitted.config.batch_size)  # smaller if the text is short
    return facts | _recorded(run, "environment", ("elman", "numpy", "numba", "python", "kernels", "cpu"))


def _recorded(run: Run, entry: str, names: Iterable[str]) -> dict[str, object]:
    """The values with these names in an entry of config.json."""
    record = run.config.get(entry)
    return {name: record[name] for name in names if name in record} if isinstance(record, dict) else {}


def plain(text: str) -> str:
    """Text with the characters escaped that Markdown and HTML interpret."""
    return re.sub(r"([\\`*_\[\]<>|#&])", r"\\\1", text.replace("\n", " "))


def table(facts: Mapping[str, object]) -> str:
    shown = {name: f"{x:,}" if isinstance(x, int | float) else plain(str(x)) for name, x in facts.items()}
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in shown.items())])
