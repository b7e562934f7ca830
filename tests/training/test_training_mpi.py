"""Several processes: real ranks under a real mpirun, with a time limit, so that a hang is a failure."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpi_worker import DOUBLE, RESUMED, SINGLE, sequences
from training_tools import PLAIN, SMALL, command, environment, flags, resume, rows, small_text, start

from elman.training import Run, Saved
from elman.training.arrays import read_arrays
from elman.training.distributed import World
from elman.training.mpi_launch import Launch, fair_threads, launch
from elman.training.storage import check_folder

MPIRUN = Path(sys.executable).with_name("mpirun")
WORKER = Path(__file__).with_name("mpi_worker.py")
LONGEST = 60  # seconds; a launch takes two or three

needs_mpi = pytest.mark.skipif(
    not MPIRUN.exists(), reason="no mpirun beside this Python: pip install 'elman[mpi-local]'"
)


def mpi_environment(cache: Path) -> dict[str, str]:
    """Waiting ranks yield the CPU: there may be more ranks than cores."""
    paths = os.pathsep.join([str(WORKER.parent), os.environ.get("PYTHONPATH", "")])
    return {**environment(cache), "OMPI_MCA_mpi_yield_when_idle": "1", "PYTHONPATH": paths}


@contextmanager
def launched(*groups: tuple[int, list[str]], cache: Path, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """mpirun -n N words : -n M words …, ended if a test leaves it running."""
    words = [str(MPIRUN), "--allow-run-as-root", "--oversubscribe"]
    for number, (count, each) in enumerate(groups):
        words += [*([":"] if number else []), "-n", str(count), *map(str, each)]
    process = subprocess.Popen(
        words,
        env=mpi_environment(cache) | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()  # mpirun forwards it to the ranks
            try:
                process.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()


def finish(process: subprocess.Popen[str]) -> subprocess.CompletedProcess[str]:
    out, err = process.communicate(timeout=LONGEST)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def mpirun(*groups: tuple[int, list[str]], cache: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    with launched(*groups, cache=cache, **variables) as process:
        return finish(process)


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The error messages of the ranks, without those of mpirun."""
    assert "Traceback" not in done.stderr, done.stderr
    return [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("elman:")]


def train(text: Path, out: Path, **options: object) -> list[str]:
    return command("train", text, "--out", out, *flags(SMALL | options))


def worker(what: str, folder: Path) -> list[str]:
    return [sys.executable, str(WORKER), what, str(folder)]


def wait_for(done: Callable[[], bool]) -> None:
    until = time.monotonic() + LONGEST
    while not done():
        assert time.monotonic() < until
        time.sleep(0.02)


def last_state(run: Path) -> dict[str, np.ndarray]:
    folder = max((run / "checkpoints").iterdir(), key=lambda path: int(path.name.removeprefix("step-")))
    return read_arrays(folder / "state.safetensors", finite=False)


# -- equal ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of one process, and their text: its validation part is longer than two chunks."""
    folder = tmp_path_factory.mktemp("equal")
    (folder / "text.txt").write_text(small_text(26_000), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ELMAN_CACHE", str(folder / "the-cache"))
        patch.setenv("ELMAN_THREADS", "1")
        patch.setattr("os.fsync", os.fstat)
        for name, options in (DOUBLE | {"single": SINGLE, "resumed": RESUMED | {"steps": 20}}).items():
            start(folder / "text.txt", folder / "one" / name, **options)
        start(folder / "text.txt", folder / "begun", **RESUMED | {"steps": 12})  # where there is a row anyway
        sequences(folder / "one")
    return folder


def same_arrays(one: Path, many: Path, **close: float) -> None:
    expected, got = last_state(one), last_state(many)
    assert set(got) == set(expected)
    for array in expected:
        np.testing.assert_allclose(got[array], expected[array], err_msg=f"{many.name}, {array}", **close)


def same_language_runs(one: Path, many: Path) -> None:
    single = many.name == "single"
    # float32 sums in another order: after 100 steps the sixth digit may differ
    close = {"rtol": 1e-5, "atol": 5e-6} if single else {"rtol": 1e-10, "atol": 1e-10}
    same_arrays(one, many, **close)
    expected_rows, got_rows = rows(one), rows(many)
    assert [row["step"] for row in got_rows] == [row["step"] for row in expected_rows]
    for mine, theirs in zip(got_rows, expected_rows, strict=True):
        for key in ("loss", "gradient_norm", "validation_loss", "learning_rate"):
            if theirs.get(key) is not None and abs(theirs[key]) < 1e3:  # larger values diverge before a rollback
                assert mine[key] == pytest.approx(theirs[key], rel=1e-6 if single else 1e-9), (many.name, key)
        assert mine.get("sample") == theirs.get("sample")


def same_runs_of_sequences(one: Path, many: Path) -> None:
    same_arrays(one, many, rtol=1e-10, atol=1e-10)
    for mine, theirs in zip(rows(many), rows(one), strict=True):
        for key in ("step", "loss", "validation_loss", "gradient_norm"):
            expected = None if theirs[key] is None else pytest.approx(theirs[key], rel=1e-10)
            assert mine[key] == expected, (many.name, key)
        assert mine.get("validation_accuracy") == theirs.get("validation_accuracy")
        judged = mine["validation_loss"] is not None and one.name in ("classify", "tag")
        assert ("validation_accuracy" in mine) == judged


@needs_mpi
@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.nightly)])  # 4 rows: 2 and 2; 1, 1 and 2
def test_several_ranks_train_as_one_process(size: int, alone: Path) -> None:
    """Texts, a run that one process has begun, and (two ranks) whole sequences: one launch for all of them."""
    one, many = alone / "one", alone / "many"
    shutil.rmtree(many, ignore_errors=True)
    shutil.copytree(alone / "begun", many / "resumed")
    done = mpirun((size, worker("equal", alone)), cache=alone / "the-cache")
    assert (done.returncode, said(done)) == (0, [])
    assert done.stdout.count("Continuing from step 12") == 1  # only one rank prints
    assert f"{size} ranks" in done.stdout
    for name in [*DOUBLE, "single", "resumed"]:
        same_language_runs(one / name, many / name)
    for task in ("classify", "tag", "dot", "additive") if size == 2 else ():
        same_runs_of_sequences(one / task, many / task)


@needs_mpi
@pytest.mark.nightly
def test_a_run_can_be_resumed_with_any_number_of_ranks(alone: Path, tmp_path: Path) -> None:
    """One process, then two ranks, three, and one process again: as if it had been one all the time."""
    cache, text = alone / "the-cache", alone / "text.txt"
    options = RESUMED | {"validate_every": 10}  # each part is validated at its end, and the best step is kept
    start(text, tmp_path / "whole", **options | {"steps": 40})
    start(text, tmp_path / "run", **options | {"steps": 10})
    for size, steps in ((2, 20), (3, 30)):
        done = mpirun((size, command("train", "--resume", tmp_path / "run", f"--steps={steps}")), cache=cache)
        assert (done.returncode, said(done)) == (0, [])
        assert done.stdout.count("Continuing from step") == 1  # only one rank prints
        assert f"{size} ranks" in done.stdout
    assert resume(tmp_path / "run", steps=40).finished.step == 40
    same_arrays(tmp_path / "whole", tmp_path / "run", rtol=1e-10, atol=1e-10)
    # the last row before each change of budget is one more than an uninterrupted run has
    steps = [row["step"] for row in rows(tmp_path / "run")]
    assert steps == sorted({*(row["step"] for row in rows(tmp_path / "whole")), 10, 20, 30})


# -- stopping ---------------------------------------------------------------------------------------------------------


def checkpoints(run: Path) -> list[int]:
    return sorted(int(path.name[5:]) for path in run.glob("checkpoints/step-*"))


def process_of(rank: int, run: Path) -> int:
    """The process whose environment says that it is this rank of the training into this folder."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words, variables = (folder / "cmdline").read_bytes(), (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if str(run).encode() in words and f"OMPI_COMM_WORLD_RANK={rank}".encode() in variables:
            return int(folder.name)
    raise AssertionError(f"no rank {rank}")


@needs_mpi
@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds ranks in /proc")
def test_a_killed_rank_ends_all_and_the_message_says_how_to_resume(text: Path, tmp_path: Path, cache: Path) -> None:
    run = tmp_path / "run"
    words = train(text, run, steps=10**6, schedule="constant", log_every=50, validate_every=10**7)
    with launched((3, words), cache=cache, **PLAIN) as process:
        wait_for(lambda: len(checkpoints(run)) == 2)
        os.kill(process_of(2, run), signal.SIGKILL)
        done = finish(process)
    assert done.returncode != 0
    assert done.stdout.count("3 ranks") == done.stdout.count("Run folder") == 1  # only one rank prints
    assert checkpoints(run)
    for step in checkpoints(run):
        check_folder(run / "checkpoints" / f"step-{step}")
    (message,) = said(done)
    saved = int(re.findall(r"up to step (\d+) is saved", message)[0])
    assert saved in checkpoints(run)
    assert "fewer ranks" in message
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("mpirun ")]
    words = line.split()
    assert words[3:] == ["elman", "train", "--resume", str(run)]
    on = max(checkpoints(run)) + 5
    assert resume(run, steps=on).finished.step == on


@needs_mpi
@pytest.mark.nightly
def test_sigusr1_saves_and_stops_all_ranks_at_the_same_step(text: Path, tmp_path: Path, cache: Path) -> None:
    run = tmp_path / "run"
    options = {"schedule": "constant", "save_every": 10**6, "validate_every": 10**6, "log_every": 1}
    with launched((3, train(text, run, steps=10**6, **options)), cache=cache) as process:
        wait_for(lambda: (run / "metrics.jsonl").exists() and len(Run(run).metrics()) > 5)
        process.send_signal(signal.SIGUSR1)
        done = finish(process)
    assert done.returncode == 130
    assert said(done) == []
    step = int(re.findall(r"Stopped after step (\d+), everything is saved", done.stdout)[0])
    assert checkpoints(run) == [step]
    assert rows(run)[-1]["step"] == step
    saved: list[int] = []
    resume(run, [lambda event: saved.append(event.step) if isinstance(event, Saved) else None], steps=step + 2)
    assert saved == [step + 2]


def test_sigusr1_saves_and_stops_one_process_too_and_may_come_often(text: Path, tmp_path: Path, cache: Path) -> None:
    run = tmp_path / "run"
    words = train(text, run, steps=10**6, schedule="constant", save_every=10**6, validate_every=10**6, log_every=1)
    with subprocess.Popen(words, env=environment(cache) | PLAIN, stdout=subprocess.PIPE, text=True) as process:
        wait_for(lambda: (run / "metrics.jsonl").exists() and len(Run(run).metrics()) > 5)
        for _ in range(5):
            process.send_signal(signal.SIGUSR1)
        out, _ = process.communicate(timeout=LONGEST)
    assert process.returncode == 130
    assert checkpoints(run) == [int(re.findall(r"Stopped after step (\d+)", out)[0])]


# -- what goes wrong --------------------------------------------------------------------------------------------------


@needs_mpi
def test_a_full_disk_on_rank_0_ends_all_ranks_and_loses_nothing(text: Path, tmp_path: Path, cache: Path) -> None:
    done = mpirun((2, worker("full", tmp_path)), cache=cache, **PLAIN)
    assert done.returncode == 2
    (message,) = said(done)
    assert re.match(r"elman: rank 0: .*could not be written.*What was saved before is unchanged", message)
    assert checkpoints(tmp_path / "run") == [5]
    check_folder(tmp_path / "run" / "checkpoints" / "step-5")
    assert resume(tmp_path / "run", steps=24).finished.step == 24


@needs_mpi
def test_an_error_on_one_rank_ends_all_of_them(text: Path, tmp_path: Path, cache: Path) -> None:
    done = mpirun((2, worker("broken", tmp_path)), cache=cache, **PLAIN)
    assert done.returncode == 2
    assert said(done) == ["elman: rank 1: the text: Input/output error"]


@needs_mpi
def test_ranks_that_cannot_train_together_are_refused_with_one_message(text: Path, tmp_path: Path, cache: Path) -> None:
    """In one launch: after a refusal all ranks are where they were."""
    live, other = tmp_path / "live", tmp_path / "other.txt"
    other.write_text(text.read_text(encoding="utf-8").replace("a", "e", 1), encoding="utf-8")
    start(text, live, steps=4)

    def new(source: Path = text, **options: object) -> list[str]:
        return train(source, tmp_path / "new", **options)[3:]  # without python -m elman

    good = new()
    #             rank 0, 1, 2: the message
    refused = [
        ([good, new(hidden=9), good], "rank 1 differs from rank 0 in --hidden: .* 8, got 9"),
        ([good, new(other), good], "rank 1 differs from rank 0 in the text"),
        ([good, good, new(tmp_path / "nowhere.txt")], "rank 2: .*nowhere.txt"),
        ([new(batch_size=2)] * 3, "rows of the batch: .* one for each of the 3 ranks"),
        ([new(color="red")] * 3, "elman train has no flag --color"),
        ([new(Path("-"))] * 3, "Only rank 0 can read standard input"),
        ([["train", "--resume", str(live), "--steps=8"]] * 3, ".*is being trained by another process"),
    ]
    (tmp_path / "refused.json").write_text(json.dumps([words for words, _ in refused]))
    with Run(live).lock():
        done = mpirun((3, worker("refused", tmp_path)), cache=cache, **PLAIN)
    assert done.returncode == 2
    for (_, message), line in zip(refused, said(done), strict=True):
        assert re.match(f"elman: {message}", line)
    assert not (tmp_path / "new").exists()
    assert Run(live).config["steps"] == 4


@needs_mpi
def test_ranks_that_do_not_find_each_other_are_refused(text: Path, tmp_path: Path, cache: Path) -> None:
    """As with another MPI's mpirun: each process believes that it is alone."""
    lost = ["env", "-u", "PMIX_NAMESPACE", "-u", "PMIX_RANK", *(f"-uPMIX_SERVER_URI{v}" for v in (2, 21, 3, 4, 41, 51))]
    done = mpirun((2, [*lost, *train(text, tmp_path / "run")]), cache=cache, **PLAIN)
    assert done.returncode == 2
    (message,) = said(done)
    assert re.match(r"elman: OMPI_COMM_WORLD_SIZE is 2, but MPI sees 1 process here", message)
    assert not (tmp_path / "run").exists()


def test_a_launch_without_mpi_is_refused_and_only_the_first_says_so(text: Path, tmp_path: Path, cache: Path) -> None:
    launches = [
        ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "0"),
        ("PMI_SIZE", "PMI_RANK", "0"),
        ("SLURM_NTASKS", "SLURM_PROCID", "0"),
        ("SLURM_NTASKS", "SLURM_PROCID", "1"),  # last: rank 1 silences this process for good
    ]
    variables = [{size: "4", of_rank: rank} for size, of_rank, rank in launches]
    (tmp_path / "launches.json").write_text(json.dumps(variables))
    done = subprocess.run(
        worker("without_mpi", tmp_path),
        env=mpi_environment(cache) | PLAIN,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    before, *errors = re.split(r"launch \d\n", done.stderr)
    assert before == ""
    for (size, _, rank), error in zip(launches, errors, strict=True):
        assert error.startswith(f"elman: {size} is 4, but this Python has no MPI") if rank == "0" else error == ""
        assert rank == "1" or "pip install 'elman[mpi]'" in error
    assert not (tmp_path / "run").exists()


@needs_mpi
def test_a_slurm_job_without_srun_gets_advice(text: Path, tmp_path: Path, cache: Path) -> None:
    done = subprocess.run(
        train(text, tmp_path / "run"),
        env=mpi_environment(cache) | PLAIN | {"SLURM_NTASKS": "4", "SLURM_PROCID": "0"},
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
    )
    assert done.returncode == 2
    assert re.match(r"elman: SLURM_NTASKS is 4, but MPI sees 1 process here\. .*srun.*env -u SLURM_NTASKS", done.stderr)


# -- small parts ------------------------------------------------------------------------------------------------------


def test_inside_a_slurm_job_mpirun_takes_precedence() -> None:
    slurm = {"SLURM_NTASKS": "8", "SLURM_PROCID": "3"}
    mpi = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}
    assert launch({}) == Launch("", 1, 0, "")
    assert launch({"SLURM_NTASKS": "", "PMI_SIZE": "many"}) == Launch()
    assert launch(slurm)[1:] == (8, 3, "SLURM_NTASKS")
    assert launch(slurm | mpi)[1:] == (2, 1, "OMPI_COMM_WORLD_SIZE")
    assert launch(slurm | {"PMI_SIZE": "4", "PMI_RANK": "2"})[1:] == (4, 2, "PMI_SIZE")
    assert launch({"SLURM_NTASKS": "8"}).rank == 0


@pytest.mark.parametrize(("cores_of", "threads"), [
    ([{0, 1, 2, 3}], [4]),
    ([{0, 1, 2, 3}] * 2, [2, 2]),  # not bound: shared evenly
    ([{0}, {1}], [1, 1]),  # bound to a core each
    ([{0, 1}, {2, 3}], [2, 2]),
    ([{0, 1}] * 3, [1, 1, 1]),  # more ranks than cores
    ([{0, 1, 2, 3, 4, 5, 6, 7}] * 3, [2, 2, 2]),
    ([{0, 1, 2, 3}, {2, 3}], [3, 1]),  # the two cores that both may use count half for each
])  # fmt: skip
def test_threads_are_the_cores_shared_among_ranks_of_a_machine(cores_of: list[set[int]], threads: list[int]) -> None:
    assert [fair_threads(cores_of, rank) for rank in range(len(cores_of))] == threads


def rank_of(rank: int, size: int) -> World:
    world = World()
    world.rank, world.size = rank, size
    return world


@given(st.integers(0, 200), st.integers(1, 40))
def test_shares_cover_all_items_once_and_differ_in_size_by_at_most_one(count: int, size: int) -> None:
    shares = [rank_of(rank, size).share(count) for rank in range(size)]
    assert [i for share in shares for i in range(share.start, share.stop)] == list(range(count))
    sizes = [share.stop - share.start for share in shares]
    assert max(sizes) - min(sizes) <= 1
