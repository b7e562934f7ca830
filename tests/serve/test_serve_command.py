"""elman serve as a command: what it refuses, what it warns of, and how it stops."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from serve_tools import Server

from elman.cli.main import attempt


@pytest.mark.parametrize("spoil", ["missing", "no run", "damaged model", "foreign task"])
def test_a_run_that_cannot_be_served_is_refused_at_once(runs, tmp_path, spoil, capsys):
    path = tmp_path / "run"
    if spoil == "no run":
        path.mkdir()
    elif spoil != "missing":
        shutil.copytree(runs / "char", path)
    if spoil == "damaged model":
        (path / "model.safetensors").write_bytes(b"nonsense")
    if spoil == "foreign task":
        config = json.loads((path / "config.json").read_text())
        (path / "config.json").write_text(json.dumps({**config, "task": "dance"}))
    assert attempt(["serve", str(runs / "char"), str(path), "--port", "0"]) == 2
    out, err = capsys.readouterr()
    assert err.startswith("elman: ")
    assert out == ""


def test_a_port_in_use_is_an_error(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert attempt(["serve", "--port", str(port)]) == 2
    assert f"Port {port} of 127.0.0.1 is in use" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--host", "no such host"], ["--port", "99999"], ["--max-tokens", "0"]])
def test_invalid_arguments_are_refused(words, capsys):
    assert attempt(["serve", *words]) == 2
    assert capsys.readouterr().err.startswith("elman: ")


@pytest.mark.parametrize(("flag", "kind"), [("--max-tokens", "a whole number"), ("--max-seconds", "a number")])
def test_a_limit_that_is_not_positive_is_named_as_a_flag(flag, kind, capsys):
    assert attempt(["serve", flag, "0"]) == 2
    assert capsys.readouterr().err.startswith(f"elman: {flag}: expected {kind} above 0 and below 2^53, got 0")


def test_a_running_stream_is_completed_after_sigint(runs):
    server = Server(runs / "char", "--max-tokens", 10**6)
    ended: list[str] = []

    def listen() -> None:
        with server.http.stream(
            "POST", "/v1/completions", json={"max_tokens": 80_000, "stream": True, "seed": 1}
        ) as answer:
            for line in answer.iter_lines():
                begun.set()
                ended.append(line) if "[DONE]" in line else None

    begun = threading.Event()
    thread = threading.Thread(target=listen)
    thread.start()
    assert begun.wait(20)
    assert not ended
    server.process.send_signal(signal.SIGINT)
    thread.join(60)
    out, err = server.process.communicate(timeout=60)
    code = server.process.returncode
    server.http.close()
    assert ended == ["data: [DONE]"]
    assert (code, err) == (0, "")
    assert "Stopped." in out


def test_a_second_signal_ends_at_once(runs):
    server = Server(runs / "char", "--max-tokens", 10**9)
    with server.http.stream("POST", "/v1/completions", json={"max_tokens": 10**9, "stream": True}) as answer:
        lines = answer.iter_lines()
        next(lines)
        server.process.send_signal(signal.SIGINT)
        time.sleep(0.5)
        assert server.process.poll() is None
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(20) == 0
    assert server.stop()[2] == ""


def test_listening_on_all_addresses_prints_a_warning(runs):
    server = Server("--host", "0.0.0.0")
    assert "no runs yet" in server.first_line
    code, _, err = server.stop()
    assert code == 0
    assert "without a key" in err


def test_importing_the_command_is_cheap():
    script = "import sys, elman.cli.serve; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert not {"starlette", "uvicorn", "numba", "numpy", "sklearn"} & set(loaded)
