"""Many clients at once: the same seeded texts, and no jobs of disconnected clients."""

from __future__ import annotations

import asyncio
import json
import os
import random
import resource
import signal

import httpx
import pytest
from serve_tools import KEY, Server

from elman.models import LanguageModel
from elman.serve.app import new_service
from elman.serve.completion_request import CompletionParams
from elman.serve.completions import ChoiceBuilder, Completions, CompletionTask, DeltaQueue
from elman.serve.engine import Engine
from elman.serve.guard import AccessPolicy
from elman.serve.limits import Limits
from elman.serve.registry import Registry
from elman.serve.schemas import CompletionRequest
from elman.serve.sequence_job import Delta
from elman.serve.server import listen, serving

CLIENTS = int(os.environ.get("ELMAN_TEST_CLIENTS", "50"))  # some of which disconnect
HEADERS = {"Authorization": f"Bearer {KEY}"}


async def complete(client: httpx.AsyncClient, **body) -> str:
    while True:
        answer = await client.post("/v1/completions", json=body)
        if answer.status_code != 429:
            assert answer.status_code == 200, answer.text
            return answer.json()["choices"][0]["text"]
        assert answer.headers["Retry-After"] == "1"
        await asyncio.sleep(0.05)


def ask(i: int) -> dict:
    prompt = "The cat sat on the mat"[: 1 + i % 20]
    settings = [{"temperature": 0.8}, {"temperature": 0.8}, {"temperature": 1.2, "top_p": 0.8}, {"temperature": 0}]
    return {
        "model": ["char", "byte"][i % 2],
        "prompt": prompt,
        "max_tokens": 40 + 13 * (i % 9),
        "seed": i,
        **settings[i % 4],
    }


def test_a_seeded_text_is_the_same_under_load(server, char_model, byte_model):
    async def all_at_once() -> list[str]:
        async with httpx.AsyncClient(base_url=server.url, headers=HEADERS, timeout=60) as client:
            return await asyncio.gather(*(complete(client, **ask(i)) for i in range(60)))

    result = asyncio.run(all_at_once())
    for i, text in enumerate(result):
        body = ask(i)
        model = [char_model, byte_model][i % 2]
        options = {name: body[name] for name in ("temperature", "top_p") if name in body}
        assert body["prompt"] + text == model.sample(body["max_tokens"], prompt=body["prompt"], seed=i, **options)


def test_too_many_texts_get_429_and_retry_after(server: Server):
    answers = []

    async def all_at_once() -> None:
        async with httpx.AsyncClient(base_url=server.url, headers=HEADERS, timeout=60) as client:
            body = {"model": "byte", "max_tokens": 4096, "n": 16}
            answers.extend(await asyncio.gather(*(client.post("/v1/completions", json=body) for _ in range(6))))

    asyncio.run(all_at_once())
    refused = [answer for answer in answers if answer.status_code != 200]
    assert 1 <= len(refused) <= 4
    for answer in refused:
        assert (answer.status_code, answer.headers["Retry-After"]) == (429, "1")
        assert answer.json()["error"]["code"] == "rate_limit_exceeded"
    server.wait_until_idle()


async def visit(server: Server, seed: int, places: asyncio.Semaphore) -> bool | None:
    """Send a request on a new connection and maybe disconnect after a while; whether it was answered."""
    rng = random.Random(seed)
    body = {"model": "byte", "max_tokens": rng.choice([5, 500, 4096]), "seed": seed, "stream": rng.random() < 0.7}
    patience = rng.random() * 0.1 if rng.random() < 0.7 else None
    sent = json.dumps(body).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {KEY}\r\nConnection: close\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(sent)}\r\n\r\n"
    async with places:
        reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rsplit(":", 1)[1]))
        try:
            writer.write(head.encode() + sent)
            result = await asyncio.wait_for(reader.read(), patience)
        except TimeoutError:
            writer.transport.abort()
            return None
        finally:
            writer.close()
    assert result.startswith((b"HTTP/1.1 200", b"HTTP/1.1 429")), result[:300]
    return (b"[DONE]" if body["stream"] else b'"usage"') in result or b" 429 " in result[:20]


def test_disconnected_clients_leave_no_jobs_and_no_memory_behind(server: Server):
    async def crowd(first: int, count: int) -> list[bool | None]:
        places = asyncio.Semaphore(24)
        return await asyncio.gather(*(visit(server, first + i, places) for i in range(count)))

    asyncio.run(crowd(10**6, 50))  # until memory has settled
    server.wait_until_idle()
    before = server.memory()
    result = asyncio.run(crowd(0, CLIENTS))
    server.wait_until_idle()
    assert result.count(True) >= CLIENTS // 5
    assert result.count(False) == 0
    assert server.memory() - before < 12e6
    assert server.complete(model="char", prompt="The", max_tokens=3)


def test_an_aborted_stream_affects_neither_another_stream_nor_the_service(runs):
    server = Server(runs / "char", "--max-tokens", 10**6)
    body = {"max_tokens": 20_000, "temperature": 0.8, "stream": True}
    with server.http.stream("POST", "/v1/completions", json={**body, "seed": 1}) as kept:
        lines = kept.iter_lines()
        received = [next(lines)]
        with server.http.stream("POST", "/v1/completions", json={**body, "max_tokens": 10**6}) as aborted:
            next(aborted.iter_lines())
        assert server.http.get("/health").status_code == 200
        assert server.complete(prompt="The", max_tokens=3)
        received += lines
    assert "data: [DONE]" in received
    chunks = [json.loads(line.removeprefix("data: ")) for line in received if line.startswith("data: {")]
    text = "".join(choice["text"] for chunk in chunks for choice in chunk["choices"])
    assert text == LanguageModel.load(runs / "char").sample(20_000, seed=1, temperature=0.8)
    server.wait_until_idle()
    code, _, err = server.stop(signal.SIGTERM)
    assert (code, err) == (0, "")


async def request(url: str, number: int) -> bytes | None:
    """A completion over a new connection; None for every second one, which is aborted after a while."""
    rng = random.Random(number)
    body = {"max_tokens": rng.choice([3, 30, 300]), "seed": number, "stream": rng.random() < 0.5}
    sent = json.dumps(body).encode()
    head = "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", int(url.rsplit(":", 1)[1]))
    try:
        writer.write(f"{head}Content-Length: {len(sent)}\r\n\r\n".encode() + sent)
        if number % 2:
            await asyncio.sleep(rng.random())
            writer.transport.abort()
            return None
        return await asyncio.wait_for(reader.read(), 120)
    finally:
        writer.close()


@pytest.mark.parametrize("count", [100, pytest.param(2000, marks=pytest.mark.nightly)])
def test_concurrent_requests_half_of_them_aborted(runs, count):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = 3 * count + 500  # connections are bounded by half of the open files
    if hard != resource.RLIM_INFINITY and hard < files:
        pytest.skip(f"this test needs {files} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, files), hard))  # the service inherits it
    try:
        server = Server(runs / "char", "--max-connections", count + 100)

        async def all_at_once() -> list[bytes | None]:
            return await asyncio.gather(*(request(server.url, number) for number in range(count)))

        responses = asyncio.run(all_at_once())
        server.wait_until_idle()
        complete = [response for response in responses if response is not None]
        assert len(complete) == count // 2
        for response in complete:
            assert response.startswith((b"HTTP/1.1 200", b"HTTP/1.1 429")), response[:300]
            assert b" 429 " in response[:20] or b"[DONE]" in response or b'"usage"' in response
        assert sum(response.startswith(b"HTTP/1.1 200") for response in complete) >= 16
        assert server.http.get("/health").status_code == 200
        assert server.complete(prompt="The", max_tokens=3)
        assert server.stop(signal.SIGTERM)[::2] == (0, "")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_request_that_takes_too_long_times_out(runs):
    """The service runs in a thread here."""
    service = new_service([runs / "char"], AccessPolicy("127.0.0.1"), Limits(max_seconds=0.2, max_tokens=10**9))
    with serving(service, listen("127.0.0.1", 0)) as url, httpx.Client(base_url=url, timeout=30) as client:
        while client.get("/health").status_code == 503:
            pass
        answer = client.post("/v1/completions", json={"max_tokens": 10**9})
        assert (answer.status_code, answer.json()["error"]["code"]) == (408, "timeout")
        answer = client.post("/v1/completions", json={"max_tokens": 10**9, "stream": True})
        assert '"code":"timeout"' in answer.text
        assert "[DONE]" not in answer.text
        assert service.engine.active == 0
        assert client.post("/v1/completions", json={"max_tokens": 2}).status_code == 200
    assert not service.engine._thread.is_alive()


@pytest.mark.parametrize(("finish", "code"), [("timeout", "timeout"), ("error", "internal_error")])
def test_generated_text_is_sent_before_the_failure_of_another_text(runs, finish, code):
    async def events() -> list[str]:
        registry, inbox = Registry([runs / "char"]), DeltaQueue()
        asked = CompletionParams(CompletionRequest(stream=True, n=2), Limits())
        _, stepper = await registry.language_model("char")
        choices = [ChoiceBuilder(index, stepper, asked, "") for index in range(2)]
        inbox.put(0, Delta("half", tokens=4))
        inbox.put(0, Delta(finish=finish))
        inbox.put(1, Delta("whole", tokens=5, finish="stop"))
        engine = Engine()
        try:
            service = Completions(engine, registry, Limits(), lambda seconds: None)
            answer = CompletionTask(service, asked, inbox, [None, None], choices, 0, 0.0)
            result = b"".join([event async for event in answer.events()]).decode()
        finally:
            engine.close()
        return [json.loads(event.removeprefix("data: ")) for event in result.split("\n\n")[:-1]]

    *chunks, failure = asyncio.run(events())
    result = [
        (choice["index"], choice["text"], choice["finish_reason"]) for chunk in chunks for choice in chunk["choices"]
    ]
    assert result == [(0, "half", None), (1, "whole", "stop")]
    assert failure["error"]["code"] == code
