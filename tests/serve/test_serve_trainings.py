"""Trainings that are started on the page: bounded in memory, disk and number, and ended with their service."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from serve_tools import TEXT, Server

from elman.serve.app import Service, new_service
from elman.serve.guard import AccessPolicy
from elman.serve.limits import Limits
from elman.serve.server import listen, serving
from elman.training.run import Run

SMALL = {"hidden": 8, "batch_size": 4, "window": 16, "warmup_steps": 0}
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@contextmanager
def service(folder: Path, **limits: int) -> Iterator[tuple[Service, httpx.Client]]:
    service = new_service([], AccessPolicy("127.0.0.1"), Limits(**limits), runs=folder)
    with serving(service, listen("127.0.0.1", 0)) as url, httpx.Client(base_url=url, timeout=60) as client:
        yield service, client


def wait_for(condition: Callable[[], object], seconds: float = 100) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def start(client: httpx.Client, text: str = TEXT, name: str = "x", **options) -> httpx.Response:
    return client.post("/v1/elman/trainings", json={"text": text, "name": name, "options": {**SMALL, **options}})


def state(client: httpx.Client, name: str = "x") -> dict:
    return next(t for t in client.get("/v1/elman/trainings").json()["data"] if t["name"] == name)


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


@on_linux
def test_a_training_that_needs_too_much_memory_fails_with_a_message(tmp_path):
    words = " ".join(f"w{i * i % 4001}" for i in range(60_000))
    huge = {"tokens": "word", "hidden": 512, "layers": 2, "batch_size": 128, "window": 256, "dtype": "float64"}
    with service(tmp_path, max_training_memory=10**9) as (running, client):
        answer = start(client, words, **huge, steps=5)
        peak = 0
        if answer.status_code == 201:
            process = running.trainings.known["x"].process
            status = Path(f"/proc/{process.pid}/status")

            def has_ended() -> bool:
                nonlocal peak
                if found := re.search(r"VmHWM:\s+(\d+) kB", status.read_text() if status.exists() else ""):
                    peak = max(peak, int(found[1]) * 1024)
                return peak > 12e8 or state(client)["state"] != "running"

            wait_for(has_ended)
            assert state(client)["state"] == "failed"
        result = answer.json()["error"] if answer.status_code == 400 else state(client)
        assert peak < 12e8
        assert "memory" in result["message"]


def test_trainings_are_bounded_in_number_and_on_the_disk(tmp_path):
    most = 9 << 20
    with service(tmp_path, max_training_disk=most, max_trainings=2) as (_, client):
        assert start(client, hidden=512, steps=3).status_code == 201  # a checkpoint of three times a megabyte
        wait_for(lambda: state(client)["state"] != "running")
        result = state(client)
        assert result["state"] == "failed"
        assert "too large" in result["message"]
        assert str(tmp_path) not in result["message"]
        size = sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file())
        assert size < most
        (tmp_path / "x" / "more").write_bytes(bytes(most))
        assert refusal(start(client, steps=3)) == (409, "training_disk_full")
        shutil.rmtree(tmp_path / "x")
        assert start(client, name="y", steps=3).status_code == 201
        wait_for(lambda: state(client, "y")["state"] == "finished")
        assert refusal(start(client, steps=3)) == (409, "too_many_trainings")


@on_linux
def test_a_training_ends_with_its_service_even_if_that_is_killed(tmp_path):
    server = Server("--runs", tmp_path)
    assert start(server.http, steps=10**6, log_every=1).status_code == 201
    children = Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()
    assert len(children) == 1
    wait_for(lambda: Run(tmp_path / "x").metrics())
    server.process.kill()
    server.http.close()
    server.process.communicate(timeout=60)

    def has_ended() -> bool:
        try:  # the process that adopted it may not have reaped it yet
            return re.search(r"State:\s+Z", Path(f"/proc/{children[0]}/status").read_text()) is not None
        except FileNotFoundError:
            return True

    wait_for(has_ended, 60)
    assert Run(tmp_path / "x").newest() is not None  # and can be resumed


def test_a_training_imports_no_modules_from_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "rich.py").write_text("open('executed', 'w').close()\nraise ImportError('not the real one')\n")
    monkeypatch.chdir(tmp_path)
    with service(tmp_path / "runs") as (_, client):
        assert "at least two tokens" in start(client, "x").json()["error"]["message"]
    assert not (tmp_path / "executed").exists()


def test_errors_of_a_training_contain_no_paths(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with service(tmp_path / "file" / "runs") as (_, client):
        answer = start(client, steps=3)
        assert refusal(answer) == (400, "training_failed")
        assert str(tmp_path) not in answer.text
