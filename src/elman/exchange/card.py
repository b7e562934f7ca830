"""A model card: README.md in the run folder, in Hugging Face's layout. The folder is then ready to be given away."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from elman.errors import CheckpointError, RunError
from elman.exchange.card_language import Figures, language_figures, language_sample
from elman.exchange.cells import unit_kind
from elman.exchange.curve import curve
from elman.exchange.front_matter import front_matter
from elman.exchange.markdown import fenced, plain, table
from elman.files import read_regular
from elman.look.history import is_number, kept
from elman.training.arrays import read_arrays
from elman.training.run import Run
from elman.training.storage import write_file

README, CURVE = "README.md", "curve.svg"
MARK = "<!-- made by elman card -->"
MOST_CARD = 1 << 24  # bytes


class Task(NamedTuple):
    what: str  # a sentence about such a model
    tag: str
    pipeline: str | None  # Hugging Face's name for it, where it has one
    unit: str  # of the loss


TASKS = {
    "lm": Task("writes on, one token after the other", "language-model", "text-generation", "nats a token"),
    "classify": Task(
        "says to which class a sequence belongs", "classification", "text-classification", "nats a sequence"
    ),
    "regress": Task("says a number for a sequence", "regression", None, "squared error"),
    "tag": Task("says a tag for every step of a sequence", "tagging", "token-classification", "nats a step"),
    "generate": Task("writes a sequence that fits what it is given", "generation", "text-generation", "nats a token"),
    "translate": Task("turns a sequence into another one", "sequence-to-sequence", "translation", "nats a token"),
}


_KINDS = {"rnn": "An Elman network (vanilla RNN)", "gru": "A GRU network", "lstm": "An LSTM network"}


def write_card(
    run_path: Path, *, seed: int = 0, length: int = 500, temperature: float = 0.8, force: bool = False
) -> list[Path]:
    """README.md and, where the run has a history, curve.svg beside it; the paths of what was written."""
    run = Run(run_path)
    task = TASKS.get(str(run.config.get("task")))
    if task is None:
        raise RunError(f"{run.path}", expected=f"a run to {', '.join(TASKS)}", got=repr(run.config.get("task")))
    for name in (README, CURVE):
        _refuse_foreign(run.path / name, force=force)
    if not (run.path / "model.safetensors").is_file():
        raise RunError(f"{run.path} has no model yet", do=f"elman train --resume {run.path} goes on with it.")
    size = sum(array.size for array in read_arrays(run.path / "model.safetensors").values())
    rows = kept(run.metrics())
    picture = curve(rows, f"Loss, {task.unit}, over steps")
    language = run.config["task"] == "lm"
    figures = (language_figures(run) if language else []) or _recorded(rows, task)
    name = run.path.resolve().name
    sections = [
        f"# {plain(name)}\n\n{_kind(run)} that {task.what}: {_network(run, size)}.",
        _data(run),
        _judged(figures, task, picture is not None),
        language_sample(run, seed=seed, length=length, temperature=temperature) if language else "",
        _use(run, seed, length, temperature) if language else _use_sequences(run),
        _training(run, rows),
    ]
    head = front_matter(_front(name, run, task, figures))
    text = "\n".join([f"{head}{MARK}\n", *(f"{section}\n" for section in sections if section)])
    files = {CURVE: picture.replace("\n", f"\n{MARK}\n", 1)} if picture else {}
    for file, content in {**files, README: text}.items():
        write_file(run.path / file, content.encode("utf-8", "replace"))
    return [run.path / file for file in (README, *files)]


def _refuse_foreign(path: Path, *, force: bool) -> None:
    """What a person has written is not replaced unless that is asked for."""
    if path.is_dir():
        raise RunError(f"{path} is a folder")
    if force or not os.path.lexists(path):
        return
    try:
        made = MARK.encode() in read_regular(path, MOST_CARD)
    except OSError:  # too large, a link, a pipe
        made = False
    if not made:
        raise RunError(f"{path} was not made by elman card", do="--force replaces it.")


def _recorded(rows: Sequence[Mapping[str, Any]], task: Task) -> list[Figures]:
    """The best validation loss that the run noted, which is that of the model that it kept."""
    judged = [row for row in rows if is_number(row.get("validation_loss"))]
    if not judged:
        return []
    best = min(judged, key=lambda row: row["validation_loss"])
    accuracy = {"accuracy": best["validation_accuracy"]} if is_number(best.get("validation_accuracy")) else {}
    return [Figures("validation", None, {task.unit: best["validation_loss"], **accuracy})]


def _front(name: str, run: Run, task: Task, figures: list[Figures]) -> dict[str, object]:
    kinds = {
        task.unit: "loss",
        "perplexity": "perplexity",
        "bits a character": "bits_per_character",
        "accuracy": "accuracy",
    }
    data = _record(run).get("name")
    results = [
        {
            "task": {"type": task.pipeline or task.tag},
            "dataset": {"name": data if isinstance(data, str) and data else "unnamed", "type": "text", "split": f.part},
            "metrics": [
                {"type": kinds[unit], "name": unit, "value": round(value, 6)}
                for unit, value in f.values.items()
                if unit in kinds and is_number(value)
            ],
        }
        for f in figures
    ]
    return {
        "library_name": "elman",
        **({"pipeline_tag": task.pipeline} if task.pipeline else {}),
        "tags": ["elman", "rnn", task.tag],
        **({"model-index": [{"name": name, "results": results}]} if results else {}),
    }


def _record(run: Run) -> dict[str, Any]:
    """What config.json says of the data."""
    found = run.config.get("corpus") or run.config.get("data")
    return found if isinstance(found, dict) else {}


def _data(run: Run) -> str:
    record = _record(run)
    counts = {name: f"{record[name]:,}" for name in ("tokens", "characters", "examples") if is_number(record.get(name))}
    facts = {name: record[name] for name in ("name", "sha256") if isinstance(record.get(name), str)} | counts
    if not facts:
        return "## Data\n\nWhat it learned from is not recorded."
    parts = _part(run, "data")
    shares = {what: parts.get(f"{what}_fraction") for what in ("validation", "test")}
    held = {f"held out for {what}": f"{share:.0%}" for what, share in shares.items() if share and is_number(share)}
    note = "No licence is stated here: it depends on the data."
    return f"## Data\n\n{table({**facts, **held})}\n\n{note}"


def _judged(figures: list[Figures], task: Task, drawn: bool) -> str:
    image = f"![The loss over the steps of training]({CURVE})" if drawn else ""
    if not figures:
        return (
            f"## Figures\n\nIt was not measured: nothing was held out, or the data are not at hand.\n\n{image}".strip()
        )
    units = list(figures[0].values)
    counted = any(f.tokens is not None for f in figures)  # of a model of whole sequences none are
    head = f"| part |{' tokens |' * counted} {' | '.join(units)} |\n|---|{'--:|' * (counted + len(units))}"
    lines = [
        f"| {f.part} |{f' {f.tokens:,} |' if f.tokens is not None else '  |' * counted} "
        + " | ".join(f"{value:.4f}" for value in f.values.values())
        + " |"
        for f in figures
    ]
    return "\n".join(["## Figures\n", head, *lines, "", image]).strip()


def _use(run: Run, seed: int, length: int, temperature: float) -> str:
    name = run.path.resolve().name
    where = quote(name)
    commands = [
        f"elman sample {where} --seed {seed} --length {length} --temperature {temperature}   # the text above",
        f"elman show {where}",
        f"elman export {where} --to html   # a page that writes in any browser",
    ]
    code = f"from elman import LanguageModel\n\nmodel = LanguageModel.load({name!r})\nprint(model.sample(300))"
    return f"{_INSTALLED}\n\n{fenced(chr(10).join(commands), 'sh')}\n\n{fenced(code, 'python')}"


def _use_sequences(run: Run) -> str:
    name = run.path.resolve().name
    commands = f"elman predict {quote(name)}   # reads standard input; elman predict --help tells more"
    code = f"from elman import load_model\n\nmodel = load_model({name!r})\nprint(model)"
    return f"{_INSTALLED}\n\n{fenced(commands, 'sh')}\n\n{fenced(code, 'python')}"


_INSTALLED = "## Use\n\nWith Elman installed, beside this folder:"


def _training(run: Run, rows: Sequence[Mapping[str, Any]]) -> str:
    training, made = _part(run, "training"), run.config.get("environment")
    windows = ("window",) if run.config["task"] == "lm" else ()  # others read a sequence whole
    wanted = ("optimizer", "learning_rate", "schedule", "batch_size", *windows, "clip_norm", "seed")
    lanes = {
        "batch_size": run.config.get("batch_size", training.get("batch_size"))
    }  # fewer than asked for where the text is short
    facts = {name.replace("_", " "): {**training, **lanes}[name] for name in wanted if name in training}
    if rows:
        seconds = rows[-1].get("seconds")
        facts["steps"] = rows[-1]["step"]
        facts |= {"seconds": round(seconds)} if seconds is not None and is_number(seconds) else {}
    known = ("elman", "numpy", "numba", "python", "kernels", "cpu")
    facts |= {name: made[name] for name in known if name in made} if isinstance(made, dict) else {}
    return f"## Training\n\n{table(facts)}\n\nAll choices are in `config.json`."


def _kind(run: Run) -> str:
    return _KINDS.get(str(_part(run, "network").get("cell")), "A recurrent network")


def _network(run: Run, size: int) -> str:
    network = _part(run, "network")
    if not {"layers", "hidden", "activation"} <= set(network):
        raise CheckpointError(f"{run.path / 'config.json'} is damaged: it does not describe the network")
    units = unit_kind(network.get("cell"), network["activation"])
    shape = f"{network['layers']} × {network['hidden']} {units} units"
    return plain(f"{shape}, {size:,} parameters, {network.get('dtype', 'float32')}")


def _part(run: Run, name: str) -> dict[str, Any]:
    config = run.config.get("config")
    part = config.get(name) if isinstance(config, dict) else None
    return part if isinstance(part, dict) else {}
