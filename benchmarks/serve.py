"""The service under load: 32 texts of 200 tokens, H = 256, all at the same time and one after another.

    .venv/bin/python benchmarks/serve.py [--rounds 5]

First the engine alone, then a service in a process of its own with streaming clients: characters a second, and how long
a client waits for its first token. A minute on two cores; the machine should have nothing else to do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np

from elman.data import find_source
from elman.models import LanguageModel, Sampling
from elman.serve.detokenizer import Detokenizer
from elman.serve.engine import Engine
from elman.serve.sequence_job import Delta, SequenceJob
from elman.serve.stepper import Stepper

TEXTS, TOKENS, HIDDEN, PROMPT = 32, 200, 256, "The "


def engine_speed(model: LanguageModel, together: bool) -> float:
    """Characters a second."""
    stepper, engine, done = Stepper(model.text_sampler), Engine(), threading.Semaphore(0)

    def receive(delta: Delta) -> None:
        if delta.finish:
            done.release()

    def new(seed: int) -> SequenceJob:
        ids = model.vocabulary_.encode(PROMPT).astype(np.int64)
        rng, transcript = np.random.default_rng([seed, 0]), Detokenizer(stepper.vocabulary)
        return SequenceJob(stepper, ids, [], Sampling(), rng, TOKENS, transcript, receive)

    try:
        engine.submit([new(0)])
        done.acquire()
        began = time.perf_counter()
        if together:
            engine.submit([new(seed) for seed in range(TEXTS)])
            for _ in range(TEXTS):
                done.acquire()
        else:
            for seed in range(TEXTS):
                engine.submit([new(seed)])
                done.acquire()
        return TEXTS * TOKENS / (time.perf_counter() - began)
    finally:
        engine.close()


async def stream(host: str, port: int, seed: int) -> tuple[float, int]:
    """Seconds to the first token, and the characters of a streamed completion."""
    body = {"prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0.8, "seed": seed, "stream": True}
    sent = json.dumps(body).encode()
    head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nConnection: close\r\n"
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(f"{head}Content-Length: {len(sent)}\r\n\r\n".encode() + sent)
    first, received = 0.0, b""
    while piece := await reader.read(65536):
        received += piece
        if not first and b'"text":"' in received:
            first = time.perf_counter() - began
    writer.close()
    assert b"[DONE]" in received, received[:500]
    chunks = [json.loads(line[6:]) for line in received.splitlines() if line.startswith(b"data: {")]
    return first, sum(len(chunk["choices"][0]["text"]) for chunk in chunks)


async def clients(host: str, port: int, count: int, requests: int) -> tuple[float, list[float]]:
    """Concurrent clients, each with several requests one after another: characters per second, and the latencies."""

    async def client(number: int) -> list[tuple[float, int]]:
        return [await stream(host, port, number * requests + i) for i in range(requests)]

    began = time.perf_counter()
    received = [one for some in await asyncio.gather(*map(client, range(count))) for one in some]
    seconds = time.perf_counter() - began
    return sum(characters for _, characters in received) / seconds, [first for first, _ in received]


def ready(url: str) -> bool:
    try:
        with urllib.request.urlopen(url):
            return True
    except urllib.error.HTTPError:  # 503 while it loads
        return False


def http_speed(run: Path, rounds: int) -> None:
    words = [sys.executable, "-m", "elman", "serve", str(run), "--port", "0"]
    environment = {name: value for name, value in os.environ.items() if name != "ELMAN_API_KEY"}
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stdout is not None
        found = re.search(r"http://(\S+):(\d+)", server.stdout.readline())
        assert found is not None
        host, port = found[1], int(found[2])
        while not ready(f"http://{host}:{port}/health"):
            time.sleep(0.1)
        asyncio.run(clients(host, port, 2, 2))
        alone, together, waits = [], [], []
        for _ in range(rounds):
            alone.append(asyncio.run(clients(host, port, 1, TEXTS))[0])
            speed, firsts = asyncio.run(clients(host, port, TEXTS, 4))
            together.append(speed)
            waits += firsts
        server.terminate()
    a, b = statistics.median(alone), statistics.median(together)
    print(f"HTTP, streamed: {b:,.0f} characters/s by {TEXTS} clients, {a:,.0f} one after another: {b / a:.2f} times")
    p50, p95 = (1000 * float(np.percentile(waits, p)) for p in (50, 95))
    print(f"first token at that load: median {p50:.0f} ms, p95 {p95:.0f} ms, longest {1000 * max(waits):.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        model = LanguageModel(hidden=HIDDEN, steps=60, batch_size=16).fit(find_source("python-docs"))
        run = Path(folder) / "run"
        model.save(run)
        pairs = [(engine_speed(model, True), engine_speed(model, False)) for _ in range(3 * rounds)]
        a, b = (statistics.median(speeds) for speeds in zip(*pairs, strict=True))
        ratio = statistics.median(together / alone for together, alone in pairs)
        print(f"engine: {a:,.0f} characters/s together, {b:,.0f} one after another: {ratio:.2f} times")
        http_speed(run, rounds)


if __name__ == "__main__":
    main()
