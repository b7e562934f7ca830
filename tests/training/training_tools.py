"""Small runs for the tests of training: in this process, and as commands."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from elman.config import Config
from elman.files import cache_root
from elman.models import runs
from elman.models.fitted import FittedModel
from elman.training import Event, Trainer

SENTENCE = """the state of a net is what it has read and a gradient goes back in time through every step of it, so that
weights learn: slowly or not at all. Each letter"""

KERNELS = cache_root() / "kernels"  # as it is before a test sets ELMAN_CACHE

SMALL = {
    "hidden": 8,
    "embedding": 0,
    "batch_size": 4,
    "window": 10,
    "learning_rate": 0.02,
    "warmup_steps": 2,
    "steps": 24,
    "validate_every": 6,
    "save_every": 5,
    "log_every": 4,
    "snapshot_every": 8,
    "dropout": 0.0,
    "recurrent_dropout": 0.0,
    "patience": 0,
}

# name: options that differ from SMALL. Each case runs other parts of the loop.
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "dropout": {"dropout": 0.3, "sample_every": 9},
    "early stop": {"learning_rate": 0.5, "optimizer": "sgd", "patience": 2, "validate_every": 2, "clip_norm": 5.0,
                   "steps": 200, "schedule": "constant"},
    "plateau": {"schedule": "plateau", "plateau_patience": 1, "validate_every": 2, "learning_rate": 0.6, "steps": 40,
                "optimizer": "sgd", "clip_norm": 5.0, "batch_size": 2},
    "divergence": {"activation": "identity", "optimizer": "momentum", "learning_rate": 8.0, "warmup_steps": 60,
                   "clip_norm": 0.0, "schedule": "constant", "retries": 12, "validate_every": 4},
    "divergence, far back": {"activation": "identity", "optimizer": "sgd", "learning_rate": 16.0, "warmup_steps": 60,
                             "clip_norm": 0.0, "schedule": "constant", "retries": 12, "validate_every": 4,
                             "snapshot_every": 16, "save_every": 3},
    "accumulation": {"accumulate": 3, "optimizer": "rmsprop"},
    "two layers": {"layers": 2, "embedding": 3, "optimizer": "adamw", "weight_decay": 0.1},
    "truncation": {"bptt_block": 2, "bptt_steps": 4, "optimizer": "momentum", "clip_value": 0.1},
    "sequences": {"sequences": "lines", "dropout": 0.2, "accumulate": 2, "layers": 2, "cell": "gru"},
    "bytes": {"tokens": "byte", "dtype": "float64", "optimizer": "adagrad"},
}  # fmt: skip


def small_text(characters: int = 3000, seed: int = 0) -> str:
    draw = random.Random(seed)
    known, words = SENTENCE.split(" "), list[str]()
    while sum(map(len, words)) + len(words) < characters:
        words.append(known[int(draw.random() * len(known))])
    return " ".join(words)[:characters]


def as_lines(text: Path | str) -> Path | str:
    """The text with a line break in place of every sixth space, next to it if it is a file."""
    words = (text.read_text(encoding="utf-8") if isinstance(text, Path) else text).split(" ")
    lines = "\n".join(" ".join(words[start : start + 6]) for start in range(0, len(words), 6))
    if isinstance(text, str):
        return lines
    new = text.with_name(f"{os.getpid()}.txt")
    new.write_text(lines, encoding="utf-8")
    return new.replace(text.with_name("lines.txt"))


def small_config(**options: Any) -> Config:
    return Config().with_options(**(SMALL | options))


class Killed(BaseException):
    """Simulates SIGKILL: nothing catches it, so nothing is cleaned up."""


Listeners = Sequence[Callable[[Event], None]]
Here = Callable[..., subprocess.CompletedProcess[str]]  # the fixture elman_here: the command in this process


def start(text: Path | str, out: Path | None, listeners: Listeners = (), **options: Any) -> FittedModel:
    config = small_config(**options)
    text = as_lines(text) if config.sequences == "lines" else text
    prepared = runs.text_setup(runs.open_text(text, config), config)
    return runs.start(prepared, out=out, listeners=listeners)


def new_trainer(text: Path | str, listeners: Listeners = (), **options: Any) -> Trainer:
    """A trainer of a language model without a run folder."""
    config = small_config(**options)
    text = as_lines(text) if config.sequences == "lines" else text
    prepared = runs.text_setup(runs.open_text(text, config), config)
    task = prepared.new_task(prepared.new_model())
    return Trainer(task, config, steps=runs.step_budget(prepared, task), listeners=listeners)


def rows(run: Path) -> list[dict[str, Any]]:
    """The rows of metrics.jsonl, every line of which must be complete."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def outcome(run: Path) -> tuple[bytes, list[dict[str, Any]], bytes, dict[str, Any]]:
    """Everything that must be equal, however often a run was killed: also the state that a resume starts from."""
    last = max((run / "checkpoints").iterdir(), key=lambda path: int(path.name.removeprefix("step-")))
    facts = json.loads((last / "state.json").read_bytes())
    timeless = [{k: v for k, v in row.items() if k not in ("seconds", "tokens_per_second")} for row in rows(run)]
    facts = {k: v for k, v in facts.items() if k not in ("seconds", "metrics_offset")}
    return (run / "model.safetensors").read_bytes(), timeless, (last / "state.safetensors").read_bytes(), facts


def flags(options: dict[str, Any]) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]


PLAIN = {"ELMAN_KERNELS": "reference"}  # loads a second faster, where no number is compared


def environment(cache: Path) -> dict[str, str]:
    """One thread, warnings as errors, and this cache, except for compiled kernels, which all tests share."""
    cache.mkdir(parents=True, exist_ok=True)
    KERNELS.mkdir(parents=True, exist_ok=True)
    if not (cache / "kernels").exists():
        (cache / "kernels").symlink_to(KERNELS)
    threads = {"ELMAN_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return {**os.environ, **threads, "ELMAN_CACHE": str(cache), "PYTHONWARNINGS": "error"}


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "elman", *map(str, words)]


def elman(*words: str | Path, cache: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a command, as a user would, until it ends."""
    return subprocess.run(
        command(*words),
        env=environment(cache),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


def resume(run: Path, listeners: Listeners = (), **budget: Any) -> FittedModel:
    return runs.resume(run, budget_options=budget, listeners=listeners)
