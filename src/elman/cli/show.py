"""elman show: what a run is and how it went."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from elman.cli.curve import Points, curve
from elman.cli.say import console


@dataclass(frozen=True)
class Show:
    """What a run is, how it went, and its loss as a curve.

    For instance:
        elman show runs/pride-and-prejudice
    """

    run_folder: tyro.conf.Positional[Path]  # a run made by elman train

    def run(self) -> int:
        from elman.models.language_run import config_of, vocabulary_of
        from elman.training.run import Run

        run = Run(self.run_folder)
        config, vocabulary = config_of(run), vocabulary_of(run)
        network, training, corpus = config.network, config.training, run.config.get("corpus")
        name, tokens = (corpus.get(fact) if isinstance(corpus, dict) else None for fact in ("name", "tokens"))
        read = f"{name}, {tokens:,}" if _is_number(tokens) else "unknown,"
        rows = _kept(run.metrics())
        train, held = _points(rows, "loss"), _points(rows, "validation_loss")
        facts = {
            "text": f"{read} {config.data.tokens} tokens, {len(vocabulary)} different",
            "network": f"{network.layers} × {network.hidden} {network.activation}, dropout {network.dropout:g}, "
            f"{network.precision}",
            "training": f"{training.optimiser}, rate {training.learning_rate:g} ({training.schedule}), "
            f"batch {run.config.get('batch', training.batch)} × window {training.window}, "
            f"reach {training.k2}, seed {training.seed}",
            "progress": _progress(run.config, rows),
            "best": _best(held),
            "rolled back": str(sum(row.get("event") == "rolled back" for row in run.metrics())) + " times",
        }
        width = max(map(len, facts))
        for name, fact in facts.items():
            console.print(f"{name:>{width}}  {fact}", markup=False)
        if len(train) > 1:
            console.print()
            console.print(curve({"training": train, "validation": held}), markup=False)
        return 0


def _kept(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of steps that count: what came after the point to which a run was rolled back is gone."""
    kept: list[dict[str, Any]] = []
    for row in rows:
        if row.get("event") == "rolled back" and _is_number(row.get("to")):
            kept = [earlier for earlier in kept if earlier["step"] <= row["to"]]
        elif "event" not in row and _is_number(row.get("step")):
            kept.append(row)
    return kept


def _progress(config: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "no row of metrics yet"
    step, epoch, seconds = (rows[-1].get(name) for name in ("step", "epoch", "seconds"))
    shown = f"step {step} of {config.get('steps', '?')}"
    return f"{shown}, epoch {epoch:.1f}, {seconds:.0f} s" if _is_number(epoch) and _is_number(seconds) else shown


def _best(held: Points) -> str:
    if not held:
        return "not validated yet"
    step, loss = min(held, key=lambda point: point[1])
    return f"{loss:.4f} nats a token on validation, at step {step}"


def _points(rows: list[dict[str, Any]], name: str) -> Points:
    return [(row["step"], row[name]) for row in rows if _is_number(row.get(name))]


def _is_number(value: object) -> bool:
    """A file may hold anything."""
    return isinstance(value, int | float) and abs(value) < 2**53
