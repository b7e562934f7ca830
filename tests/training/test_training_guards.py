"""What must not happen: invalid memory access, deleting the run of another process, two writers of one run."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from training_tools import SMALL, Here, flags, small_config, start

from elman import SequenceClassifier
from elman.errors import RangeError, RunError, StorageError
from elman.models import runs, tasks
from elman.network import Batch, HeadNetwork, Stack
from elman.training import Run


def made(inputs: int = 5, outputs: int = 5):
    network = HeadNetwork(Stack(inputs, 4), outputs)
    rng = np.random.default_rng(0)
    return network, network.initial(rng, recurrent="orthogonal", gain=1, token_scale=0.3, dtype=np.float32)


@pytest.mark.parametrize("bad", [-1, 5, 99_999_999])
def test_ids_out_of_range_never_reach_compiled_code(bad: int) -> None:
    network, p = made()
    good, wrong = np.zeros((3, 2), np.int64), np.full((3, 2), bad)
    state = network.stack.zero_state(2, np.float32)
    with pytest.raises(RangeError, match="x: expected ids from 0 to 4"):
        network.read(network.pack(p), wrong, state)
    for x, y, name in ((wrong, good, "x"), (good, wrong, "y")):
        with pytest.raises(RangeError, match=f"{name}: expected ids from 0 to 4"):
            network.loss_and_gradients(p, Batch(x, y, state=state), p.zeros(), normalizer=1)


def test_a_budget_in_seconds_does_not_count_the_first_step(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small_config(seconds=5, steps=None)
    prepared = runs.text_setup(runs.open_text(text, config), config)
    usual, calls = tasks.TextTask.loss_and_gradients, []

    def slow_at_first(self, gradients, step):
        calls.append(step)
        time.sleep(1.0 if len(calls) == 1 else 0.01)  # the first step compiles
        return usual(self, gradients, step)

    monkeypatch.setattr(tasks.TextTask, "loss_and_gradients", slow_at_first)
    assert 0.01 <= runs.seconds_per_step(prepared, measured=0.3) < 0.5


def test_a_run_that_appeared_meanwhile_is_not_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "elman.training.run.refuse_existing", lambda path, force: None
    )  # the other process created it just after the check
    Run.create(tmp_path / "run", {"task": "first"}, {})
    with pytest.raises(StorageError, match="could not be created"):
        Run.create(tmp_path / "run", {"task": "second"}, {})
    assert Run(tmp_path / "run").config["task"] == "first"
    assert os.listdir(tmp_path / "run") == ["config.json"]


def test_creating_a_run_changes_nothing_beside_its_folder(tmp_path: Path) -> None:
    (tmp_path / ".notes.old").mkdir()
    Run.create(tmp_path / "notes", {"task": "lm"}, {})
    Run.create(tmp_path / "notes", {"again": 1}, {}, force=True)
    assert sorted(os.listdir(tmp_path)) == [".notes.old", "notes"]
    assert Run(tmp_path / "notes").config["again"] == 1


def test_two_processes_cannot_write_into_one_run(tmp_path: Path) -> None:
    Run.create(tmp_path / "run", {}, {})
    first, second = Run(tmp_path / "run").lock(), Run(tmp_path / "run").lock()
    with first, pytest.raises(RunError, match="another process"), second:
        pass
    with Run(tmp_path / "run").lock():
        pass


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such locks")
@pytest.mark.parametrize("task", ["lm", "classify"])
@pytest.mark.parametrize("budget", [{}, {"steps": 9}, {"seconds": 1.0}])
def test_resuming_a_run_in_training_changes_nothing(
    text: Path, tmp_path: Path, task: str, budget: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run"
    if task == "lm":
        start(text, path, steps=4)
    else:
        SequenceClassifier(hidden=4, steps=4).fit(["ab", "cd"] * 8, [0, 1] * 8, out=path)
    half = [".model.safetensors.123", ".config.json.123", "checkpoints/.step-8.123/state.json"]
    with Run(path).lock():
        for name in half:  # as they are while the other process writes them
            (path / name).parent.mkdir(exist_ok=True)
            (path / name).write_bytes(b"half")
        before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
        with pytest.raises(RunError, match="another process"):
            runs.resume(path, budget_options=budget)
        Run(path).newest()  # only reads
        assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before
    newest = Run.newest

    def asked(self: Run) -> object:
        with pytest.raises(RunError, match="another process"), Run(path).lock():
            pass
        return newest(self)

    monkeypatch.setattr(Run, "newest", asked)  # the checkpoint must be read while the lock is held
    runs.resume(path, budget_options=budget | {"seconds": None})
    assert not any((path / name).exists() for name in half)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such locks")
def test_checking_whether_a_run_is_trained_does_not_prevent_training(tmp_path: Path) -> None:
    import fcntl

    Run.create(tmp_path / "run", {}, {})
    folder = os.open(tmp_path / "run", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_SH)  # as the service does to check whether the run is being trained
    threading.Timer(0.05, os.close, [folder]).start()
    with Run(tmp_path / "run").lock():
        pass


def test_a_run_from_a_pipe_can_be_resumed(text: Path, tmp_path: Path, elman_here: Here) -> None:
    options = SMALL | {"steps": 4}
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cp", str(text), str(pipe)]):
        assert elman_here("train", pipe, "--out", tmp_path / "run", *flags(options)).returncode == 0
    pipe.unlink()
    more = elman_here("train", "--resume", tmp_path / "run", "--steps", "6")
    assert (more.returncode, "Done after 6 steps" in more.stdout) == (0, True)


def test_resuming_a_saved_model_is_refused(text: Path, tmp_path: Path) -> None:
    from elman import LanguageModel

    LanguageModel(hidden=4, batch_size=2, window=5, steps=2).fit(text).save(tmp_path / "saved")
    with pytest.raises(RunError, match="saved model, without checkpoints"):
        runs.resume(tmp_path / "saved")
