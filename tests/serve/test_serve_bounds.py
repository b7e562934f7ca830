"""Bounds of a request: memory, threads, processes and time of the event loop."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time

import numpy as np
import pytest
from serve_tools import TEXT
from serve_tools import Server as ServerProcess
from starlette.testclient import TestClient

from elman.models import Sampling, Seq2Seq, SequenceClassifier, SequenceTagger
from elman.serve import json_response as json_module
from elman.serve import trainings as trainings_module
from elman.serve.app import MAX_TURNS_AHEAD, new_service
from elman.serve.detokenizer import Detokenizer
from elman.serve.errors import ApiError
from elman.serve.guard import AccessPolicy
from elman.serve.limits import Limits
from elman.serve.registry import Registry
from elman.serve.run_routes import RunRoutes
from elman.serve.sequence_job import SequenceJob
from elman.serve.server import Server, listen, serving
from elman.serve.streaming import EventStream
from elman.serve.trainings import Training, TrainingRoutes, _error_message
from elman.serve.worker import Worker


def test_logprobs_of_many_long_texts_are_refused(server):
    body = {"model": "char", "prompt": "a" * 19_000, "n": 32, "max_tokens": 0, "echo": True, "logprobs": 20}
    answer = server.post("/v1/completions", **body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "too_many_logprobs"), answer.text[:500]
    assert server.post("/v1/completions", **{**body, "n": 1, "logprobs": 1}).status_code == 200
    assert server.post("/v1/completions", **{**body, "logprobs": None}).status_code == 200


def test_a_response_that_would_fill_the_memory_is_refused_before_any_work(tmp_path):
    tiny = {"hidden": 6, "epochs": 1, "random_state": 0}
    letters = "abcdefghijklmnopq"
    SequenceTagger(**tiny).fit([letters] * 4, [[f"TAG-{letter}" for letter in letters]] * 4).save(tmp_path / "tag")
    Seq2Seq(**tiny).fit(["abc", "bca"] * 4, ["abc", "bca"] * 4).save(tmp_path / "translate")
    server = ServerProcess(tmp_path / "tag", tmp_path / "translate", "--max-seconds", 600)
    before, steps = server.memory(), "request_too_large"
    for body, code, what in (
        ({"model": "tag", "inputs": ["a" * 20_000] * 26}, steps, "131,072 steps of all sequences, got about 520,000"),
        ({"model": "tag", "inputs": ["a" * 400] * 256}, "response_too_large", "bytes of the response"),
        ({"model": "translate", "inputs": ["abc"] * 256, "beam": 32, "limit": 1000}, steps, "steps of all sequences"),
    ):
        began = time.monotonic()
        answer = server.post("/v1/elman/predict", **body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, code), body["model"]
        assert what in answer.json()["error"]["message"]
        assert time.monotonic() - began < 10
    assert server.memory() - before < 100e6
    answer = server.post("/v1/elman/predict", model="tag", inputs=["a" * 2000] * 10)
    assert [len(row["output"]) for row in answer.json()["outputs"]] == [2000] * 10
    assert server.post("/v1/elman/predict", model="translate", inputs=["abc"] * 9, beam=2).status_code == 200
    assert server.stop()[0] == 0


def test_a_computation_whose_client_has_gone_keeps_its_slot_until_it_ends():
    async def late() -> None:
        work, gate, began = Worker(0.1), threading.Event(), []
        with pytest.raises(ApiError) as caught:
            await work.run(gate.wait, 10)
        assert caught.value.status_code == 408
        assert work.pending == 1
        with pytest.raises(ApiError):
            await work.run(began.append, 1)  # waits for a free slot until the timeout
        assert (work.pending, began) == (1, [])
        gate.set()
        work.seconds = 5.0
        assert await work.run(int) == 0
        assert work.pending == 0

    asyncio.run(late())


STUBBORN = """
import signal, sys, time
count = 0
def handle(number, frame):
    global count
    count += 1
    print(f"elman: {count}", file=sys.stderr, flush=True)
signal.signal(signal.SIGTERM, handle)
print("ready", flush=True)
end = time.monotonic() + 30
while time.monotonic() < end:
    time.sleep(0.01)
"""


def test_a_training_gets_one_sigterm_and_is_killed_if_it_does_not_end(monkeypatch, tmp_path):
    monkeypatch.setattr(trainings_module, "STOP_SECONDS", 0.5)
    monkeypatch.setattr(trainings_module, "MAX_SECONDS", 0.1)

    async def stop() -> tuple[Training, str]:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", STUBBORN, stdout=pipe, stderr=pipe)
        assert process.stdout is not None
        await process.stdout.readline()
        trainings = TrainingRoutes(Registry(), Limits(), tmp_path, allowed=True)
        training = Training("x", process, asyncio.create_task(_error_message(process, None)))
        in_time = asyncio.create_task(trainings._stop_in_time(training))  # the time is up …
        await asyncio.sleep(0.3)
        await asyncio.gather(trainings._stop(training), trainings._stop(training), in_time)  # … and clients stop it too
        return training, training.done.result()

    training, message = asyncio.run(asyncio.wait_for(stop(), 20))
    assert message == "1"
    assert training.process.returncode == -9


def test_a_training_is_stopped_when_its_time_is_up(monkeypatch, tmp_path):
    monkeypatch.setattr(trainings_module, "MAX_SECONDS", 0.1)
    monkeypatch.setattr(trainings_module, "STOP_SECONDS", 0.0)

    async def train() -> None:
        trainings = TrainingRoutes(Registry(), Limits(), tmp_path, allowed=True)
        with pytest.raises(ApiError, match="ended before its first step"):
            await trainings._start(TEXT, None, "x", ["--hidden=8", "--seconds=600"])

    began = time.monotonic()
    asyncio.run(train())
    assert time.monotonic() - began < 20


def test_a_training_has_the_name_of_its_run(runs, tmp_path):
    async def train() -> None:
        registry = Registry([runs / "char"])
        trainings = TrainingRoutes(registry, Limits(), tmp_path, allowed=True)
        training = await trainings._start(TEXT, None, "char", ["--hidden=8", "--seconds=600", "--batch-size=4"])
        await trainings.close()
        assert training.name == "char-2"
        assert registry.get("char-2").path == tmp_path / "char-2"
        assert registry.get("char").path == runs / "char"

    asyncio.run(train())


def test_a_stream_counts_from_its_request_on(runs):
    scope = {"type": "http", "method": "GET", "headers": [], "query_string": b""}

    async def gone(*message):
        raise OSError("the client has gone")

    async def ask() -> None:
        served = RunRoutes(Registry([runs / "char"]), max_streams=1)
        answer = await served.events("char")
        with pytest.raises(ApiError) as caught:
            await served.events("char")
        assert caught.value.status_code == 429
        with pytest.raises(BaseException):  # noqa: B017, PT011 - whatever becomes of a client that has gone
            await answer(scope, gone, gone)
        assert served.streams == 0
        assert (await served.events("char")).status_code == 200

    asyncio.run(ask())


def test_health_fails_when_the_engine_has_ended():
    service = new_service([], AccessPolicy("127.0.0.1"))
    with TestClient(service, base_url="http://localhost") as client:
        service.engine.close()
        answer = client.get("/health")
        assert (answer.status_code, answer.json()) == (503, {"status": "failed"})


def test_long_responses_are_serialized_outside_of_the_event_loop(runs, monkeypatch):
    threads, dumps = [], json_module.dumps

    def seen(value):
        threads.append(threading.get_ident())
        return dumps(value)

    monkeypatch.setattr(json_module, "dumps", seen)
    paths = [runs / "char", runs / "names"]
    with TestClient(new_service(paths, AccessPolicy("127.0.0.1")), base_url="http://localhost") as client:
        until = time.monotonic() + 20
        while client.get("/health").status_code == 503:
            assert time.monotonic() < until
        loop = threads[-1]
        for path, body in [
            ("/v1/elman/look/read", {"model": "char", "text": "The cat"}),
            ("/v1/elman/predict", {"model": "names", "inputs": ["anna"]}),
            ("/v1/completions", {"model": "char", "prompt": "The", "max_tokens": 3, "logprobs": 2}),
        ]:
            answer = client.post(path, json=body)
            assert answer.status_code == 200, answer.text
            assert threads[-1] != loop, path


def test_one_long_input_does_not_pad_all_others_to_its_length(runs):
    """256 rows of 20,000 steps and 8 units would be 164 MB, and the inputs as much again."""
    import tracemalloc

    model = SequenceClassifier.load(runs / "names")
    inputs = ["a"] * 255 + ["a" * 20_000]
    alone = model.predict_proba(inputs[-1:])
    tracemalloc.start()
    try:
        together = model.predict_proba(inputs)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60e6
    assert together[-1].tolist() == alone[0].tolist()


def test_the_engine_waits_for_a_busy_event_loop(runs):
    """Requests that arrive at the same time are accepted first."""
    service = new_service([runs / "char"], AccessPolicy("127.0.0.1"))
    stepper = service.registry.get("char").load().stepper
    deltas, rng = [], np.random.default_rng(0)
    job = SequenceJob(
        stepper, np.array([1]), [], Sampling(), rng, 10**9, Detokenizer(stepper.vocabulary), deltas.append
    )
    with TestClient(service, base_url="http://localhost"):
        gate = threading.Event()
        service._loop.call_soon_threadsafe(gate.wait, 10)
        service.engine.submit([job])
        until = time.monotonic() + 10
        while service.engine.turns <= MAX_TURNS_AHEAD:
            assert time.monotonic() < until
            time.sleep(0.01)
        time.sleep(0.1)  # it waits up to a second for the event loop
        assert (service.engine.turns, deltas) == (MAX_TURNS_AHEAD + 1, [])
        gate.set()
        until = time.monotonic() + 10
        while service.engine.turns < 20:
            assert time.monotonic() < until
            time.sleep(0.01)
        service.engine.cancel([job])


def test_the_engine_stays_one_turn_ahead_after_the_loop_was_blocked(monkeypatch):
    service = new_service([], AccessPolicy("127.0.0.1"))
    service._loop = loop = asyncio.new_event_loop()

    def seconds() -> float:
        began = time.monotonic()
        service._deliver([])
        return time.monotonic() - began

    try:
        for _ in range(2):
            assert seconds() < 0.5  # it may be one turn ahead …
            assert seconds() > 0.9  # … and waits at the next until it gives up
            loop.run_until_complete(asyncio.sleep(0))  # the loop is back, and takes both
        with monkeypatch.context() as patch:  # it may also take what is new before the engine waits
            patch.setattr(loop, "call_soon_threadsafe", lambda do, *result: do(*result))
            assert seconds() < 0.5
        assert seconds() < 0.5
    finally:
        loop.close()
        service.engine.close()


@pytest.mark.parametrize("gone", [True, False])
def test_a_stream_ends_when_its_client_disconnects_or_reads_nothing(gone):
    async def events():
        try:
            while True:
                yield b"data: {}\n\n"
        finally:
            ended.set_result(True)

    async def receive():
        if not gone:
            await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(message):
        if message["type"] == "http.response.body":
            await asyncio.Event().wait()

    async def ask() -> None:
        nonlocal ended
        ended = asyncio.get_running_loop().create_future()
        await asyncio.wait_for(EventStream(events(), 60 if gone else 0.05)({}, receive, send), 10)
        assert await asyncio.wait_for(ended, 10)

    ended: asyncio.Future[bool]
    asyncio.run(ask())


def test_endless_headers_are_refused(runs):
    with serving(new_service([runs / "char"], AccessPolicy("127.0.0.1")), listen("127.0.0.1", 0)) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=20) as client:
            client.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100_000)
            assert client.recv(100).startswith(b"HTTP/1.1 400")


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system cannot bound it")
def test_the_connection_of_a_client_that_stops_reading_is_closed():
    listener, server = listen("127.0.0.1", 0, max_seconds=0.5), Server(new_service([], AccessPolicy("127.0.0.1")))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()

    def wait_for(connections: int) -> None:
        until = time.monotonic() + 10
        while len(server.server_state.connections) != connections:
            assert time.monotonic() < until, server.server_state.connections
            time.sleep(0.02)

    try:
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            client.connect(listener.getsockname())
            client.sendall(b"GET /static/plotly.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n")
            wait_for(1)
            wait_for(0)
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="this system cannot bound it")
@pytest.mark.parametrize(("seconds", "milliseconds"), [(1e-9, 1), (3, 6000), (1e15, 2**31 - 1)])
def test_every_valid_max_seconds_bounds_a_connection(seconds, milliseconds):
    with listen("127.0.0.1", 0, Limits(max_seconds=seconds).check().max_seconds) as listener:
        assert listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == milliseconds
