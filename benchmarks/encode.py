"""Encodes a large text and prints the speed and the memory: .venv-bench/bin/python benchmarks/encode.py 1000

The argument is the size in megabytes. The text is made up, and encoded in a fresh process with an empty cache.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from startup import write_text


def measure(megabytes: int = 1000, tokens: str = "char") -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="elman-bench-") as name:
        text = write_text(Path(name) / "text.txt", megabytes * 10**6)
        env = os.environ | {"ELMAN_CACHE": str(Path(name) / "cache")}
        command = [sys.executable, __file__, "--child", str(text), tokens]
        done = subprocess.run(command, env=env, check=True, stdout=subprocess.PIPE, text=True)
        return json.loads(done.stdout)


def encode(path: Path, tokens: str) -> dict[str, float]:
    """In the fresh process. The peak includes pages of mapped files, which the system can drop.

    files: megabytes of these pages at the end.
    """
    from elman.data import open_corpus

    start = time.perf_counter()
    corpus = open_corpus(path, tokens=tokens)
    seconds = time.perf_counter() - start
    status = Path("/proc/self/status").read_text()
    peak, files = (int(re.search(rf"{key}:\s+(\d+)", status)[1]) / 1024 for key in ("VmHWM", "RssFile"))
    size = path.stat().st_size / 1e6
    assert len(corpus.ids) > 0
    return {"megabytes": size, "seconds": seconds, "peak": peak, "files": files}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(encode(Path(sys.argv[2]), sys.argv[3])))
    else:
        got = measure(int(sys.argv[1]) if sys.argv[1:] else 1000)
        speed = got["megabytes"] / got["seconds"]
        print(f"{got['megabytes']:.0f} MB: {speed:.0f} MB/s, peak {got['peak']:.0f} MB, {got['files']:.0f} MB of files")
