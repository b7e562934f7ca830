"""Training as a command: real processes, real signals, a full disk."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from training_tools import (
    CASES,
    SMALL,
    Killed,
    command,
    elman,
    environment,
    flags,
    outcome,
    resume,
    rows,
    small_config,
    small_text,
    start,
)

from elman.models import language_run
from elman.training import Run, Saved, Stepped

LONG = SMALL | {"steps": 300, "save_every": 2, "log_every": 1, "validate_every": 50}


def wait_for(there: Callable[[], object], process: subprocess.Popen[str]) -> None:
    for _ in range(20_000):
        if there():
            return
        assert process.poll() is None, f"it ended too soon: {process.communicate()}"
        time.sleep(0.002)
    raise AssertionError("nothing happened")


def running(*words: str | Path, cache: Path, stdin: int | None = None) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command(*words),
        env=environment(cache),
        stdout=pipe,
        stderr=pipe,
        stdin=stdin,
        text=True,
        start_new_session=True,
    )


def checkpoints(run: Path) -> list[int]:
    folder = run / "checkpoints"
    return sorted(int(p.name[5:]) for p in folder.iterdir() if p.name[0] != ".") if folder.exists() else []


# -- SIGKILL ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "kills", "piped"), [
    pytest.param("dropout", 1, False, marks=pytest.mark.nightly),
    ("divergence, far back", 1, True),
])  # fmt: skip
def test_kills_at_random_moments_change_nothing(
    name: str, kills: int, piped: bool, text: Path, tmp_path: Path, cache: Path
) -> None:
    """One each here, a hundred in scripts/kills."""
    options = LONG | {"layers": 2} | CASES[name] | {"save_every": 1, "steps": 150}
    run, draw, source = tmp_path / "run", random.Random(name), "-" if piped else text
    done = 0
    while done < kills:
        words: list[str | Path] = ["--resume", run] if run.exists() else [source, "--out", run, *flags(options)]
        with text.open() as file, running("train", *words, cache=cache, stdin=file.fileno()) as process:
            wait_for(lambda: run.exists() or process.poll() is not None, process)
            begun = checkpoints(run)[-1:]
            wait_for(lambda b=begun: checkpoints(run)[-1:] != b, process)
            time.sleep(draw.random() * 0.05)
            if draw.random() < 0.5:
                wait_for(lambda: list((run / "checkpoints").glob(".*")), process)  # in the middle of a save
            process.kill()
            assert process.wait() == -signal.SIGKILL
        done += 1
    finished = elman("train", "--resume", run, cache=cache)
    assert (finished.returncode, finished.stderr) == (0, "")
    start(text, tmp_path / "whole", **options)  # in this process, and never stopped
    assert outcome(run) == outcome(tmp_path / "whole")


# -- SIGINT and SIGTERM -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_finishes_the_step_saves_and_says_how_to_resume(
    number: signal.Signals, text: Path, tmp_path: Path, cache: Path
) -> None:
    run, options = tmp_path / "a run", LONG | {"steps": 1500, "save_every": 100_000, "validate_every": 400}
    with running("train", text, "--out", run, *flags(options), cache=cache) as process:
        wait_for(lambda: (run / "metrics.jsonl").exists() and len(rows(run)) > 2, process)
        process.send_signal(number)
        said, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Stopping after this step" in errors
    assert "Traceback" not in errors
    (step,) = checkpoints(run)
    assert 2 < step < 1500
    assert rows(run)[-1]["step"] == step
    assert f"after step {step}" in said.splitlines()[-2]
    last = said.splitlines()[-1]
    assert last == f"elman train --resume '{run}'"
    done = elman("train", "--resume", run, cache=cache)
    assert done.returncode == 0
    assert f"step {step}" in done.stdout
    start(text, tmp_path / "whole", **options)
    assert outcome(run) == outcome(tmp_path / "whole")


def test_a_second_signal_leaves_at_once_and_loses_nothing_that_was_saved(
    text: Path, tmp_path: Path, cache: Path
) -> None:
    run, slow = tmp_path / "run", LONG | {"hidden": 300, "window": 600, "save_every": 1, "validation": 0.02}
    slow |= {"accumulate": 40}  # a step takes a second or more: it is not over before the second signal
    with running("train", text, "--out", run, *flags(slow), cache=cache) as process:
        wait_for(lambda: checkpoints(run), process)
        time.sleep(0.3)  # well into the next step: right after a save there would be no step to wait for
        process.send_signal(signal.SIGTERM)
        assert "Stopping after this step" in process.stderr.readline()
        before = checkpoints(run)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=60)
    assert process.returncode == 143
    assert "saved" not in said
    newest = Run(run).newest()
    assert newest is not None
    assert newest.step >= before[-1]


def test_a_signal_right_after_a_save_does_not_write_it_again(text: Path, tmp_path: Path) -> None:
    saved: list[int] = []
    config = small_config(save_every=1)
    prepared = language_run.prepare(language_run.corpus_from(text, config), config)
    language_run.start(
        prepared,
        out=tmp_path / "run",
        listeners=[lambda e: saved.append(e.step) if isinstance(e, Saved) else None],
        stopping=lambda: len(saved) == 3,
    )
    assert saved == [1, 2, 3]


# -- a full disk ------------------------------------------------------------------------------------------------------


def stopped_at_12(text: Path, run: Path) -> None:
    def stop(event: object) -> None:
        if isinstance(event, Stepped) and event.step == 12:
            raise Killed

    with pytest.raises(Killed):
        start(text, run, [stop])
    assert checkpoints(run) == [5, 10]


@pytest.mark.parametrize("full", ["checkpoint", "metrics"])
def test_a_file_that_cannot_grow_is_said_and_the_last_checkpoint_stays(
    full: str, text: Path, tmp_path: Path, cache: Path
) -> None:
    run = tmp_path / "run"
    stopped_at_12(text, run)
    language_run.reopen(Run(run))  # puts the text into the cache, whose files shall not be the ones that fail
    state = json.loads((run / "checkpoints" / "step-10" / "state.json").read_bytes())
    limit = 8000 if full == "checkpoint" else state["metrics_offset"] + 30
    before = {path: path.read_bytes() for path in (run / "checkpoints").rglob("*") if path.is_file()}

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    done = elman("train", "--resume", run, cache=cache, preexec_fn=limited)
    assert done.returncode == 2
    assert "could not be written: File too large" in done.stderr
    assert ("checkpoints" if full == "checkpoint" else "metrics.jsonl") in done.stderr
    assert "Traceback" not in done.stderr
    assert {path: path.read_bytes() for path in (run / "checkpoints").rglob("*") if path.is_file()} == before
    assert not list(run.rglob(".*"))
    resume(run)
    start(text, tmp_path / "whole")
    assert outcome(run) == outcome(tmp_path / "whole")


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    if os.name != "posix" or os.geteuid() != 0 or mount is None:
        pytest.skip("only root may mount")
    if subprocess.run([mount, "-t", "tmpfs", "-o", "size=80k", "none", str(disk)], check=False).returncode:
        pytest.skip("mounting is not allowed here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def test_a_full_disk_is_said_and_the_run_goes_on_once_there_is_space(
    text: Path, tiny_disk: Path, tmp_path: Path, cache: Path
) -> None:
    run = tiny_disk / "run"
    done = elman("train", text, "--out", run, *flags(SMALL), cache=cache)
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "still whole" in done.stderr
    assert "Traceback" not in done.stderr
    assert checkpoints(run)
    assert Run(run).newest() is not None
    assert not list(run.rglob(".*"))
    subprocess.run(["mount", "-o", "remount,size=1m", str(tiny_disk)], check=True)
    resume(run)
    start(text, tmp_path / "whole")
    assert outcome(run) == outcome(tmp_path / "whole")


@pytest.mark.parametrize("where", ["text.txt/run", "/proc/run", "n" * 300])
def test_a_place_that_cannot_be_written_is_said(where: str, text: Path, tmp_path: Path, cache: Path) -> None:
    out = tmp_path / where
    done = elman("train", text, "--out", out, *flags(SMALL), cache=cache)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert out.name[:20] in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.txt", "the-cache"]


# -- words ------------------------------------------------------------------------------------------------------------


def test_resume_refuses_other_choices_and_takes_a_larger_budget(text: Path, tmp_path: Path, cache: Path) -> None:
    run = tmp_path / "run"
    start(text, run, steps=6)
    for words in (
        ["--hidden", "16"],
        ["--seed", "1"],
        ["--tokens", "byte"],
        [text],
        ["--out", "x"],
        ["--preset", "tiny"],
    ):
        done = elman("train", "--resume", run, *words, cache=cache)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), words
        assert "only --epochs, --steps or --seconds may change" in done.stderr
    assert checkpoints(run) == [5, 6]

    same = elman("train", "--resume", run, cache=cache)
    assert same.returncode == 0
    assert "Done after 6 steps" in same.stdout
    assert same.stdout.splitlines()[-1] == f"elman sample {run}"

    config = json.loads((run / "config.json").read_bytes())
    config["environment"]["numpy"] = "1.0.0"
    (run / "config.json").write_text(json.dumps(config))
    more = elman("train", "--resume", run, "--steps", "9", cache=cache)
    assert more.returncode == 0
    assert "numpy was 1.0.0" in more.stderr
    assert checkpoints(run) == [6, 9]

    text.write_text(small_text(seed=1))
    changed = elman("train", "--resume", run, "--steps", "12", cache=cache)
    assert changed.returncode == 2
    assert "has changed" in changed.stderr
    assert checkpoints(run) == [6, 9]


def test_a_choice_that_is_a_default_is_a_choice_all_the_same(text: Path, tmp_path: Path, cache: Path) -> None:
    start(text, tmp_path / "run", steps=6)
    done = elman("train", "--resume", tmp_path / "run", "--hidden", "256", cache=cache)
    assert done.returncode == 2


def test_a_run_that_diverges_to_its_end_says_so(text: Path, tmp_path: Path, cache: Path) -> None:
    options = SMALL | CASES["divergence"] | {"retries": 1}
    done = elman("train", text, "--out", tmp_path / "run", *flags(options), cache=cache)
    assert done.returncode == 2
    assert "Back to step" in done.stdout
    assert "diverged" in done.stderr
    assert "--learning-rate" in done.stderr
    assert "Traceback" not in done.stderr


def test_tensorboard_files_stand_in_the_run(text: Path, tmp_path: Path, cache: Path) -> None:
    run = tmp_path / "run"
    done = elman("train", text, "--out", run, "--tensorboard", *flags(SMALL), cache=cache)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list((run / "tensorboard").iterdir())) == 1


def test_training_and_sampling_import_neither_scikit_learn_nor_plotly(text: Path, tmp_path: Path, cache: Path) -> None:
    run = tmp_path / "run"
    script = """
import sys
from elman.cli.main import main
*words, = sys.argv[1:]
try:
    main(words)
except SystemExit as end:
    assert not end.code, end
heavy = {"sklearn", "plotly", "torch", "jax", "pandas", "onnx", "mpi4py", "starlette", "tensorboardX", "optuna"}
assert not heavy & {name.split(".")[0] for name in sys.modules}, heavy & set(sys.modules)
"""
    for words in (
        ["train", text, "--out", run, "--sample-every", "20", *flags(SMALL)],
        ["train", "--resume", run, "--steps", "26"],
        ["sample", run, "--length", "20"],
        ["eval", run, text],
    ):
        done = subprocess.run(
            [sys.executable, "-c", script, *map(str, words)],
            env=environment(cache), capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
