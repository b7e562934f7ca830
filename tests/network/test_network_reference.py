"""The gradient checks of test_network_shapes.py in a process with ELMAN_KERNELS=reference."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import sys, pytest
from elman.kernels import KERNELS
assert KERNELS == "reference"
sys.exit(pytest.main(sys.argv[1:]))
"""
# only with dropout (dropout1): it also runs all lines of a pass without dropout
CHECKS = "(gradients and dropout1) or every_token or padded or padding"


@pytest.mark.nightly
def test_the_reference_kernels_pass_the_same_checks():
    tests = Path(__file__).with_name("test_network_shapes.py")
    words = [str(tests), "-k", CHECKS, "-x", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *words, "--no-header", "-rN", "-o", "addopts="],
        env={**os.environ, "ELMAN_KERNELS": "reference"},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.findall(r"(\d+) passed", done.stdout)[0]) >= 84 + 16 + 1 + 4 + 8 + 5
