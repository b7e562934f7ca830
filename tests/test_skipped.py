"""The end of a test run says what was skipped, and how to run it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest

@pytest.mark.nightly
def test_long(): ...

@pytest.mark.nightly
def test_longer(): ...

def test_page(chromium): ...

def test_short(): ...
"""


def test_the_last_lines_say_what_was_skipped_and_how_to_run_it(tmp_path):
    shutil.copy(Path(__file__).with_name("conftest.py"), tmp_path)
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = nightly")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ELMAN_", "PYTEST_"))}
    for extra in ((), ("-n", "1")):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *extra],
            cwd=tmp_path, env={**environment, "PATH": ""}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        line = next((line for line in done.stdout.splitlines() if line.startswith("Skipped: ")), done.stdout)
        assert "2 × nightly: bash scripts/nightly; 1 × no Chromium: apt-get install" in line
        assert "1 passed, 3 skipped" in done.stdout
