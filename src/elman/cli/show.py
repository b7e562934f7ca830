"""elman show: describe a run: its data, network, progress and loss curve."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elman.cli.console import console
from elman.cli.curve import Points, curve
from elman.cli.flags import argument
from elman.config import SEQUENCE_TASKS, Config
from elman.look.history import is_number
from elman.training.metrics import UNITS, kept_rows

if TYPE_CHECKING:
    from elman.training.run import Run


@dataclass(frozen=True)
class Show:
    """Describe a run: its data, network, progress and loss curve.

    For instance:
        elman show runs/pride-and-prejudice
    """

    run_folder: Path = argument("RUN", "a run made by elman train")

    def run(self) -> int:
        from elman.training.run import Run

        run = Run(self.run_folder)
        rows = kept_rows(run.metrics())
        train, validation = _points(rows, "loss"), _points(rows, "validation_loss")
        facts = {
            **(_example_facts(run) if run.config.get("task") in SEQUENCE_TASKS else _text_facts(run)),
            "progress": _progress(run.config, rows),
            "best": _best(validation, dict(_points(rows, "validation_accuracy")), str(run.config.get("task"))),
            "rolled back": str(sum(row.get("event") == "rolled back" for row in run.metrics())) + " times",
        }
        width = max(map(len, facts))
        for name, fact in facts.items():
            console.print(f"{name:>{width}}  {fact}", markup=False)
        if len(train) > 1:
            console.print()
            console.print(curve({"training": train, "validation": validation}), markup=False)
        return 0


def _text_facts(run: Run) -> dict[str, str]:
    from elman.models.runs import read_config, read_spec

    vocabulary, config = read_spec(run, "lm").vocabulary, read_config(run)
    corpus = run.config.get("data")
    name, tokens = (corpus.get(fact) if isinstance(corpus, dict) else None for fact in ("name", "tokens"))
    read = f"{name}, {tokens:,}" if is_number(tokens) else "unknown,"
    return {
        "text": f"{read} {config.tokens} tokens, {len(vocabulary)} different",
        "network": _network(config),
        "training": f"{_optimizer(config)}, batch {run.config.get('batch_size', config.batch_size)} × window "
        f"{config.window}, bptt steps {config.k2}, seed {config.seed}",
    }


def _example_facts(run: Run) -> dict[str, str]:
    from elman.models.runs import read_config, read_spec

    spec, config, data = read_spec(run), read_config(run), run.config.get("data")
    name, examples = (data.get(fact) if isinstance(data, dict) else None for fact in ("name", "examples"))
    read = f"{name}, {examples:,}" if is_number(examples) else "unknown,"
    both = ", bidirectional" if config.bidirectional else ""
    return {
        "task": f"{spec.task}: {spec.n_inputs} inputs, {spec.n_outputs} outputs",
        "data": f"{read} examples",
        "network": f"{_network(config)}{both}",
        "training": f"{_optimizer(config)}, batch {config.batch_size}, seed {config.seed}",
    }


def _network(c: Config) -> str:
    units = c.activation if c.cell == "rnn" else c.cell.upper()
    return f"{c.layers} × {c.hidden} {units} units, dropout {c.dropout:g}, {c.dtype}"


def _optimizer(c: Config) -> str:
    return f"{c.optimizer}, learning rate {c.learning_rate:g} ({c.schedule})"


def _progress(config: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "no metrics yet"
    step, epoch, seconds = (rows[-1].get(name) for name in ("step", "epoch", "seconds"))
    shown = f"step {step} of {config.get('steps', '?')}"
    return f"{shown}, epoch {epoch:.1f}, {seconds:.0f} s" if is_number(epoch) and is_number(seconds) else shown


def _best(validation: Points, accuracy: dict[float, float], task: str) -> str:
    if not validation:
        return "not validated yet"
    step, loss = min(validation, key=lambda point: point[1])
    unit = UNITS[task] if task == "regress" else "nats"
    score = f", accuracy {accuracy[step]:.4f}" if step in accuracy else ""
    return f"{loss:.4f} {unit}{score} on validation, at step {step}"


def _points(rows: list[dict[str, Any]], name: str) -> Points:
    return [(row["step"], row[name]) for row in rows if is_number(row.get(name))]
