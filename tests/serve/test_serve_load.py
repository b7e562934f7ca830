"""Many clients at once: the same seeded texts, and nobody's place is held by one who has gone."""

from __future__ import annotations

import asyncio
import json
import os
import random

import httpx
import pytest
from serve_tools import KEY, Server

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

DROPPING = int(os.environ.get("ELMAN_TEST_DROPPING", "50"))  # clients, some of whom go away
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

    told = asyncio.run(all_at_once())
    for i, text in enumerate(told):
        body = ask(i)
        model = [char_model, byte_model][i % 2]
        options = {name: body[name] for name in ("temperature", "top_p") if name in body}
        assert body["prompt"] + text == model.sample(body["max_tokens"], prompt=body["prompt"], seed=i, **options)


def test_too_many_texts_are_told_to_come_again(server: Server):
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
    """A client with a connection of its own asks, and goes away at some moment, or stays: was it answered?"""
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
            told = await asyncio.wait_for(reader.read(), patience)
        except TimeoutError:
            writer.transport.abort()
            return None
        finally:
            writer.close()
    assert told.startswith((b"HTTP/1.1 200", b"HTTP/1.1 429")), told[:300]
    return (b"[DONE]" if body["stream"] else b'"usage"') in told or b" 429 " in told[:20]


def test_clients_that_go_away_leave_nothing_behind(server: Server):
    async def crowd(first: int, count: int) -> list[bool | None]:
        places = asyncio.Semaphore(24)
        return await asyncio.gather(*(visit(server, first + i, places) for i in range(count)))

    asyncio.run(crowd(10**6, 50))  # until memory has settled
    server.wait_until_idle()
    before = server.memory()
    told = asyncio.run(crowd(0, DROPPING))
    server.wait_until_idle()
    assert told.count(True) >= DROPPING // 5
    assert told.count(False) == 0
    assert server.memory() - before < 12e6
    assert server.complete(model="char", prompt="The", max_tokens=3)


def test_a_request_that_takes_too_long_is_ended(runs):
    """And a service may run beside other work, in a thread."""
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
def test_what_was_written_is_told_before_the_failure_of_another_text(runs, finish, code):
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
            told = b"".join([event async for event in answer.events()]).decode()
        finally:
            engine.close()
        return [json.loads(event.removeprefix("data: ")) for event in told.split("\n\n")[:-1]]

    *chunks, failure = asyncio.run(events())
    told = [
        (choice["index"], choice["text"], choice["finish_reason"]) for chunk in chunks for choice in chunk["choices"]
    ]
    assert told == [(0, "half", None), (1, "whole", "stop")]
    assert failure["error"]["code"] == code
