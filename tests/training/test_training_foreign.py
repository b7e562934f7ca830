"""A run folder from somebody else: links, pipes and devices in it are refused, and harm nothing outside it."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import shutil
import stat
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from training_tools import SMALL, command, environment, new_trainer, start

from elman.errors import CheckpointError, RunError, StorageError
from elman.files import create, open_regular, read_regular, temporary_name
from elman.models import runs
from elman.models.language_model import LanguageModel
from elman.serve.metrics_stream import MetricsFollower
from elman.training import Run
from elman.training.arrays import read_arrays, to_bytes
from elman.training.metrics import MetricsFile
from elman.training.storage import read_json, write_file, write_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs links, pipes and devices")

MEMORY = 4 << 30  # bytes of address space: a device that is read whole ends in an error instead of a full machine


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    (folder / "text.txt").write_text("to be or not to be, that is the question. " * 40)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ELMAN_CACHE", str(folder / "cache"))
        start(folder / "text.txt", folder / "run", steps=6, save_every=3)
    return folder / "run"


@pytest.fixture
def run(good: Path, tmp_path: Path) -> Path:
    shutil.copytree(good, tmp_path / "run")
    return tmp_path / "run"


def elman(*words: str | Path, cache: Path, seconds: float = 60, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command with little memory and the reference kernels; TimeoutExpired if it hangs."""
    return subprocess.run(
        command(*words),
        env={**environment(cache), "ELMAN_KERNELS": "reference", **options},  # type: ignore[dict-item]
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )


def link_to_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


KINDS: dict[str, Callable[[Path], None]] = {"link": link_to_device, "pipe": os.mkfifo, "folder": Path.mkdir}


@pytest.mark.parametrize("kind", KINDS)
def test_only_regular_files_are_opened(kind: str, tmp_path: Path) -> None:
    KINDS[kind](tmp_path / "file")
    for attempt in (
        lambda: open_regular(tmp_path / "file"),
        lambda: open_regular(tmp_path / "file", write=True),
        lambda: read_regular(tmp_path / "file", 100),
    ):
        with pytest.raises(OSError, match="not a regular file"):
            attempt()
    with pytest.raises(CheckpointError, match="not a regular file"):
        read_json(tmp_path / "file")
    with pytest.raises(CheckpointError, match="not a regular file"):
        read_arrays(tmp_path / "file")


def test_a_json_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(1 << 40)  # a hole: it takes no space
    with pytest.raises(CheckpointError, match="more than 67,108,864"):
        read_json(tmp_path / "huge.json")


def test_arrays_larger_than_expected_are_not_read(tmp_path: Path) -> None:
    header = json.dumps({"x": {"dtype": "F32", "shape": [1 << 38], "data_offsets": [0, 1 << 40]}}).encode()
    with (tmp_path / "x.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + (1 << 40))
    with pytest.raises(CheckpointError, match=r"float32 of shape \(4,\)"):
        read_arrays(tmp_path / "x.safetensors", {"x": ((4,), np.dtype(np.float32))})


def test_arrays_can_be_exchanged_with_the_safetensors_library_in_both_directions(tmp_path: Path) -> None:
    kinds = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint16", "uint8", "bool")
    arrays = {f"a.{kind}": np.arange(12).reshape(3, 4).astype(kind) for kind in kinds}
    arrays |= {"scalar": np.float32(3).reshape(()), "empty": np.empty((0, 5)), "turned": arrays["a.float64"].T}
    (tmp_path / "ours").write_bytes(to_bytes(arrays))
    save_file({name: np.array(array, order="C") for name, array in arrays.items()}, tmp_path / "theirs")
    for found in (load_file(tmp_path / "ours"), read_arrays(tmp_path / "theirs"), read_arrays(tmp_path / "ours")):
        assert set(found) == set(arrays)
        for name, array in arrays.items():
            assert found[name].dtype == array.dtype
            assert np.array_equal(found[name], array)


def test_a_checkpoint_is_written_without_a_copy_and_read_with_one(text: Path, tmp_path: Path) -> None:
    trainer = new_trainer(text, hidden=700)
    size = trainer.task.parameters.buffer.nbytes
    run = Run.create(tmp_path / "run", {}, {})
    tracemalloc.start()
    try:
        run.save(1, trainer.state.whole().arrays, {})
        written = tracemalloc.get_traced_memory()[1]
        checkpoint = run.newest()
        assert checkpoint is not None
        arrays = checkpoint.arrays()
        read = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    held = sum(array.nbytes for array in arrays.values())
    assert held > 7 * size  # weights, best weights and two moments, each also in the snapshot to roll back to
    assert written < size  # bytes
    assert read < held + size


# -- a run with links in it -------------------------------------------------------------------------------------------


def redo_manifest(step: Path, **facts: object) -> None:
    """Change state.json, and update the manifest."""
    state = json.loads((step / "state.json").read_bytes()) | facts
    (step / "state.json").write_text(json.dumps(state))
    manifest = {
        name: {"sha256": hashlib.sha256((step / name).read_bytes()).hexdigest()}
        for name in ("state.json", "state.safetensors")
    }
    (step / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("kind", ["symbolic", "hard"])
def test_resuming_does_not_truncate_what_the_metrics_are_linked_to(kind: str, run: Path, tmp_path: Path) -> None:
    diary = tmp_path / "diary.txt"
    diary.write_text("years of work\n")
    (run / "metrics.jsonl").unlink()
    (os.symlink if kind == "symbolic" else os.link)(diary, run / "metrics.jsonl")
    redo_manifest(run / "checkpoints" / "step-6", metrics_offset=0)
    with pytest.raises(StorageError, match="regular file" if kind == "symbolic" else "hard link"):
        runs.resume(run, budget_options={"steps": 9})
    assert diary.read_text() == "years of work\n"


def test_metrics_are_not_created_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError):
        MetricsFile(tmp_path / "metrics.jsonl", 0)
    assert not (tmp_path / "elsewhere").exists()


def test_checkpoints_behind_a_link_are_neither_used_nor_deleted(run: Path, good: Path, tmp_path: Path) -> None:
    """Saving deletes older checkpoints: behind a link those of another run."""
    theirs = tmp_path / "theirs"
    shutil.copytree(good / "checkpoints", theirs)
    (theirs / ".step-9.0123456789abcdef").mkdir()
    before = sorted(theirs.rglob("*"))
    shutil.rmtree(run / "checkpoints")
    (run / "checkpoints").symlink_to(theirs)
    with pytest.raises(CheckpointError, match="is a link"):
        runs.resume(run, budget_options={"steps": 9})
    assert sorted(theirs.rglob("*")) == before
    (run / "checkpoints").unlink()
    (run / "checkpoints").mkdir()
    (run / "checkpoints" / "step-6").symlink_to(theirs / "step-6")
    assert Run(run).newest() is None


@pytest.mark.parametrize("name", ["state.json", "state.safetensors", "manifest.json"])
def test_a_checkpoint_with_a_link_in_it_is_passed_over(name: str, run: Path, good: Path) -> None:
    file = run / "checkpoints" / "step-6" / name
    file.unlink()
    file.symlink_to(good / "checkpoints" / "step-6" / name)
    newest = Run(run).newest()
    assert newest is not None
    assert newest.step == 3


@pytest.mark.parametrize("kind", ["link", "pipe"])
@pytest.mark.parametrize("name", ["config.json", "vocabulary.json", "model.safetensors", "metrics.jsonl"])
def test_a_run_with_a_device_or_pipe_in_it_neither_hangs_nor_fills_the_memory(
    name: str, kind: str, run: Path, cache: Path
) -> None:
    (run / name).unlink()
    KINDS[kind](run / name)
    done = elman("show", run, cache=cache)
    if name in ("config.json", "vocabulary.json"):
        assert done.returncode == 2
        assert "regular file" in done.stderr or "has no config.json" in done.stderr
    else:
        assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert MetricsFollower(run / "metrics.jsonl").events() is not None
    if name != "metrics.jsonl":
        with pytest.raises(RunError):
            LanguageModel.load(run)


@pytest.mark.parametrize("source", ["/dev/zero", "/dev/zer?", "pipe"])
def test_a_run_whose_text_is_a_device_fills_no_disk(source: str, run: Path, tmp_path: Path, cache: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    config = json.loads((run / "config.json").read_bytes())
    config["data"]["source"] = str(tmp_path / source)  # an absolute one stays as it is
    (run / "config.json").write_text(json.dumps(config))
    done = elman("sample", run, "--length", "20", "--copies", cache=cache, TMPDIR=str(tmp_path))
    assert done.returncode == 2
    assert "regular file" in done.stderr or "there is no file" in done.stderr


def test_a_card_does_not_read_a_device(run: Path, cache: Path) -> None:
    (run / "README.md").symlink_to("/dev/zero")
    done = elman("card", run, cache=cache)
    assert (done.returncode, "was not made by elman card" in done.stderr) == (2, True)


def test_resuming_with_other_kernels_is_reported_in_one_line(run: Path, cache: Path) -> None:
    """Rounding differs from the first step on, so the model does too."""
    config = json.loads((run / "config.json").read_bytes())
    config["environment"] |= {"kernels": "compiled", "vector_bytes": 64}
    (run / "config.json").write_text(json.dumps(config))
    done = elman("train", "--resume", run, "--steps", "8", cache=cache)
    assert done.returncode == 0
    (note,) = [line for line in done.stderr.splitlines() if line.startswith("Note:")]
    assert "kernels was compiled and is reference" in note
    assert "the model may differ" in note


# -- temporary files --------------------------------------------------------------------------------------------------


def test_temporary_names_cannot_be_guessed(tmp_path: Path) -> None:
    names = {temporary_name(tmp_path / "x").name for _ in range(100)}
    assert len(names) == 100
    assert not any(str(os.getpid()) == name.rpartition(".")[2] for name in names)


def test_a_link_in_the_place_of_a_temporary_file_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("theirs")
    (tmp_path / "guessed").symlink_to(victim)
    with pytest.raises(FileExistsError):
        create(tmp_path / "guessed")
    monkeypatch.setattr("elman.training.storage.temporary_name", lambda path: tmp_path / "guessed")
    with pytest.raises(StorageError):
        write_file(tmp_path / "file", b"new")
    (tmp_path / "guessed").unlink(missing_ok=True)
    (tmp_path / "guessed").symlink_to(tmp_path)
    with pytest.raises(StorageError):
        write_folder(tmp_path / "folder", {"victim": b"new"})
    assert victim.read_text() == "theirs"


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_files_have_the_permissions_that_the_umask_gives(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        write_file(tmp_path / "file", b"x")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize("beside", [".config.json.0123456789abcdef", ".model.safetensors.fedcba9876543210"])
def test_incomplete_files_of_a_killed_process_are_removed_under_the_lock(beside: str, run: Path) -> None:
    (run / beside).write_bytes(b"half")
    (run / "checkpoints" / ".step-9.0123456789abcdef").mkdir()
    with Run(run).lock():
        assert not (run / beside).exists()
        assert not (run / "checkpoints" / ".step-9.0123456789abcdef").exists()


def test_training_into_a_folder_leaves_no_temporary_files(tmp_path: Path, text: Path) -> None:
    start(text, tmp_path / "run", **SMALL | {"steps": 4})
    assert not [path for path in tmp_path.rglob(".*") if path.is_file() or path.is_dir()]
