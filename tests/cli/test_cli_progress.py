"""The progress bar of a training, on a real terminal."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pty")
def test_80_columns_are_enough_for_step_time_and_validation(monkeypatch):
    import fcntl
    import pty
    import termios

    monkeypatch.delenv("COLUMNS")
    monkeypatch.setenv("TERM", "xterm")
    Path("names.tsv").write_text("aba\tA\nbab\tB\n" * 10)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    words = ["train", "names.tsv", "--hidden", "4", "--batch-size", "4", "--steps", "1000", "--validate-every", "500"]
    words += ["--threads", "1", "--out", "run"]
    process = subprocess.Popen([sys.executable, "-m", "elman", *words], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    try:
        while piece := os.read(ours, 1 << 16):
            seen += piece
    except OSError:  # EIO: on Linux, the process has closed the terminal
        pass
    os.close(ours)
    assert process.wait(60) == 0
    lines = re.split(r"[\r\n]", re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", seen.decode()))
    bars = [line for line in lines if "training " in line]
    assert max(map(len, bars)) <= 80
    assert re.match(r"training \S+ 1000/1000 \d\d:\d\d loss \S+  validation \d\.\d{4}  accuracy \d\.\d{4}", bars[-1])
    assert not any("gradient" in bar for bar in bars)  # not even before the first validation, when there is space
    assert any(
        re.match(r"step +1000 .* gradient \d", line) for line in lines
    )  # the gradient norm is printed there instead
