"""elman sweep: real processes that share a study, are killed, and continue."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path

import optuna
import pytest

from elman.cli.flags import parse
from elman.cli.train import Train
from elman.config import resolve
from elman.kernels import KERNELS
from elman.kernels.compile import FOLDER
from elman.models.sweep import flags
from elman.training.run import Run

ELMAN = [sys.executable, "-m", "elman"]
SMALL = ["--hidden", "4", "--batch-size", "2", "--window", "8", "--warmup-steps", "0", "--search", "lr=0.001..0.1"]


def start(*words, command=ELMAN, **environment):
    pipe, environment = subprocess.PIPE, os.environ | environment | {"PYTHONUNBUFFERED": "1"}
    command = [*command, "sweep", "cat.txt", *SMALL, *map(str, words)]
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, bufsize=1, env=environment)


def up_to(process, words):
    """The output of the process until a line begins with `words`."""
    said = ""
    for line in process.stdout:
        said += line
        if line.startswith(words):
            return said
    raise AssertionError(said + process.stderr.read())


def ended(out):
    """Number and loss of the finished trials, from the printed lines."""
    return dict(re.findall(r"^trial (\d+): (\d\.\d{4}) nats per token", out, re.MULTILINE))


def tried(folder):
    """Options and losses of all finished trials, read from the database by Optuna."""
    study = optuna.load_study(study_name=None, storage=f"sqlite:///{folder}/trials.db")
    states = Counter(trial.state.name for trial in study.trials)
    return states, [(t.params, t.value) for t in study.trials if t.state.name in ("COMPLETE", "PRUNED")]


def test_a_sweep_ends_with_a_table_and_a_command(elman, text):
    status, out, err = elman("sweep", text, *SMALL, "--steps", 20, "--trials", 3)
    assert (status, err) == (0, "")
    *_, last = out.splitlines()
    program, command, run = shlex.split(last)
    assert (program, command) == ("elman", "sample")
    assert len(elman("sample", run, "--length", 20).out) == 21
    best = min(ended(out).items(), key=lambda end: float(end[1]))
    assert Path(run) == Path("sweeps/cat") / f"trial-{best[0]}"
    assert re.search(rf"^ +{best[0]} +{best[1]} +0\.\d+ ", out, re.MULTILINE)
    assert re.search(r"^ +importance: +100%", out, re.MULTILINE)
    assert sorted(path.name for path in Path("sweeps/cat").iterdir()) == ["sweep.json", Path(run).name, "trials.db"]


def test_the_printed_call_opens_the_study(elman, text):
    out = elman("sweep", text, *SMALL, "--steps", 20, "--trials", 3).out
    call = re.search(r"^All trials, for Optuna: (.*)$", out, re.MULTILINE)[1]
    study = eval(call, {"load_study": optuna.load_study})
    assert {str(trial.number): f"{trial.value:.4f}" for trial in study.trials} == ended(out)
    commands = dict(re.findall(r"^trial (\d+): elman train cat.txt (--.*)$", out, re.MULTILINE))
    assert {str(trial.number): trial.user_attrs["flags"] for trial in study.trials} == commands


def test_the_table_has_the_best_ten(elman, text):
    words = ["--search", "seed=0..99", "hidden=2..4", "--batch-size", 2, "--window", 8, "--validate-every", 4]
    out = elman("sweep", text, *words, "--steps", 4, "--trials", 12).out
    shown = re.findall(r"^ +\d+ +(\d\.\d{4}) +\d+ +\d ", out, re.MULTILINE)
    assert shown == sorted(ended(out).values())[:10]
    assert "and 2 more" in out


def test_the_printed_command_repeats_a_trial(elman, text):
    out = elman("sweep", text, *SMALL[:-2], "--search", "lr", "activation", "--steps", 20, "--trials", 2).out
    for number, line in re.findall(r"^trial (\d+): elman (train .*)$", out, re.MULTILINE):
        assert elman(*shlex.split(line), "--out", f"again-{number}").status == 0
        rows = Run(Path(f"again-{number}")).metrics()
        assert f"{min(row['validation_loss'] for row in rows if row['validation_loss']):.4f}" == ended(out)[number]


def test_the_printed_command_repeats_a_trial_with_the_default_batch_size(elman, text):
    Path("long.txt").write_text(text.read_text() * 10)
    words = ["--hidden", 4, "--window", 2, "--search", "lr", "--steps", 5, "--trials", 1]
    out = elman("sweep", "long.txt", *words).out
    line = re.search(r"^trial 0: elman (train .*)$", out, re.MULTILINE)[1]
    assert elman(*shlex.split(line), "--out", "again").status == 0
    sizes = [Run(Path(run)).config["config"]["batch_size"] for run in ("again", "sweeps/long/trial-0")]
    assert sizes == [16, 16]


def test_a_sweep_with_a_time_limit_goes_on(elman, text):
    words = ["--seconds", 0.2, "--search", "hidden=8,9"]
    assert elman("sweep", text, *words, "--trials", 1).status == 0
    assert elman("sweep", text, *words, "--trials", 2).status == 0


def test_the_rates_of_different_optimizers_need_a_range(elman, text):
    status, _, err = elman("sweep", text, "--search", "lr", "optimizer=sgd,adam", "--steps", 2)
    assert (status, "expected a range" in " ".join(err.split())) == (2, True)
    assert "learning_rate: 0.0625 to 3.75" in elman("sweep", text, "--search", "lr", "--optimizer", "sgd", "--steps", 2,
                                                    "--hidden", 8, "--trials", 1).out  # fmt: skip


def test_the_printed_flags_give_the_config_of_a_trial(elman):
    changed = {"tokens": "byte", "keep_boilerplate": True, "hidden": 3, "dropout": 0.125, "steps": 7, "bptt_steps": 2}
    config = resolve("lm", {**changed, "learning_rate": 1 / 3, "optimizer": "adamw", "window": 5, "embedding": 0})
    read = parse(Train, "train", ["x.txt", *flags(config)])
    assert resolve("lm", read.options) == config
    assert {"--batch-size", "--dropout", "--window"} <= set(flags(resolve("lm")))  # their defaults follow the text


def test_options_given_as_flags_are_not_searched(elman, text):
    out = elman("sweep", text, "--hidden", 4, "--lr=0.01", "--batch-size", 2, "--steps", 3, "--trials", 1).out
    assert "Searching layers: 1 to 3; dropout: 0 to 0.5; window: 16 to 256 (log)." in out
    assert "--hidden 4" in out


def test_two_processes_share_a_study(elman, text):
    words = ["--steps", 300, "--trials", 8]
    with start(*words) as other:
        first = up_to(other, "trial 0: elman train")
        here = elman("sweep", text, *SMALL, *words)  # this process is the second
        rest, err = other.communicate(timeout=120)
    assert (here.status, other.returncode, here.err, err) == (0, 0, "", "")
    begun = [re.findall(r"^trial (\d+): elman train", out, re.MULTILINE) for out in (first + rest, here.out)]
    assert all(begun)
    assert sorted(map(int, begun[0] + begun[1])) == list(range(8))
    states, _ = tried("sweeps/cat")
    assert states["COMPLETE"] + states["PRUNED"] == sum(states.values()) == 8
    assert len(list(Path("sweeps/cat").glob("trial-*"))) == 1


def test_processes_that_start_at_once_share_a_study(text):
    words = ["--steps", 20, "--trials", 6]
    processes = [start(*words, ELMAN_KERNELS="reference") for _ in range(3)]
    outputs = [process.communicate(timeout=200) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert [err for _, err in outputs] == ["", "", ""]
    begun = [number for out, _ in outputs for number in re.findall(r"^trial (\d+): elman train", out, re.MULTILINE)]
    assert len(set(begun)) == len(begun) == 6
    states, _ = tried("sweeps/cat")
    assert states["COMPLETE"] + states["PRUNED"] == 6


def test_a_killed_sweep_continues_to_the_total_number_of_trials(text, elman):
    words = ["--steps", 600, "--trials", 5, "--validate-every", 150]
    # the same kernels as here, so that the losses are the same to the bit
    with start(*words, ELMAN_KERNELS=KERNELS, ELMAN_CACHE=str(FOLDER.parents[1])) as process:
        up_to(process, "trial 2: elman train")
        process.send_signal(signal.SIGKILL)
    killed, _ = tried("sweeps/cat")
    assert elman("sweep", text, *SMALL, *words, "--out", "whole").status == 0
    status, out, err = elman("sweep", text, *SMALL, *words)
    assert (status, err) == (0, "")
    assert f"Continuing after {killed['COMPLETE'] + killed['PRUNED']} trial" in out
    states, trials = tried("sweeps/cat")
    assert states["FAIL"] == killed["RUNNING"] <= 1  # none, if it was killed between two trials
    assert trials == tried("whole")[1]  # the same options, the same losses
    assert elman(*shlex.split(out.splitlines()[-1])[1:], "--length", 5).status == 0
    assert len(list(Path("sweeps/cat").glob("trial-*"))) == 1


# elman with a heartbeat every second
FAST = "import elman.models.sweep as sweep; from elman.cli import main; sweep.HEARTBEAT = 1; main()"


def stop_between_transactions(process):
    """Suspend a process after its first heartbeat, when it does not hold the lock of the database."""
    while True:
        time.sleep(0.3)
        process.send_signal(signal.SIGSTOP)
        with (
            closing(sqlite3.connect("sweeps/cat/trials.db", timeout=0)) as database,
            suppress(sqlite3.OperationalError),
        ):
            database.execute("BEGIN IMMEDIATE")
            if database.execute("SELECT count(*) FROM trial_heartbeats").fetchone() > (0,):
                return
        process.send_signal(signal.SIGCONT)


def test_another_process_retries_the_trial_of_a_killed_one(text):
    words = ["--trials", 3, "--steps", 5_000]
    with start(*words, command=[sys.executable, "-c", FAST]) as one:
        up_to(one, "trial 0: elman train")
        stop_between_transactions(one)
        with start(*words, command=[sys.executable, "-c", FAST]) as other:
            up_to(other, "trial 1: elman train")
            one.send_signal(signal.SIGKILL)
            _, err = other.communicate(timeout=250)
    assert (other.returncode, err) == (0, "")
    states, trials = tried("sweeps/cat")
    assert (states["FAIL"], len(trials)) == (1, 3)
    assert {"learning_rate": 0.008} in [params for params, _ in trials]  # the default, of trial 0


def test_a_process_that_was_suspended_goes_on_when_its_trial_was_taken_over(text):
    words = ["--trials", 3, "--steps", 5_000]
    with start(*words, command=[sys.executable, "-c", FAST]) as one:
        up_to(one, "trial 0: elman train")
        stop_between_transactions(one)
        with start(*words, command=[sys.executable, "-c", FAST]) as other:
            _, err = other.communicate(timeout=250)
        one.send_signal(signal.SIGCONT)
        last, nothing = one.communicate(timeout=250)
    assert (one.returncode, other.returncode, err, nothing) == (0, 0, "", "")
    assert "importance" in last
    states, trials = tried("sweeps/cat")
    assert (states["FAIL"], len(trials)) == (1, 3)


def test_examples_cannot_be_swept(elman):
    Path("names.tsv").write_text("Rossi\tItalian\nSchmidt\tGerman\n" * 10)
    status, _, err = elman("sweep", "names.tsv", *SMALL, "--steps", 3)
    assert status == 2
    assert "names.tsv looks like examples to classify, and a sweep is for language models. In Python" in err
    assert not Path("sweeps").exists()


def test_an_ambiguous_file_is_swept_as_a_text(elman):
    Path("poems").mkdir()
    for name in ("a.txt", "b.txt", "more.md"):
        Path("poems", name).write_text("the cat\nsat on\nthe mat\nall day\n" * 40)
    assert elman("train", "poems", "--steps", 1).status == 2  # its message asks for --task
    status, _, err = elman("sweep", "poems", *SMALL, "--steps", 3, "--trials", 1)
    assert (status, err) == (0, "")


def test_ctrl_c_stops_and_prints_how_to_continue(text):
    with start("--steps", 100_000, "--validate-every", 100, "--trials", 2) as process:
        up_to(process, "trial 0: elman train")
        with closing(sqlite3.connect("sweeps/cat/trials.db", timeout=60)) as database:
            while database.execute("SELECT count(*) FROM trial_intermediate_values").fetchone() == (0,):
                time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "The same command continues" in out
    assert "Traceback" not in err
    assert not list(Path("sweeps/cat").glob("*trial-*"))
    states, _ = tried("sweeps/cat")
    assert states == {"FAIL": 1, "WAITING": 1}


def test_ctrl_c_before_the_first_step_ends_a_sweep_at_once(text):
    with start("--steps", 100_000, "--trials", 2) as process:
        up_to(process, "trial 0: elman train")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "Traceback" not in err
    states, _ = tried("sweeps/cat")
    assert states in ({"FAIL": 1, "WAITING": 1}, {"RUNNING": 1})  # the next start retries either


@pytest.mark.parametrize(("words", "message"), [
    (["--trials", "0"], "--trials: expected 1 or more, got 0"),
    (["--search", "hiden"], r"--search: expected one of .*Did you mean hidden\?"),
    (["--search", "lr", "--lr", "0.1"], "none with a fixed value, got learning_rate"),
    (["--search", "tokens=char,byte"], "cannot be compared"),
    (["--validation-fraction", "0"], "--validation-fraction: expected a number above 0, because a sweep compares"),
    (["--resume", "run"], "elman sweep has no flag --resume"),
    (["--steps", "3", "--epochs", "3"], "one of --epochs, --steps and --seconds"),
    (["--out", "cat.txt"], "exists already"),
    (["--threads", "0"], "threads"),
    (["missing.txt"], "missing.txt"),
    (["-"], "Save the text in a file"),
    (["--storage", "trials.log"], "The database of sweeps/cat cannot be used: Could not parse SQLAlchemy URL"),
    (["--storage", "sqlite:////no/trials.db"], "unable to open database file"),
])  # fmt: skip
def test_options_of_a_sweep_that_make_no_sense_are_refused(elman, text, words, message):
    status, _, err = elman("sweep", text, *words)
    assert status == 2
    assert re.search(message, re.sub(r"\s+", " ", err)), err
    assert [path.name for path in Path().iterdir()] == ["cat.txt"]


def test_a_missing_extra_is_reported_before_anything_is_read():
    script = "import sys; sys.modules['optuna'] = None; from elman.cli import main; main()"
    command = [sys.executable, "-c", script, "sweep", "missing.txt", "--steps", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'elman[sweep]'" in done.stderr


def test_another_sweep_in_the_folder_is_refused(elman, text):
    assert elman("sweep", text, *SMALL, "--steps", 3, "--trials", 1).status == 0
    status, _, err = elman("sweep", text, *SMALL, "--steps", 4, "--trials", 1)
    assert status == 2
    assert "steps was 3 and is 4" in err
    assert json.loads(Path("sweeps/cat/sweep.json").read_text())["steps"] == 3


def test_a_sweep_without_a_finished_trial_says_so(elman, text):
    words = ["--optimizer", "sgd", "--clip-norm", 0, "--retries", 0, "--search", "lr=1e5..1e6"]
    status, out, _ = elman("sweep", text, *SMALL[:-2], *words, "--steps", 20, "--trials", 2)
    assert status == 1
    assert "diverged: Training diverged" in out
    assert "No trial was trained to its end" in out


def test_options_that_do_not_fit_together_are_reported(elman, text):
    words = [*SMALL[:-2], "--search", "bptt_block=4,5000", "--steps", 20, "--trials", 3]
    status, out, err = elman("sweep", text, *words)
    assert (status, err) == (0, "")
    assert re.search(r"^trial \d: impossible: .* \(\d s\)$", out, re.MULTILINE)
