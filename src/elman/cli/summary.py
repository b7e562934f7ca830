"""The last lines that `elman train` prints, and a free name for the folder of a new run."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from elman.cli.console import console
from elman.training.events import Finished
from elman.training.metrics import UNITS


def free_folder(parent: Path, name: str) -> Path:
    """PARENT/NAME, or the first of PARENT/NAME-2, PARENT/NAME-3 … that does not exist."""
    path, number = parent / name, 1
    while path.exists():
        number += 1
        path = parent / f"{name}-{number}"
    return path


def report_end(path: Path, finished: Finished, *, task: str = "lm", limit: str = "") -> int:
    """Print how the training ended, and the command to type next; returns the exit code."""
    use, command = ("Sample from it", "elman sample") if task == "lm" else ("Use it", "elman predict")
    where = quote(str(path))
    if finished.why == "interrupted":
        console.print(f"Stopped after step {finished.step}, everything is saved. To continue:", markup=False)
        console.print(f"elman train --resume {where}", markup=False)
        return 130
    loss, step = finished.best_loss, finished.best_step
    best = "" if loss is None else f": {loss:.4f} {UNITS[task]} at step {step}"
    done = f"Done after {finished.step} steps in {finished.seconds:.0f} s{f' ({limit})' if limit else ''}{best}"
    if finished.why == "patience":
        since = f"validation has not improved since step {step}, where it was {loss:.4f} {UNITS[task]}"
        done = f"Stopped at step {finished.step} after {finished.seconds:.0f} s: {since}"
    if loss is not None and step == 0:
        console.print("No step was better than the model that training started from: its weights are kept.")
    before, after = f"{loss or 0:.4f}", f"{finished.last_loss or 0:.4f}"
    if step and finished.overfitted and before != after:
        rose = f"the validation loss rose from {before} at step {step} to {after}"
        console.print(f"The model overfits: {rose}. The best model is kept.", markup=False)
    console.print(f"{done}. {use}:", markup=False)
    console.print(f"{command} {where}", markup=False)
    return 0
