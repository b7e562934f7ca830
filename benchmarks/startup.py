"""What a user waits for: imports, the first character, the first compilation."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

ELMAN = str(Path(sys.executable).with_name("elman"))


class Took(NamedTuple):
    wall: float
    cpu: float


def start_up(rounds: int) -> dict[str, float]:
    """Seconds, each the best of several runs; the compilation is measured once."""
    with tempfile.TemporaryDirectory(prefix="elman-bench-") as name:
        folder = Path(name)
        env = os.environ | {"ELMAN_KERNELS": "compiled", "ELMAN_CACHE": str(folder / "cache")}
        text = write_text(folder / "text.txt", 200_000)

        def train(number: int) -> Took:
            out = folder / f"run-{number}"
            return took([ELMAN, "train", str(text), "--steps", "2", "--out", str(out)], env)

        cold = train(0)
        warm = [train(number) for number in range(1, rounds + 1)]
        sample = [ELMAN, "sample", str(folder / "run-0"), "--length", "200"]
        first_character(sample, env)  # compiles what only sampling needs
        return {
            "import": best(rounds, lambda: took([sys.executable, "-c", "import elman"], env).wall),
            "version": best(rounds, lambda: took([ELMAN, "--version"], env).wall),
            "first character": best(rounds, lambda: first_character(sample, env)),
            "compile wall": cold.wall - min(t.wall for t in warm),
            "compile cpu": cold.cpu - min(t.cpu for t in warm),
        }


def best(rounds: int, measure: Callable[[], float]) -> float:
    return min(measure() for _ in range(rounds))


def took(command: list[str], env: dict[str, str]) -> Took:
    before, start = os.times(), time.perf_counter()
    done = subprocess.run(command, check=False, env=env, capture_output=True, text=True)
    wall, after = time.perf_counter() - start, os.times()
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return Took(wall, after.children_user + after.children_system - before.children_user - before.children_system)


def first_character(command: list[str], env: dict[str, str]) -> float:
    """In a terminal, as a user sees it: into a pipe, output waits until a buffer is full."""
    terminal, its_end = pty.openpty()
    start = time.perf_counter()
    with subprocess.Popen(command, env=env, stdin=its_end, stdout=its_end, stderr=subprocess.DEVNULL) as process:
        os.close(its_end)
        try:
            os.read(terminal, 1)
            wall = time.perf_counter() - start
            while os.read(terminal, 4096):
                pass
        except OSError:  # how Linux says that the other end is closed
            pass
        finally:
            os.close(terminal)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} failed with exit code {process.returncode}")
    return wall


def write_text(path: Path, characters: int) -> Path:
    """Lines of made-up words over ASCII letters, the same each time."""
    rng, part = np.random.default_rng(0), 1 << 20
    letters = np.frombuffer(b"etaoinshrdlucmfwypvbgkjqxzETAOINSHRDLU.,;'    ", np.uint8)
    with path.open("wb") as file:
        for start in range(0, characters, part):
            text = rng.choice(letters, min(part, characters - start))
            text[79::80] = ord("\n")
            file.write(text.tobytes())
    return path
