"""elman show: what a run is and how it went."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

from elman.cli.curve import curve
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
        from elman.training import Run

        run = Run(self.run_folder)
        config, vocabulary = config_of(run), vocabulary_of(run)
        network, training, corpus = config.network, config.training, run.config.get("corpus") or {}
        rows = [row for row in run.metrics() if "event" not in row]
        facts = {
            "text": f"{corpus.get('name', 'unknown')}, {corpus.get('tokens', 0):,} {config.data.tokens} tokens, "
            f"{len(vocabulary)} different",
            "network": f"{network.layers} × {network.hidden} {network.activation}, dropout {network.dropout:g}, "
            f"{network.precision}",
            "training": f"{training.optimiser}, rate {training.learning_rate:g} ({training.schedule}), "
            f"batch {run.config.get('batch', training.batch)} × window {training.window}, "
            f"reach {training.k2}, seed {training.seed}",
            "progress": _progress(run.config, rows),
            "best": _best(rows),
            "rolled back": str(sum(row.get("event") == "rolled back" for row in run.metrics())) + " times",
        }
        width = max(map(len, facts))
        for name, fact in facts.items():
            console.print(f"{name:>{width}}  {fact}", markup=False)
        train = [(row["step"], row["loss"]) for row in rows if row.get("loss") is not None]
        held = [(row["step"], row["validation_loss"]) for row in rows if row.get("validation_loss") is not None]
        if len(train) > 1:
            console.print()
            console.print(curve({"training": train, "validation": held}), markup=False)
        return 0


def _progress(config: dict[str, Any], rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "no row of metrics yet"
    step, epoch, seconds = (rows[-1].get(name) or 0 for name in ("step", "epoch", "seconds"))
    return f"step {step} of {config.get('steps', '?')}, epoch {epoch:.1f}, {seconds:.0f} s"


def _best(rows: list[dict[str, Any]]) -> str:
    held = [(row["validation_loss"], row["step"]) for row in rows if row.get("validation_loss") is not None]
    return f"{min(held)[0]:.4f} nats a token on validation, at step {min(held)[1]}" if held else "not validated yet"
