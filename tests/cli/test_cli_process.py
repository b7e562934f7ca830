"""Tests that need a process: pipes, encodings, signals, imports."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ELMAN = [sys.executable, "-m", "elman"]


def call(*words, **options):
    options = {"capture_output": True, "text": True, "timeout": 120, **options}
    return subprocess.run([*ELMAN, *map(str, words)], check=False, **options)


def test_the_installed_command_trains_and_its_last_line_is_a_command(text, tmp_path):
    script = Path(sys.executable).with_name("elman")
    if not script.exists():
        pytest.skip("the command is not installed beside this Python")
    done = subprocess.run(
        [script, "train", text, "--steps", "2", "--hidden", "8"], check=True, capture_output=True, text=True
    )
    program, *words = shlex.split(done.stdout.splitlines()[-1])
    assert program == "elman"
    done = subprocess.run([script, *words, "--length", "9"], check=True, capture_output=True, text=True)
    assert len(done.stdout) == 10


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["sample", "--help"]])
def test_help_imports_nothing_heavy(words):
    script = f"""
import sys
from elman.cli import main
try:
    main({words!r})
except SystemExit as leave:
    assert leave.code == 0, leave.code
heavy = {{"numpy", "numba", "sklearn", "scipy", "plotly", "safetensors", "pooch"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL, timeout=60)


def test_an_error_is_one_line_and_no_traceback():
    done = call("sample", "nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "elman: There is no run at nowhere. Create one with elman train.\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_is_reported(run):
    with open("/dev/full", "w") as full:
        done = call("sample", run, "--length", "20", capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 2
    assert done.stderr == "elman: the output cannot be written: No space left on device\n"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a shell")
def test_a_closed_stream_gives_no_traceback(run):
    script = f"""
exec 3>&2
{shlex.join(ELMAN)} sample run --length 20 >&-; echo $? >&3
{shlex.join(ELMAN)} eval run - <&-; echo $? >&3
{shlex.join(ELMAN)} sample nowhere 2>&-; echo $? >&3
"""
    done = subprocess.run(["sh", "-c", script], check=True, capture_output=True, text=True, timeout=120)
    assert done.stdout == ""
    assert done.stderr.splitlines() == ["0", "elman: standard input has no text. It is empty.", "2", "2"]


def test_a_terminal_that_lacks_characters_shows_question_marks(run):
    done = call("show", run, env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "1 ? 16 tanh" in done.stdout


@pytest.mark.parametrize("words", [
    ["sample", "run", "--length", "40000"], ["sample", "run", "--length", "10"], ["show", "run"], ["--help"],
])  # fmt: skip
def test_a_pipe_that_is_closed_early_is_no_error(run, words):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen([*ELMAN, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_ctrl_c_inside_exec_ends_with_130_as_anywhere_else(tmp_path):
    (tmp_path / "command.py").write_text("""
from importlib import import_module
cli = import_module("elman.cli.main")
def run(words):
    try:
        exec("raise KeyboardInterrupt")
    except KeyboardInterrupt:
        return 130
cli.run = run
cli.main([])
""")
    done = subprocess.run([sys.executable, "-m", "command"], cwd=tmp_path, check=False, timeout=60)
    assert done.returncode == 130


def test_ctrl_c_saves_and_prints_the_command_that_resumes(elman, text):
    words = ["train", text, "--steps", "100000", "--hidden", "8", "--log-every", "1", "--validate-every", "5"]
    with subprocess.Popen(
        [*ELMAN, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        for line in process.stdout:
            if line.startswith("step"):
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err == "Stopping after this step; press Ctrl-C again to quit at once.\n"
    assert out.splitlines()[-1] == "elman train --resume runs/cat"
    status, written, _ = elman("sample", "runs/cat", "--length", 5)
    assert (status, len(written)) == (0, 6)
