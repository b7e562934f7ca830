"""Trains on a corpus that is too large to be held in memory: .venv/bin/python benchmarks/corpus.py --gigabytes 4

Made-up text in several files is encoded on one core and on all of them, each time in a fresh process with an empty
cache; then some steps are trained. Memory is RssAnon: without the pages of mapped files, which the system can drop.
Speed is given per second, and per second of CPU time, which depends less on other programs that run at the same time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from crew import cores
from startup import write_text

FILES = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--folder", help="with room for twice --gigabytes (default: the temporary folder)")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(asked.child[1])])
        print(json.dumps(train(Path(asked.child[0]), asked.steps)))
        return
    with tempfile.TemporaryDirectory(prefix="elman-bench-", dir=asked.folder) as name:
        texts = Path(name) / "texts"
        texts.mkdir()
        for number in range(FILES):
            write_text(texts / f"{number}.txt", round(asked.gigabytes * 1e9 / FILES))
        for used in dict.fromkeys((1, cores())):
            got, size = measure(texts, used, asked.steps), asked.gigabytes * 1e3
            print(
                f"{asked.gigabytes:g} GB in {FILES} files on {used} core{'s' * (used > 1)}: encoded in"
                f" {got['encoding']:.1f} s, {size / got['encoding']:.0f} MB/s ({size / got['cpu']:.0f} MB a second of"
                f" CPU time); {asked.steps} steps of {got['batch_size']:.0f} lanes,"
                f" {got['validations']:.0f} validations of {got['validated']:,.0f} tokens and the compilation in"
                f" {got['training']:.1f} s;"
                f" memory at most {got['anonymous']:.0f} MB without pages of mapped files",
                flush=True,
            )


def measure(texts: Path, used: int, steps: int) -> dict[str, float]:
    """Runs `train` in a child process limited to `used` cores; adds its largest RssAnon in megabytes."""
    cache, anonymous = texts.parent / "cache", 0.0
    command = [sys.executable, __file__, "--steps", str(steps), "--child", str(texts), str(used)]
    env = os.environ | {"ELMAN_CACHE": str(cache)}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as child:
        while child.poll() is None:
            if found := re.search(r"RssAnon:\s+(\d+)", Path(f"/proc/{child.pid}/status").read_text()):
                anonymous = max(anonymous, int(found[1]) / 1024)
            time.sleep(0.02)
        assert child.stdout is not None
        out = child.stdout.read()
    if child.returncode:
        raise SystemExit(child.returncode)
    shutil.rmtree(cache)
    return {**json.loads(out), "anonymous": anonymous}


def train(texts: Path, steps: int) -> dict[str, float]:
    from elman.config import Config
    from elman.data import open_corpus
    from elman.models import runs

    began = time.perf_counter()
    before = time.process_time()
    corpus = open_corpus(texts)
    cpu, encoded = time.process_time() - before, time.perf_counter()
    config = Config().with_options(steps=steps, validate_every=max(1, steps // 2), save_every=max(1, steps // 2))
    prepared = runs.text_setup(corpus, config)
    validations = 0

    def count(event: object) -> None:
        nonlocal validations
        validations += getattr(event, "validation_loss", None) is not None

    runs.start(prepared, out=texts.parent / "cache" / "run", listeners=[count])
    return {
        "encoding": encoded - began,
        "cpu": cpu,
        "training": time.perf_counter() - encoded,
        "validations": validations,
        "batch_size": prepared.batch,
        "validated": prepared.validation_size,
    }


if __name__ == "__main__":
    main()
