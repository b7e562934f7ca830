"""Starts a service in a process of its own, as a user does, or in a thread of the test."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from elman.serve.app import new_service
from elman.serve.guard import AccessPolicy
from elman.serve.server import listen, serving

KEY = "open sesame"
TEXT = "The cat sat on the mat, and the dog sat on the log. Who sat on the cat?\n" * 40
ACCENTS = "Voilà: l'été à Škofja Loka, «привет» — 日本語, naïve café 🙂.\n" * 40


class Client:
    """A client of a service whose models are loaded."""

    def __init__(self, url: str, key: str = "") -> None:
        self.url = url
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self.http = httpx.Client(base_url=url, headers=headers, timeout=60)
        until = time.monotonic() + 240  # kernels that are not in the cache yet are compiled first
        while self.http.get("/health").status_code == 503:
            if time.monotonic() > until:
                self.http.close()
                raise AssertionError("the models are not loaded")
            time.sleep(0.05)

    def post(self, path: str, **body: Any) -> httpx.Response:
        return self.http.post(path, json=body)

    def complete(self, **body: Any) -> str:
        answer = self.post("/v1/completions", **body)
        assert answer.status_code == 200, answer.text
        text: str = answer.json()["choices"][0]["text"]
        return text

    def metric(self, name: str) -> float:
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.http.get("/metrics").text, re.M)
        assert found is not None
        return float(found[1])

    def wait_until_idle(self) -> None:
        until = time.monotonic() + 20
        while self.metric("elman_texts_active"):
            assert time.monotonic() < until, "a text is stuck"
            time.sleep(0.02)


class Server(Client):
    def __init__(
        self,
        *words: object,
        key: str = "",
        cwd: Path | None = None,
        prefix: tuple[object, ...] = (),
        flags: tuple[str, ...] = (),
        **environment: str,
    ) -> None:
        """`prefix` is a command that runs the service, `flags` are for Python."""
        clean = {name: value for name, value in os.environ.items() if name != "ELMAN_API_KEY"}
        self.process = subprocess.Popen(
            [*map(str, prefix), sys.executable, *flags, "-m", "elman", "serve", "--port", "0", *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env={**clean, **environment, **({"ELMAN_API_KEY": key} if key else {})},
        )
        assert self.process.stdout is not None
        self.first_line = self.process.stdout.readline()
        found = re.search(r"http://\S+", self.first_line)
        if found is None:
            raise AssertionError(self.process.communicate(timeout=60))
        super().__init__(found[0], key)

    def memory(self) -> int:
        """Resident memory of the process in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024

    def stop(self, *numbers: int) -> tuple[int, str, str]:
        """Send signals; returns the exit code, standard output and standard error."""
        self.http.close()
        for number in numbers or (signal.SIGTERM,):
            if self.process.poll() is None:
                self.process.send_signal(number)
                time.sleep(0.1)
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err


class Recorder(logging.Handler):
    """Records what a service in a process of its own would write to standard error."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(self.format(record))


@contextmanager
def in_thread(*paths: Path, runs: Path, port: int = 0) -> Iterator[Client]:
    """A service without a key in a thread, which must not log a warning."""
    heard, loggers = Recorder(), [logging.getLogger(name) for name in (None, "uvicorn")]
    listener = listen("127.0.0.1", port)
    try:
        with listener, serving(new_service(paths, AccessPolicy("127.0.0.1"), runs=runs), listener) as url:
            for logger in loggers:  # by now uvicorn has set up its own
                logger.addHandler(heard)
            asked = Client(url)
            try:
                yield asked
            finally:
                asked.http.close()
    finally:
        for logger in loggers:
            logger.removeHandler(heard)
    assert not heard.messages, heard.messages


def until(page, expression: str, arg: Any = None) -> None:
    """Wait for an expression; Playwright's own way needs eval, which the policy of the page forbids."""
    end = time.monotonic() + 30
    while not page.evaluate(expression, arg):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(30)
