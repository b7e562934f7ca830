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
from contextlib import contextmanager
from pathlib import Path

import pytest
from training_tools import (
    CASES,
    PLAIN,
    SMALL,
    Here,
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

from elman.models import runs
from elman.training import Run, Saved, Stepped

LONG = SMALL | {"steps": 10**6, "log_every": 1, "validate_every": 50}  # to be stopped


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
    options = LONG | {"layers": 2} | CASES[name] | {"save_every": 1, "schedule": "constant"}
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
    steps = checkpoints(run)[-1] + 25
    resume(run, steps=steps)
    start(text, tmp_path / "whole", **options | {"steps": steps})  # in this process, and never stopped
    assert outcome(run) == outcome(tmp_path / "whole")


# -- SIGINT and SIGTERM -----------------------------------------------------------------------------------------------


def test_a_signal_finishes_the_step_saves_and_shows_how_to_resume(
    text: Path, tmp_path: Path, cache: Path, elman_here: Here
) -> None:
    """SIGINT ends a new run, SIGTERM the same run resumed; then it comes to its end."""
    run, stops = tmp_path / "a run", list[int]()
    options = LONG | {"save_every": 10**6, "schedule": "constant"}
    words: list[str | Path] = [text, "--out", run, *flags(options)]
    for number in (signal.SIGINT, signal.SIGTERM):
        few = (stops[-1] if stops else 0) + 2
        with running("train", *words, cache=cache) as process:
            wait_for(lambda n=few: (run / "metrics.jsonl").exists() and len(rows(run)) > n, process)
            process.send_signal(number)
            said, errors = process.communicate(timeout=60)
        assert process.returncode == 130
        assert "Stopping after this step" in errors
        assert "Traceback" not in errors
        assert not stops or f"step {stops[-1]}" in said  # from where it goes on
        step = rows(run)[-1]["step"]
        assert step > few
        stops.append(step)
        assert checkpoints(run) == stops
        assert f"after step {step}" in said.splitlines()[-2]
        assert said.splitlines()[-1] == f"elman train --resume '{run}'"
        words = ["--resume", run]
    done = elman_here("train", *words, "--steps", str(step + 4))
    assert done.returncode == 0
    assert f"step {step}" in done.stdout
    start(text, tmp_path / "whole", **options | {"steps": step + 4})
    assert outcome(run) == outcome(tmp_path / "whole")


def test_a_second_signal_leaves_at_once_and_loses_nothing_that_was_saved(
    text: Path, tmp_path: Path, cache: Path
) -> None:
    run, slow = tmp_path / "run", tmp_path / "slow"
    script = """
import sys, time
from pathlib import Path
from elman.cli import main
from elman.models.tasks import TextTask
usual, slow = TextTask.loss_and_gradients, Path(sys.argv[1])
def loss_and_gradients(self, gradients, step):
    if step == 3:
        slow.touch()
        time.sleep(50)
    return usual(self, gradients, step)
TextTask.loss_and_gradients = loss_and_gradients
main(sys.argv[2:])
"""
    words = [sys.executable, "-c", script, slow, "train", text, "--out", run, *flags(LONG | {"save_every": 1})]
    variables, pipe = environment(cache) | PLAIN, subprocess.PIPE
    with subprocess.Popen(words, env=variables, stdout=pipe, stderr=pipe, text=True) as process:
        wait_for(slow.exists, process)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert "Stopping after this step" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=60)
        assert time.monotonic() - began < 45  # long before the end of the step
    assert process.returncode == 143
    assert "saved" not in said
    assert checkpoints(run)[-1] == 3
    assert Run(run).newest().step == 3


def test_a_signal_right_after_a_save_does_not_write_it_again(text: Path, tmp_path: Path) -> None:
    saved: list[int] = []
    config = small_config(save_every=1)
    prepared = runs.text_setup(runs.open_text(text, config), config)
    runs.start(
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


@contextmanager
def no_file_over(size: int) -> Iterator[None]:
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))


@pytest.mark.parametrize("full", ["checkpoint", "metrics"])
def test_a_file_that_cannot_grow_is_reported_and_the_last_checkpoint_stays(
    full: str, text: Path, tmp_path: Path, elman_here: Here
) -> None:
    run = tmp_path / "run"
    stopped_at_12(text, run)
    runs.reopen(Run(run))  # puts the text into the cache, so that no file of the cache is the one that fails
    state = json.loads((run / "checkpoints" / "step-10" / "state.json").read_bytes())
    limit = 8000 if full == "checkpoint" else state["metrics_offset"] + 30
    before = {path: path.read_bytes() for path in (run / "checkpoints").rglob("*") if path.is_file()}
    with no_file_over(limit):
        done = elman_here("train", "--resume", run)
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


def test_a_full_disk_is_reported_and_the_run_can_be_resumed_once_there_is_space(
    text: Path, tiny_disk: Path, tmp_path: Path, cache: Path
) -> None:
    run = tiny_disk / "run"
    done = elman("train", text, "--out", run, *flags(SMALL), cache=cache)
    assert done.returncode == 2
    assert "No space left on device" in done.stderr
    assert "is unchanged" in done.stderr
    assert "Traceback" not in done.stderr
    assert checkpoints(run)
    assert Run(run).newest() is not None
    assert not list(run.rglob(".*"))
    subprocess.run(["mount", "-o", "remount,size=1m", str(tiny_disk)], check=True)
    resume(run)
    start(text, tmp_path / "whole")
    assert outcome(run) == outcome(tmp_path / "whole")


@pytest.mark.parametrize("where", ["text.txt/run", "/proc/run", "n" * 300])
def test_a_folder_that_cannot_be_written_is_reported(where: str, text: Path, tmp_path: Path, elman_here: Here) -> None:
    out = tmp_path / where
    done = elman_here("train", text, "--out", out, *flags(SMALL))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert out.name[:20] in done.stderr
    assert {path.name for path in tmp_path.iterdir()} - {"the-cache"} == {"text.txt"}


# -- words ------------------------------------------------------------------------------------------------------------


def test_resume_refuses_other_options_and_accepts_a_larger_budget(text: Path, tmp_path: Path, elman_here: Here) -> None:
    run = tmp_path / "run"
    start(text, run, steps=6)
    for words in (
        ["--hidden", "16"],
        ["--hidden", "256"],  # an option with its default value is refused too
        ["--seed", "1"],
        ["--tokens", "byte"],
        [text],
        ["--out", "x"],
        ["--preset", "fast"],
    ):
        done = elman_here("train", "--resume", run, *words)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), words
        assert "only --epochs, --steps or --seconds may change" in done.stderr
    assert checkpoints(run) == [5, 6]

    same = elman_here("train", "--resume", run)
    assert same.returncode == 0
    assert "Done after 6 steps" in same.stdout
    assert same.stdout.splitlines()[-1] == f"elman sample {run}"

    config = json.loads((run / "config.json").read_bytes())
    config["environment"]["numpy"] = "1.0.0"
    (run / "config.json").write_text(json.dumps(config))
    more = elman_here("train", "--resume", run, "--steps", "9")
    assert more.returncode == 0
    assert "numpy was 1.0.0" in more.stderr
    assert checkpoints(run) == [6, 9]

    text.write_text(small_text(seed=1))
    changed = elman_here("train", "--resume", run, "--steps", "12")
    assert changed.returncode == 2
    assert "has changed" in changed.stderr
    assert checkpoints(run) == [6, 9]


def test_a_run_that_diverges_to_its_end_says_so(text: Path, tmp_path: Path, elman_here: Here) -> None:
    options = SMALL | CASES["divergence"] | {"retries": 1}
    done = elman_here("train", text, "--out", tmp_path / "run", *flags(options))
    assert done.returncode == 2
    assert "Back to step" in done.stdout
    assert "diverged" in done.stderr
    assert "--learning-rate" in done.stderr
    assert "Traceback" not in done.stderr


def test_tensorboard_files_are_in_the_run_folder(text: Path, tmp_path: Path, elman_here: Here) -> None:
    run = tmp_path / "run"
    done = elman_here("train", text, "--out", run, "--tensorboard", *flags(SMALL))
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list((run / "tensorboard").iterdir())) == 1


def test_training_and_sampling_import_nothing_that_they_do_not_need(text: Path, tmp_path: Path, cache: Path) -> None:
    """Neither scikit-learn nor plotly, nor mpi4py where nobody launched several processes."""
    script = """
import json, sys
from elman.cli.main import main
heavy = {"sklearn", "plotly", "torch", "jax", "pandas", "onnx", "mpi4py", "starlette", "tensorboardX", "optuna"}
for words in json.loads(sys.argv[1]):
    try:
        main(words)
    except SystemExit as end:
        assert not end.code, (words, end)
    assert not heavy & {name.split(".")[0] for name in sys.modules}, (words, heavy & set(sys.modules))
"""
    run = str(tmp_path / "run")
    commands = [
        ["train", str(text), "--out", run, "--sample-every", "20", *flags(SMALL)],
        ["train", "--resume", run, "--steps", "26"],
        ["sample", run, "--length", "20"],
        ["eval", run, str(text)],
    ]
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(commands)],
        env=environment(cache) | {"OMPI_COMM_WORLD_SIZE": "1", "SLURM_NTASKS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert checkpoints(tmp_path / "run")[-1] == 26
