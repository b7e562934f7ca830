"""elman runs: list run folders and compare them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elman.cli.console import console, write
from elman.cli.flags import argument, flag
from elman.config import OPTIONS
from elman.errors import DataError

if TYPE_CHECKING:
    from elman.training.run import Run

MOST_COMPARED = 5  # runs whose values of an option fit in one line


@dataclass(frozen=True)
class Runs:
    """List runs, sorted by task and loss. If they are at most five, also compare the options of those of the same task.

    FOLDER is a folder that contains run folders, or a run folder. The loss is the lowest on the validation part; it can
    be compared between runs on the same data with the same tokens.

    For instance:
        elman runs
        elman runs sweeps/novel runs/novel
    """

    folders: tuple[Path, ...] = argument("FOLDER", "folders of runs, or run folders (default: the folder runs)", ())
    json: bool = flag(False, "print the runs as JSON")

    def run(self) -> int:
        from elman.errors import RunError
        from elman.training.run import Run

        facts = []
        for path in _paths(self.folders or (Path("runs"),)):
            try:
                facts.append(_facts(Run(path)))
            except (RunError, OSError) as error:
                console.print(f"{path}: {error}", markup=False, style="yellow")
        facts.sort(key=lambda fact: (fact["task"], fact["loss"] is None, fact["loss"] or 0.0, fact["run"]))
        if self.json:
            write(json.dumps(facts, ensure_ascii=False) + "\n")
            return 0
        rows = _rows(facts)
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
            console.print(line.rstrip(), markup=False)
        tasks = [fact["task"] for fact in facts]
        if len(facts) > MOST_COMPARED and len(set(tasks)) < len(tasks):
            console.print(f"To compare the options of up to {MOST_COMPARED} runs, name them: elman runs RUN RUN …")
            return 0
        for task in dict.fromkeys(tasks):
            _differences([fact for fact in facts if fact["task"] == task])
        return 0


def _paths(folders: tuple[Path, ...]) -> list[Path]:
    found: dict[Path, None] = {}
    for folder in folders:
        if not folder.is_dir():
            raise DataError(
                f"there is no folder {folder}", do="elman train makes runs, in runs/ unless --out is given."
            )
        inside = sorted(path.parent for path in folder.glob("*/config.json"))
        runs = [folder] if (folder / "config.json").is_file() else inside
        if not runs:
            raise DataError(f"{folder} has no runs", do="Create one with elman train.")
        found |= dict.fromkeys(runs)
    return list(found)


def _facts(run: Run) -> dict[str, Any]:
    from elman.look.history import is_number
    from elman.training.metrics import kept_rows

    config = run.config.get("config")
    options = {name: config[name] for name in OPTIONS if name in config} if isinstance(config, dict) else {}
    rows = kept_rows(run.metrics())
    held = [row for row in rows if is_number(row.get("validation_loss"))]
    best = min(held, key=lambda row: row["validation_loss"], default={})
    data = run.config.get("data")
    last = rows[-1] if rows else {}
    return {
        "run": str(run.path),
        "task": str(run.config.get("task")),
        "data": str(data["name"]) if isinstance(data, dict) and "name" in data else None,
        "loss": best.get("validation_loss"),
        "accuracy": best.get("validation_accuracy"),
        "step": last.get("step"),
        "steps": run.config.get("steps"),
        "seconds": last.get("seconds"),
        "options": options,
    }


def _rows(facts: list[dict[str, Any]]) -> list[list[str]]:
    rows = [["run", "task", "data", "loss", "accuracy", "steps", "network"]]
    for fact in facts:
        options, step, steps = fact["options"], fact["step"], fact["steps"]
        network = f"{options.get('layers', '?')} × {options.get('hidden', '?')} {options.get('cell', '')}".strip()
        taken = "–" if step is None else f"{step:,}" if steps in (step, None) else f"{step:,} of {steps:,}"
        loss, accuracy = _number(fact["loss"]), _number(fact["accuracy"])
        rows.append([fact["run"], fact["task"], fact["data"] or "–", loss, accuracy, taken, network])
    return rows


def _number(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, int | float) else "–"


def _differences(facts: list[dict[str, Any]]) -> None:
    """Print the options in which runs of one task differ, each with its values."""
    if len(facts) < 2:
        return
    for name in OPTIONS:
        values = [fact["options"].get(name) for fact in facts]
        if len(set(map(repr, values))) > 1:
            each = ", ".join(f"{Path(fact['run']).name} {value}" for fact, value in zip(facts, values, strict=True))
            console.print(f"{name}: {each}", markup=False)
