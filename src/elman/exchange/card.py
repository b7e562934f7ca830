"""A model card in Hugging Face's layout: README.md and a plot of the loss, in the run folder."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from elman.errors import CheckpointError, ElmanError, RunError, option
from elman.exchange.cells import unit_kind
from elman.files import read_regular
from elman.look.history import is_number
from elman.models import LanguageModel, runs
from elman.models.evaluation import evaluate_text
from elman.training.arrays import read_arrays
from elman.training.metrics import UNITS, kept_rows
from elman.training.run import Run
from elman.training.storage import write_file

README, CURVE = "README.md", "curve.svg"
MARK = "<!-- made by elman card -->"
MAX_CARD = 1 << 24  # bytes


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


class Figures(NamedTuple):
    """Results on one part of the data."""

    part: str  # validation or test
    tokens: int | None  # only for language models
    values: Mapping[str, float]  # by the unit of the loss, or the name of the measure


def write_card(
    run: str | Path, *, seed: int = 0, length: int = 500, temperature: float = 0.8, force: bool = False
) -> list[Path]:
    """Write a model card into a run folder: README.md and, if the metrics have losses of two steps or more, curve.svg.

    The card says what the model is, how good it is, what it was trained on and how to use it; that of a language model
    shows a sample. The front matter follows Hugging Face's format, so that the folder can be uploaded.

    Parameters
    ----------
    run : str or Path
        The run folder.
    seed, length, temperature : int, int, float
        Options of the sample; its length is in tokens.
    force : bool
        Replace a README.md or curve.svg that `write_card` did not write.

    Returns
    -------
    list of Path
        The files written.

    Examples
    --------
    >>> import elman
    >>> from elman.exchange import write_card
    >>> model = elman.LanguageModel(hidden=8, steps=5).fit("hello world\\n" * 40, listeners=[])
    >>> folder = model.save("runs/hello")
    >>> [path.name for path in write_card("runs/hello")]
    ['README.md']
    """
    opened = Run(Path(run))
    task_name = str(opened.config.get("task"))
    if task_name not in TASKS:
        raise RunError(
            f"{opened.path}",
            expected=f"a run with one of the tasks {', '.join(TASKS)}",
            got=repr(opened.config.get("task")),
        )
    task, unit = TASKS[task_name], UNITS[task_name]
    for name in (README, CURVE):
        _refuse_foreign(opened.path / name, force=force)
    if not (opened.path / "model.safetensors").is_file():
        raise RunError(f"{opened.path} has no model yet", do=f"elman train --resume {opened.path} continues it.")
    size = sum(array.size for array in read_arrays(opened.path / "model.safetensors").values())
    rows = kept_rows(opened.metrics())
    picture = curve(rows, f"Loss, {unit}, over steps")
    language = task_name == "lm"
    figures = (_language_figures(opened) if language else []) or _logged_figures(rows, unit)
    name = opened.path.resolve().name
    sections = [
        f"# {plain(name)}\n\n{_kind(opened)} that {task.description}: {_network(opened, size)}.",
        _data(opened),
        _results(figures, picture is not None),
        _language_sample(opened, seed=seed, length=length, temperature=temperature) if language else "",
        _use(opened, seed, length, temperature) if language else _use_sequences(opened),
        _training(opened, rows),
    ]
    head = front_matter(_front_fields(name, opened, task, unit, figures))
    text = "\n".join([f"{head}{MARK}\n", *(f"{section}\n" for section in sections if section)])
    files = {CURVE: picture.replace("\n", f"\n{MARK}\n", 1)} if picture else {}
    for file, content in {**files, README: text}.items():
        write_file(opened.path / file, content.encode("utf-8", "replace"))
    return [opened.path / file for file in (README, *files)]


def _refuse_foreign(path: Path, *, force: bool) -> None:
    """Raise RunError for a file that elman card did not write, unless force is set."""
    if path.is_dir():
        raise RunError(f"{path} is a folder")
    if force or not os.path.lexists(path):
        return
    try:
        made = MARK.encode() in read_regular(path, MAX_CARD)
    except OSError:  # too large, a link, a pipe
        made = False
    if not made:
        raise RunError(f"{path} was not made by elman card", do=f"{option('force', True)} replaces it.")


def _logged_figures(rows: Sequence[Mapping[str, Any]], unit: str) -> list[Figures]:
    """The best validation loss in metrics.jsonl, which is that of the saved model."""
    validated = [row for row in rows if is_number(row.get("validation_loss"))]
    if not validated:
        return []
    best = min(validated, key=lambda row: row["validation_loss"])
    accuracy = {"accuracy": best["validation_accuracy"]} if is_number(best.get("validation_accuracy")) else {}
    return [Figures("validation", None, {unit: best["validation_loss"], **accuracy})]


def _front_fields(name: str, run: Run, task: Task, unit: str, figures: list[Figures]) -> dict[str, object]:
    kinds = {
        unit: "loss",
        "perplexity": "perplexity",
        "bits per character": "bits_per_character",
        "accuracy": "accuracy",
    }
    data = _data_record(run).get("name")
    results = [
        {
            "task": {"type": task.pipeline or task.tag},
            "dataset": {"name": data if isinstance(data, str) and data else "unnamed", "type": "text", "split": f.part},
            "metrics": [
                {"type": kinds[name], "name": name, "value": round(value, 4)}
                for name, value in f.values.items()
                if name in kinds and is_number(value)
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


def _data_record(run: Run) -> dict[str, Any]:
    """The description of the data in config.json."""
    found = run.config.get("data")
    return found if isinstance(found, dict) else {}


def _data(run: Run) -> str:
    record = _data_record(run)
    counts = {name: f"{record[name]:,}" for name in ("tokens", "characters", "examples") if is_number(record.get(name))}
    facts = {name: record[name] for name in ("name", "sha256") if isinstance(record.get(name), str)} | counts
    if not facts:
        return "## Data\n\nThe training data are not recorded."
    options = _config(run)
    fractions = {what: options.get(f"{what}_fraction") for what in ("validation", "test")}
    held = {f"held out for {what}": f"{f:.0%}" for what, f in fractions.items() if f and is_number(f)}
    note = "No license is stated here: it depends on the data."
    return f"## Data\n\n{table({**facts, **held})}\n\n{note}"


def _results(figures: list[Figures], drawn: bool) -> str:
    image = f"![Loss over training steps]({CURVE})" if drawn else ""
    if not figures:
        why = "nothing was held out, or the data are missing or have changed"
        return f"## Results\n\nNot measured: {why}.\n\n{image}".strip()
    units = list(figures[0].values)
    counted = any(f.tokens is not None for f in figures)  # only for language models
    head = f"| part |{' tokens |' * counted} {' | '.join(units)} |\n|---|{'--:|' * (counted + len(units))}"
    lines = [
        f"| {f.part} |{f' {f.tokens:,} |' if f.tokens is not None else '  |' * counted} "
        + " | ".join(f"{value:.4f}" for value in f.values.values())
        + " |"
        for f in figures
    ]
    return "\n".join(["## Results\n", head, *lines, "", image]).strip()


def _use(run: Run, seed: int, length: int, temperature: float) -> str:
    name = run.path.resolve().name
    where = quote(name)
    commands = [
        f"elman sample {where} --seed {seed} --length {length} --temperature {temperature}   # the text above",
        f"elman show {where}",
        f"elman export {where} --to html   # a page that runs the model in any browser",
    ]
    code = f"from elman import LanguageModel\n\nmodel = LanguageModel.load({name!r})\nprint(model.sample(300))"
    return f"{_INSTALLED}\n\n{fenced(chr(10).join(commands), 'sh')}\n\n{fenced(code, 'python')}"


def _use_sequences(run: Run) -> str:
    name = run.path.resolve().name
    commands = f"elman predict {quote(name)}   # reads standard input; see elman predict --help"
    code = f"from elman import load_model\n\nmodel = load_model({name!r})\nprint(model)"
    return f"{_INSTALLED}\n\n{fenced(commands, 'sh')}\n\n{fenced(code, 'python')}"


_INSTALLED = "## Use\n\nWith Elman installed, in the folder that contains this one:"


def _training(run: Run, rows: Sequence[Mapping[str, Any]]) -> str:
    training, environment = _config(run), run.config.get("environment")
    windows = ("window",) if run.config["task"] == "lm" else ()  # other tasks have no window
    wanted = ("optimizer", "learning_rate", "schedule", "batch_size", *windows, "clip_norm", "seed")
    # the batch size of the run is smaller than the option if the text is short
    used = {"batch_size": run.config.get("batch_size", training.get("batch_size"))}
    facts = {name.replace("_", " "): {**training, **used}[name] for name in wanted if name in training}
    if rows:
        seconds = rows[-1].get("seconds")
        facts["steps"] = rows[-1]["step"]
        facts |= {"seconds": round(seconds)} if seconds is not None and is_number(seconds) else {}
    known = ("elman", "numpy", "numba", "python", "kernels", "cpu")
    facts |= {name: environment[name] for name in known if name in environment} if isinstance(environment, dict) else {}
    return f"## Training\n\n{table(facts)}\n\nAll options are in `config.json`."


def _kind(run: Run) -> str:
    return KINDS.get(str(_config(run).get("cell")), "A recurrent network")


def _network(run: Run, size: int) -> str:
    network = _config(run)
    if not {"layers", "hidden", "activation"} <= set(network):
        raise CheckpointError(f"{run.path / 'config.json'} is damaged: it does not describe the network")
    units = unit_kind(network.get("cell"), network["activation"])
    shape = f"{network['layers']} × {network['hidden']} {units} units"
    return plain(f"{shape}, {size:,} parameters, {network.get('dtype', 'float32')}")


def _config(run: Run) -> dict[str, Any]:
    config = run.config.get("config")
    return config if isinstance(config, dict) else {}


# -- language models --------------------------------------------------------------------------------------------------


def _language_figures(run: Run) -> list[Figures]:
    """Results on the held-out parts; empty if the text is missing or has changed."""
    try:
        setup = runs.open_text_setup(run)
    except (ElmanError, OSError):
        return []
    _, fitted = runs.load(run.path, "lm")
    corpus, found = setup.corpus, []
    for part, ids in (("validation", setup.validation), ("test", setup.split.test)):
        if len(ids) < 2:
            continue
        characters = round(len(ids) * corpus.characters / len(corpus.ids))  # estimated from the whole text
        e = evaluate_text(fitted.head_network, fitted.parameters, ids, characters)
        values = {
            "nats per token": e.nats_per_token,
            "bits per token": e.bits_per_token,
            "bits per character": e.bits_per_character,
            "perplexity": e.perplexity,
        }
        found.append(Figures(part, e.tokens, values))
    return found


def _language_sample(run: Run, *, seed: int, length: int, temperature: float) -> str:
    model = LanguageModel.load(run.path)
    text = model.sample(length, seed=seed, temperature=temperature)
    try:
        copied = f"Of this sample, {plain(str(model.copies(text)))}."
    except (ElmanError, OSError):
        copied = "How much of it is copied is unknown: the training text is missing or has changed."
    return f"## A sample\n\nTemperature {temperature:g}, seed {seed}:\n\n{fenced(text, 'text')}\n\n{copied}"


# -- Markdown ---------------------------------------------------------------------------------------------------------


def front_matter(fields: Mapping[str, object]) -> str:
    """The YAML front matter, written as JSON, which is valid YAML; characters that cannot be printed are left out."""
    text = json.dumps(fields, ensure_ascii=False, allow_nan=False, indent=1)
    return f"---\n{''.join(c for c in text if c.isprintable() or c == chr(10))}\n---\n"


def plain(text: str) -> str:
    """Text with the characters escaped that Markdown and HTML interpret."""
    return re.sub(r"([\\`*_\[\]<>|#&])", r"\\\1", "".join(c for c in text if c.isprintable()))


def fenced(text: str, kind: str) -> str:
    """A code block; characters that cannot be printed are replaced, except newlines and tabs."""
    shown = "".join(c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text)
    fence = "`" * (1 + max(map(len, re.findall("`+", f"{shown} ``"))))  # longer than any inside, at least three
    return f"{fence}{kind}\n{shown}\n{fence}"


def table(facts: Mapping[str, object]) -> str:
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {plain(str(value))} |" for name, value in facts.items())])


# -- the loss as SVG --------------------------------------------------------------------------------------------------


LEFT, TOP, WIDTH, HEIGHT = 60, 34, 560, 260
COLORS = {"loss": "#1f5fa8", "validation_loss": "#c0392b"}
NAMES = {"loss": "training", "validation_loss": "validation"}
MAX_POINTS = 600  # of a line; more would not be visible


def curve(rows: Sequence[Mapping[str, Any]], title: str) -> str | None:
    """Training and validation loss over steps as SVG; None if the rows have losses of fewer than two steps."""
    lines = {name: _thinned([(row["step"], row[name]) for row in rows if is_number(row.get(name))]) for name in COLORS}
    points = [point for line in lines.values() for point in line]
    steps, losses = [step for step, _ in points], [loss for _, loss in points]
    if len(set(steps)) < 2:
        return None
    first, last, low, high = min(steps), max(steps), min(losses), max(losses)
    high = high if high > low else low + 1

    def place(step: float, loss: float) -> tuple[float, float]:
        return LEFT + WIDTH * (step - first) / (last - first), TOP + HEIGHT * (high - loss) / (high - low)

    parts = [_text(LEFT, 20, title, "start")]
    for i in range(5):
        loss = low + (high - low) * i / 4
        _, y = place(first, loss)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{LEFT + WIDTH}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(_text(LEFT - 8, y + 4, f"{loss:.3g}", "end"))
        step = first + (last - first) * i / 4
        parts.append(_text(place(step, low)[0], TOP + HEIGHT + 20, f"{step:.0f}"))
    for i, (name, line) in enumerate(lines.items()):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in line))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{COLORS[name]}" stroke-width="2"/>')
        if line:
            parts.append(_text(LEFT + WIDTH - 110 * (1 - i), 20, NAMES[name], "end", COLORS[name]))
    size = f'viewBox="0 0 {LEFT + WIDTH + 30} {TOP + HEIGHT + 34}" width="{LEFT + WIDTH + 30}"'
    style = 'font-family="sans-serif" font-size="12"'
    body = "\n".join(parts)
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>\n{_BACKGROUND}\n{body}\n</svg>\n'


_BACKGROUND = '<rect width="100%" height="100%" fill="#fff"/>'


def _text(x: float, y: float, text: str, anchor: str = "middle", color: str = "#333") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" fill="{color}">{text}</text>'


def _thinned(line: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most MAX_POINTS + 1 points of a line, with the first and the last."""
    every = -(-len(line) // MAX_POINTS) or 1
    return line if every == 1 else [*line[:-1:every], line[-1]]
