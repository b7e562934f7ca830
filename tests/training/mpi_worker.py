"""What each rank does in the tests of several processes: python mpi_worker.py WHAT FOLDER."""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from training_tools import CASES, small_config, start

from elman.cli import mpi
from elman.cli.main import main
from elman.models import runs
from elman.models.evaluation import CHUNK, mean_loss, shared_mean_loss
from elman.network import language_network
from elman.training.distributed import join
from elman.training.events import Event, Saved

# Equal in real numbers is equal in float64 up to the order of sums; the cases that diverge multiply every difference.
DOUBLE = {name: options | {"dtype": "float64"} for name, options in CASES.items()}
DOUBLE["plain"] |= {"steps": 100}
DOUBLE["plateau"] |= {"batch_size": 4}
SINGLE = {"steps": 100, "dtype": "float32"}
RESUMED = {"dtype": "float64", "schedule": "constant", "dropout": 0.2, "layers": 2}


def elman(*words: object) -> int:
    """The command, in this process."""
    try:
        main([str(word) for word in words])
    except SystemExit as end:
        return int(end.code or 0)


def equal(folder: Path) -> int:
    """The same runs that the test makes in one process; the one that the test has begun is resumed."""
    os.fsync = os.fstat  # this tests numbers, not the disk
    for name, options in DOUBLE.items():
        start(folder / "text.txt", folder / "many" / name, **options)
    start(folder / "text.txt", folder / "many" / "single", **SINGLE)
    validation()
    if mpi.launch().size == 2:  # there is a batch of 2
        sequences(folder / "many")
    return elman("train", "--resume", folder / "many" / "resumed", "--steps=20")


def validation() -> None:
    """A text in more, as many and fewer chunks than ranks, and networks that forget their state, or never do."""
    rng = np.random.default_rng(0)
    for activation, gain in (("tanh", 0.5), ("tanh", 3.0), ("identity", 1.0)):  # 3: chaotic
        network = language_network(5, 6, 2, activation=activation)
        options = {"recurrent": "orthogonal", "gain": gain, "token_scale": 1e-3, "dtype": np.dtype(np.float64)}
        p = network.initial(np.random.default_rng(1), **options)
        for length in (2, CHUNK, CHUNK + 1, CHUNK + 2, 3 * CHUNK, 7 * CHUNK + 99):
            ids = rng.integers(0, 5, length)
            alone, shared = mean_loss(network, p, ids), shared_mean_loss(network, p, ids, join())
            assert abs(shared - alone) < 1e-10, (activation, gain, length, alone, shared)


WORDS = ["".join("abc"[(i * k) % 3] for k in range(1, 2 + i % 6)) for i in range(90)]
SEQUENCES: dict[str, Any] = {
    "hidden": 8, "steps": 12, "batch_size": 10, "learning_rate": 0.02, "warmup_steps": 2, "validation_fraction": 0.2,
    "validate_every": 7,
    "dropout": 0.2, "recurrent_dropout": 0.1, "accumulate": 2, "dtype": "float64", "random_state": 0,
}  # fmt: skip


def sequences(folder: Path) -> None:
    """A class for each word, a tag for each letter, the word turned; batches of 10 and one of 2, for 2 ranks or one."""
    from elman.models import Seq2Seq, SequenceClassifier, SequenceTagger

    first = [word[0] for word in WORDS]
    SequenceClassifier(**SEQUENCES, class_weight="balanced").fit(WORDS, first, out=folder / "classify")
    tags = [[letter.upper() for letter in word] for word in WORDS]
    SequenceTagger(**SEQUENCES, class_weight={"A": 3.0}).fit(WORDS, tags, out=folder / "tag")
    turned = [word[::-1] for word in WORDS]
    for attention in ("dot", "additive"):
        Seq2Seq(**SEQUENCES, attention=attention, embedding=4).fit(WORDS, turned, out=folder / attention)


def full(folder: Path) -> int:
    """The disk of rank 0 is full after its first checkpoint: no file may grow over 50 kB from then on."""

    def fill(event: Event) -> None:
        if isinstance(event, Saved):
            resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

    start(folder / "text.txt", folder / "run", [fill], hidden=32, steps=1000)
    return 0


def broken(folder: Path) -> int:
    """Only rank 1 fails, in the middle of training."""
    calls = 0

    def stopping() -> bool:
        nonlocal calls
        calls += 1
        if calls == 12 and join().rank == 1:
            raise OSError(5, "Input/output error", "the text")
        return False

    config = small_config(steps=1000)
    prepared = runs.text_setup(runs.open_text(folder / "text.txt", config), config)
    runs.start(prepared, out=folder / "run", stopping=stopping)
    return 0


def refused(folder: Path) -> int:
    """Several commands with other arguments on each rank; the exit status is that of the last."""
    status = 0
    for words_of in json.loads((folder / "refused.json").read_bytes()):
        status = elman(*words_of[join().rank])
        assert status == 2, words_of
    return status


def without_mpi(folder: Path) -> int:
    """The command with the environment variables of launchers, but without mpi4py."""
    sys.modules["mpi4py"] = None  # type: ignore[assignment]
    waited: list[float] = []
    mpi.time.sleep = waited.append
    status = 0
    for number, variables in enumerate(json.loads((folder / "launches.json").read_bytes())):
        os.environ.update(variables)
        print(f"launch {number}", file=sys.__stderr__, flush=True)
        status = elman("train", folder / "text.txt", "--out", folder / "run")
        assert status == 2, variables
        assert waited.pop() == (mpi.RANK_0_SECONDS if mpi.launch().rank else 0)  # rank 0 prints before others exit
        for name in variables:
            del os.environ[name]
    return status


SHARED: dict[str, Callable[[Path], int]] = {"equal": equal, "full": full, "broken": broken, "refused": refused}

if __name__ == "__main__":
    what, where = sys.argv[1], Path(sys.argv[2])
    sys.exit(without_mpi(where) if what == "without_mpi" else mpi.run_as_rank(lambda: SHARED[what](where)))
