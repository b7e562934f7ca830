"""How good the language model is with its defaults, and how much time the kernels save in a whole run.

    .venv/bin/python benchmarks/language.py [SOURCE]

Three runs of fifteen epochs, with seeds 0, 1 and 2; that of seed 0 again with the plain equations; and one of a larger
network. Ten minutes on two cores.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = {
    "seed 0": (["--epochs", "15", "--seed", "0"], "compiled"),
    "seed 0, plain equations": (["--epochs", "15", "--seed", "0"], "reference"),
    "seed 1": (["--epochs", "15", "--seed", "1"], "compiled"),
    "seed 2": (["--epochs", "15", "--seed", "2"], "compiled"),
    "512 units": (["--hidden", "512", "--dropout", "0.1", "--learning-rate", "7.5e-3", "--epochs", "18"], "compiled"),
}


def main(source: str) -> None:
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, (flags, kernels)) in enumerate(RUNS.items()):
            out = Path(folder) / str(number)
            words = [sys.executable, "-m", "elman", "train", source, "--out", str(out), *flags]
            began = time.perf_counter()
            subprocess.run(words, env={**os.environ, "ELMAN_KERNELS": kernels}, check=True, stdout=subprocess.DEVNULL)
            seconds[name] = time.perf_counter() - began
            rows = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
            best = min(row["validation_loss"] for row in rows if row.get("validation_loss") is not None)
            print(f"{name:>24}  {best:.4f} nats a token  {seconds[name]:6.0f} s", flush=True)
    ratio = seconds["seed 0"] / seconds["seed 0, plain equations"]
    print(f"The kernels take {ratio:.2f} of the time of the plain equations.")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "pride-and-prejudice")
