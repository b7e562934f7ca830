"""The cost of a training: estimated before it begins, refused if it does not fit; a budget in seconds is kept."""

from __future__ import annotations

import json
import math
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest
from test_training_commands import running
from test_training_force import contents
from test_training_signals import end
from training_tools import command, elman, environment, new_trainer, small_config, small_text, start

from elman import SequenceClassifier
from elman.config import DataForm, useful_epochs
from elman.errors import CostWarning, RangeError
from elman.models import runs
from elman.models.evaluation import evaluate_examples, mean_loss
from elman.models.runs import RowSplit
from elman.models.tasks import NetworkTask
from elman.training import Run, Stepped, cost


def test_a_network_that_cannot_fit_into_memory_is_refused_and_replaces_nothing(
    text: Path, tmp_path: Path, cache: Path
) -> None:
    (tmp_path / "examples.tsv").write_text("ab\tx\ncd\ty\n" * 8)
    start(text, tmp_path / "run", steps=2)
    before = contents(tmp_path / "run")
    most = 8 << 30
    for source in (text, tmp_path / "examples.tsv"):
        done = subprocess.run(
            command("train", source, "--out", tmp_path / "run", "--force", "--hidden", "15000", "--steps", "1"),
            env=environment(cache), capture_output=True, text=True, timeout=120, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (most, most)),
        )  # fmt: skip
        assert done.returncode == 2
        assert "this network and its training: expected at most" in done.stderr
        assert "GB. Use a smaller --hidden, --batch-size or --window." in done.stderr
        assert contents(tmp_path / "run") == before


def test_a_training_that_needs_more_than_half_of_the_memory_warns(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small_config()
    prepared = runs.text_setup(runs.open_text(text, config), config)
    needed = prepared.cost().memory
    for factor in (0.9, 1.5):
        monkeypatch.setattr(cost, "free_memory", lambda f=factor: int(f * needed))
        if factor < 1:
            with pytest.raises(RangeError, match="of memory, which is free"):
                start(text, None)
            with pytest.raises(RangeError, match="of memory, which is free"):
                SequenceClassifier(hidden=1000).fit(["ab", "cd"] * 8, [0, 1] * 8)
        else:
            with pytest.warns(CostWarning, match="This training needs about"):
                start(text, None)
    monkeypatch.setattr(cost, "free_memory", lambda: int(3 * needed))
    start(text, None)  # without a warning


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")
def test_the_estimate_of_memory_is_what_a_training_takes(tmp_path: Path, cache: Path) -> None:
    """Between half and twice, without what Python and its libraries take."""
    script = """
import re, sys
from pathlib import Path
from elman.config import Config
from elman.models import runs
from elman.models.evaluation import evaluate_examples, mean_loss
from elman.models.runs import RowSplit
from elman.models.tasks import NetworkTask
def taken():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
def start(hidden, out):
    config = Config().with_options(hidden=hidden, recurrent_init="identity", steps=1, window=4, batch_size=16)
    prepared = runs.text_setup(runs.open_text("abcdefgh " * 200, config), config)
    runs.start(prepared, out=out)
    return prepared.cost().memory
start(8, Path(sys.argv[1]) / "small")
before = taken()
needed = start(1500, Path(sys.argv[1]) / "large")
print((taken() - before) / needed)
"""
    done = subprocess.run(
        [*command()[:1], "-c", script, tmp_path], env=environment(cache), capture_output=True, text=True, check=True
    )
    assert 0.5 < float(done.stdout) < 2


def test_free_memory_is_that_of_the_machine_and_of_the_process() -> None:
    free = cost.free_memory()
    assert free is None or 0 < free < 1 << 50
    script = """
import resource
from elman.training.cost import free_memory
limit = 4 << 30
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
assert 0 < free_memory() < limit
"""
    subprocess.run([*command()[:1], "-c", script], check=True, timeout=120)


def test_a_step_that_takes_minutes_causes_a_warning_before_it_begins(tmp_path: Path, cache: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text(small_text(50_000), encoding="utf-8")
    words = ["--hidden", "1000", "--accumulate", "100000", "--seconds", "5"]
    with running("train", text, "--out", tmp_path / "run", *words, cache=cache) as process:
        said = process.stderr.readline()
        end(process, signal.SIGTERM)
    assert said.startswith("Note: On this machine a step takes about")
    assert "minutes. Use a smaller --hidden, --batch-size or --window." in said
    assert process.returncode == 143


def test_a_budget_in_seconds_holds_for_a_large_network(tmp_path: Path, cache: Path) -> None:
    """A validation of the whole held-out part, 160,000 tokens, takes several times the budget on any CPU."""
    text, run = tmp_path / "text.txt", tmp_path / "run"
    text.write_text(small_text(4000) * 400, encoding="utf-8")
    began = time.monotonic()
    done = elman(
        "train", text, "--out", run, "--hidden", "1000", "--recurrent-init", "identity", "--seconds", "1", cache=cache
    )
    took = time.monotonic() - began
    assert done.returncode == 0
    config = json.loads((run / "config.json").read_text())
    assert config["steps"] <= 20
    assert config["validation_size"] < 100_000
    assert "Note: --seconds leaves time to validate on" in done.stderr
    assert took < 100  # on a machine with other work to do


@pytest.mark.parametrize("task", ["lm", "classify"])
def test_a_resumed_run_validates_on_the_same_part_of_the_data(
    task: str, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, losses = tmp_path / "run", list[float]()

    def listen(event: object) -> None:
        if isinstance(event, Stepped) and event.validation_loss is not None:
            losses.append(event.validation_loss)

    monkeypatch.setattr(NetworkTask, "validation_seconds", lambda task: 10.0)  # ten times what is allowed
    monkeypatch.setattr(runs, "seconds_per_step", lambda *_: 0.1)

    def train() -> None:
        if task == "lm":
            start(text, run, [listen], steps=None, seconds=0.5, validate_every=5)
        else:
            X, y = [f"{i % 7}{i % 3}" for i in range(400)], [i % 2 for i in range(400)]
            SequenceClassifier(hidden=4, seconds=0.5, validation_fraction=0.5).fit(X, y, out=run, listeners=[listen])

    with pytest.warns(CostWarning, match="leaves time to validate on"):
        train()
    judged = json.loads((run / "config.json").read_text())["validation_size"]
    assert judged == (30 if task == "lm" else 20)
    setup, fitted = runs.reopen(Run(run))[0], runs.load(run)[1]
    assert setup.validation_size == judged
    if task == "lm":
        loss = mean_loss(fitted.network, fitted.parameters, setup.corpus.ids[-300:][:judged])
    else:
        held = RowSplit.draw(400, fitted.config).validation[:judged]
        loss = evaluate_examples(fitted.network, fitted.parameters, setup.examples.take(held)).loss
    assert min(losses) == pytest.approx(loss, rel=1e-5)
    count = len(losses)
    runs.resume(run, budget_options={"steps": 10}, listeners=[listen])
    assert len(losses) > count
    damaged = json.loads((run / "config.json").read_text()) | {"validation_size": "x"}
    (run / "config.json").write_text(json.dumps(damaged))
    with pytest.raises(Exception, match="validation_size: expected a whole number above 0, got 'x'"):
        runs.resume(run)


def test_a_language_model_of_a_long_text_with_a_time_limit_takes_at_most_30_epochs_or_5000_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runs, "seconds_per_step", lambda *_: 0.1)
    text = small_text(40_000)

    def steps(seconds: float, batch_size: int) -> int:
        return new_trainer(text, steps=None, seconds=seconds, batch_size=batch_size).steps

    assert steps(10, 4) == 100
    assert steps(1e6, 4) == math.ceil(useful_epochs(DataForm("char", 1, 40_000.0), "rnn", 899) * 899), (
        "a short text is read as often as it is useful"
    )
    monkeypatch.setattr(runs, "LONG_TEXT", 10_000)
    assert steps(1e6, 4) == 30 * 899  # windows of 10 tokens in 9,000, the last of which has no next token
    assert steps(1e6, 100) == 5000
