"""elman runs: what it says about the options of runs; and the log of a training that a run comes from."""

import json
import re
import shutil
from pathlib import Path

import pytest

from elman.cli import progress
from elman.training.events import Finished, Started, Stepped


def copies(run, count):
    """Runs that differ in one option."""
    for number in range(count):
        folder = Path("runs") / f"r{number}"
        shutil.copytree(run, folder)
        written = json.loads((folder / "config.json").read_text())
        written["config"]["seed"] = number
        (folder / "config.json").write_text(json.dumps(written))


@pytest.mark.parametrize(("count", "compared"), [(5, True), (6, False)])
def test_options_of_a_few_runs_are_compared_and_otherwise_it_says_how(elman, run, count, compared):
    copies(run, count)
    out = elman("runs").out
    assert ("seed: r0 0, r1 1" in out) == compared
    assert ("To compare the options of up to 5 runs, name them: elman runs RUN RUN" in out) != compared
    assert "seed: r0 0, r5 5" in elman("runs", "runs/r0", "runs/r5").out or count == 5


def test_the_seconds_of_a_resumed_run_are_those_of_the_whole_training(elman, text):
    small = ("--hidden", 8, "--batch-size", 4, "--window", 16)
    assert elman("train", text, *small, "--seconds", 0.4, "--out", "r").status == 0
    (before,) = json.loads(elman("runs", "r", "--json").out)
    assert before["options"]["seconds"] == 0.4
    assert elman("train", "--resume", "r", "--seconds", 0.3).status == 0
    (after,) = json.loads(elman("runs", "r", "--json").out)
    assert before["seconds"] + 0.3 <= after["options"]["seconds"] <= before["seconds"] + 0.6
    assert after["step"] == after["steps"]


def test_the_line_of_the_best_step_is_printed_even_if_others_come_too_soon(monkeypatch, capsys):
    monkeypatch.setattr(progress, "LINE_SECONDS", 1e9)  # only the first line and the last one are due
    losses = {1: 3.0, 2: 2.5, 3: 2.0, 4: 2.2, 5: 2.4}
    with progress.TrainingReport() as report:
        report(Started(0, 6, 100, None))
        for step, loss in losses.items():
            report(Stepped(step, step / 2, loss, 1.0, 0.1, 1e3, 1.0, validation_loss=loss, best=step < 4))
        report(Finished(5, "patience", 2.0, 3, 1.0))
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("step ")]
    assert [(int(line.split()[1]), line.endswith("best so far")) for line in lines] == [(1, True), (3, True)]


def test_a_training_that_improves_nothing_says_that_its_start_is_kept(elman, run):
    Path("worse.txt").write_text("why? " * 300 + "The cat sat on the mat. " * 7)
    out = elman("train", "worse.txt", "--from", run, "--steps", 30, "--lr", 0.05, "--out", "r").out
    assert re.search(r"^step +0 .*validation \d\.\d{4}  the model that training starts from$", out, re.MULTILINE)
    assert "No step was better than the model that training started from: its weights are kept." in out
    assert re.search(r"nats per token at step 0\. Sample", out)
