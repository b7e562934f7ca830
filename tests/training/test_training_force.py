"""--force replaces only runs that are not being trained, and deletes nothing until the new run can start."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from test_training_commands import LONG, no_file_over, running, wait_for
from training_tools import SMALL, Here, flags, start

from elman import LanguageModel
from elman.errors import RunError, StorageError
from elman.training import Run

EXAMPLES = "ab\tx\ncd\ty\n" * 8


def contents(folder: Path) -> dict[Path, bytes | None]:
    """All files and folders, hidden ones too."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the runs are: nothing else is written there."""
    (tmp_path / "runs").mkdir()
    return tmp_path / "runs"


@pytest.mark.parametrize("config", [
    '{"name": "web app"}', '{"format": 2}', '{"format": 2, "task": "build"}', '{"format": 2, "task": []}',
    '{"format": 1, "task": "lm"}', "[]", "not JSON",
])  # fmt: skip
def test_force_keeps_a_folder_that_is_not_a_run_of_ours(
    config: str, text: Path, folder: Path, tmp_path: Path, elman_here: Here
) -> None:
    mine = folder / "mine"
    mine.mkdir()
    (mine / "config.json").write_text(config)
    (mine / "thesis.tex").write_text("years of work")
    (tmp_path / "examples.tsv").write_text(EXAMPLES)
    LanguageModel(**SMALL | {"steps": 1}).fit(text).save(tmp_path / "saved")
    assert (
        elman_here("export", tmp_path / "saved", "--to", "torch", "--out", tmp_path / "m.safetensors").returncode == 0
    )
    before = contents(folder)
    for words in (["train", text], ["train", tmp_path / "examples.tsv"], ["import", tmp_path / "m.safetensors"]):
        steps = ["--steps", "2"] if words[0] == "train" else []
        done = elman_here(*words, "--out", mine, "--force", *steps)
        assert done.returncode == 2
        assert "--force replaces runs of Elman only" in done.stderr
        assert "Nothing was changed" in done.stderr
        assert contents(folder) == before
    with pytest.raises(RunError, match="runs of Elman only"):
        LanguageModel.load(tmp_path / "saved").save(mine, force=True)
    assert contents(folder) == before


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such locks")
def test_force_refuses_a_run_in_training_which_continues(
    text: Path, folder: Path, tmp_path: Path, cache: Path, elman_here: Here
) -> None:
    run = folder / "run"
    (tmp_path / "examples.tsv").write_text(EXAMPLES)
    with running("train", text, "--out", run, *flags(LONG), cache=cache) as process:
        wait_for((run / "checkpoints").exists, process)
        for source in (text, tmp_path / "examples.tsv"):
            done = elman_here("train", source, "--out", run, "--force", "--steps", "2")
            assert done.returncode == 2
            assert "is being trained by another process. Stop it first, or choose another folder." in done.stderr
        with pytest.raises(RunError, match="another process"):
            Run.create(run, {"task": "lm"}, {}, force=True)  # also if its training began after the first check
        process.terminate()
        assert process.wait(60) == 130
    assert Run(run).config["config"]["steps"] == LONG["steps"]
    assert LanguageModel.load(run).sample(5)
    assert elman_here("train", text, "--out", run, "--force", *flags(SMALL)).returncode == 0
    assert Run(run).config["config"]["steps"] == SMALL["steps"]
    assert os.listdir(folder) == ["run"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such locks")
def test_two_trainings_that_force_one_folder_at_once_never_share_it(text: Path, folder: Path, cache: Path) -> None:
    run = folder / "run"
    start(text, run, steps=2)
    both = [running("train", text, "--out", run, "--force", *flags(SMALL | {"seed": n}), cache=cache) for n in (1, 2)]
    for process in both:
        process.communicate(timeout=60)
    assert sorted({process.returncode for process in both}) in ([0], [0, 2])  # one after the other, or one refused
    config = json.loads((run / "config.json").read_text())
    seed = config["config"]["seed"]
    whole = folder.parent / "whole"
    start(text, whole, seed=seed)
    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert os.listdir(folder) == ["run"]


@pytest.mark.parametrize("words", [
    ["{text}.not-there"], ["{broken}"], ["{text}", "--window", "4000"], ["{text}", "--hidden", "100000"],
    ["{text}", "--learning-rate", "-1"], ["{text}", "--hidden", "x"], ["{text}", "--no-such-flag"],
])  # fmt: skip
def test_force_deletes_nothing_where_the_new_run_cannot_start(
    words: list[str], text: Path, folder: Path, tmp_path: Path, elman_here: Here
) -> None:
    (tmp_path / "broken.txt").write_bytes(b"\xff\xfe\xfa" * 1000)
    start(text, folder / "run", steps=2)
    before = contents(folder)
    words = [word.format(text=text, broken=tmp_path / "broken.txt") for word in words]
    done = elman_here("train", *words, "--steps", "2", "--out", folder / "run", "--force")
    assert done.returncode == 2
    assert contents(folder) == before


def test_force_keeps_the_old_run_where_the_new_one_cannot_be_written(text: Path, folder: Path) -> None:
    start(text, folder / "run", steps=2)
    before = contents(folder)
    with no_file_over(2000), pytest.raises(StorageError, match="could not be created"):
        Run.create(folder / "run", {"task": "lm"}, {"vocabulary.json": b"x" * 3000}, force=True)
    assert contents(folder) == before


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such renames")
def test_the_old_run_comes_back_where_the_new_one_cannot_take_its_place(
    text: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(text, folder / "run", steps=2)
    before, usual = contents(folder), Path.rename

    def rename(self: Path, target: Path) -> Path:
        if self.name.startswith(".run.") and not self.name.endswith(".old"):
            raise KeyboardInterrupt  # between the two renames
        return usual(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(KeyboardInterrupt):
        Run.create(folder / "run", {"task": "lm"}, {}, force=True)
    assert contents(folder) == before


def test_force_through_a_link_replaces_the_run_that_it_leads_to(text: Path, folder: Path) -> None:
    start(text, folder / "run", steps=2)
    (folder / "link").symlink_to("run")
    Run.create(folder / "link", {"task": "lm", "new": 1}, {}, force=True)
    assert Run(folder / "run").config["new"] == 1
    assert sorted(os.listdir(folder)) == ["link", "run"]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such locks")
def test_a_new_run_is_locked_from_its_first_moment(folder: Path) -> None:
    with Run.create_locked(folder / "run", {"task": "lm"}, {}) as run:
        for taken in (lambda: run.lock().__enter__(), lambda: Run.create(run.path, {"task": "lm"}, {}, force=True)):
            with pytest.raises(RunError, match="another process"):
                taken()
    with run.lock():
        pass


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such locks")
def test_a_run_that_was_replaced_after_it_was_opened_is_not_trained(folder: Path) -> None:
    run = Run.create(folder / "run", {"task": "lm"}, {})
    Run.create(folder / "run", {"task": "lm", "new": 1}, {}, force=True)
    with pytest.raises(RunError, match="replaced by another process"), run.lock():
        pass
