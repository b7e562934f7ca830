"""How a training ends for whoever typed the command, and the folder of a new run."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from elman.cli.console import console
from elman.training.events import Finished
from elman.training.metrics import UNITS


def free_folder(parent: Path, name: str) -> Path:
    """runs/NAME, or the first of runs/NAME-2, runs/NAME-3 … that is not there yet."""
    path, number = parent / name, 1
    while path.exists():
        number += 1
        path = parent / f"{name}-{number}"
    return path


def report_end(path: Path, finished: Finished, *, task: str = "lm") -> int:
    """How it ended, and last the next command to type."""
    use, command = ("Write with it", "elman sample") if task == "lm" else ("Use it", "elman predict")
    where = quote(str(path))
    if finished.why == "interrupted":
        console.print(f"Stopped after step {finished.step}, everything is saved. To continue:", markup=False)
        console.print(f"elman train --resume {where}", markup=False)
        return 130
    why = {"budget": "Done", "patience": "Stopped early, validation stopped improving"}[finished.why]
    loss, step = finished.best_loss, finished.best_step
    best = "" if loss is None else f": {loss:.4f} {UNITS[task]} at step {step}"
    if finished.overfitted:
        rose = f"validation rose from {loss:.4f} at step {step} to {finished.last_loss:.4f}"
        console.print(f"It overfits: {rose}; the best is kept.", markup=False)
    console.print(f"{why} after {finished.step} steps in {finished.seconds:.0f} s{best}. {use}:", markup=False)
    console.print(f"{command} {where}", markup=False)
    return 0
