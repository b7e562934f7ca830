"""Clients that send slowly, or nothing, or read nothing do not block others."""

from __future__ import annotations

import contextlib
import http.client
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from serve_tools import Server

from elman.serve import connections as connections_module
from elman.serve.app import new_service
from elman.serve.connections import Connection, bounds
from elman.serve.guard import AccessPolicy
from elman.serve.limits import Limits
from elman.serve.server import listen, serving

HEAD = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
NOTHING, HALF_A_HEADER = b"", HEAD
HALF_A_BODY = HEAD + b'Content-Length: 1000\r\n\r\n{"prompt": '
READS_NOTHING = b"GET /static/plotly.min.js HTTP/1.1\r\nHost: localhost\r\n\r\n"


def files(most: int) -> tuple[object, ...]:
    """A command that runs another one with this limit of open files."""
    return "bash", "-c", f'ulimit -n {most} && exec "$0" "$@"'


def address(url: str) -> tuple[str, int]:
    host, port = url.removeprefix("http://").split(":")
    return host, int(port)


@contextlib.contextmanager
def slow_clients(url: str, count: int, sent: bytes) -> Iterator[list[socket.socket]]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < count + 200:
        pytest.skip(f"this test needs {count + 200} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, count + 200), hard))
    clients: list[socket.socket] = []
    try:
        for _ in range(count):
            client = socket.socket()
            clients.append(client)
            client.settimeout(20)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            client.connect(address(url))
            with contextlib.suppress(ConnectionError):  # already closed by the service, which is allowed
                client.sendall(sent)
        yield clients
    finally:
        for client in clients:
            client.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def health(url: str) -> float:
    """Seconds until /health has answered, on a new connection."""
    connection, began = http.client.HTTPConnection(*address(url), timeout=30), time.monotonic()
    try:
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        return time.monotonic() - began
    finally:
        connection.close()


@pytest.mark.parametrize(("most", "count"), [(256, 400), pytest.param(1024, 1400, marks=pytest.mark.nightly)])
def test_health_answers_while_there_are_more_slow_connections_than_files(most, count):
    server = Server(prefix=files(most))
    for sent in (NOTHING, HALF_A_HEADER, HALF_A_BODY):
        with slow_clients(server.url, count, sent):
            assert max(health(server.url) for _ in range(50)) < 20, sent
    with slow_clients(server.url, count, READS_NOTHING):
        until = time.monotonic() + 120
        while time.monotonic() < until:
            with contextlib.suppress(ConnectionError):  # while as many are being answered as it can take
                assert health(server.url) < 20
                break
        else:
            pytest.fail("clients that read nothing keep others out")
    code, _, err = server.stop()
    assert (code, err) == (0, "")


@pytest.mark.parametrize("sent", [NOTHING, HALF_A_HEADER], ids=["nothing", "half a header"])
def test_headers_must_be_complete_in_time_even_if_bytes_keep_coming(monkeypatch, sent):
    monkeypatch.setattr(connections_module, "HEADER_SECONDS", 0.5)
    service, listener = new_service([], AccessPolicy("127.0.0.1")), listen("127.0.0.1", 0)
    with serving(service, listener) as url, socket.create_connection(address(url), timeout=0.1) as client:
        client.sendall(sent)
        began = time.monotonic()
        with contextlib.suppress(ConnectionError):
            while time.monotonic() - began < 20:
                with contextlib.suppress(TimeoutError):
                    if not client.recv(100):
                        break
                if sent:
                    client.sendall(b"X")
        assert 0.4 < time.monotonic() - began < 10


def test_each_request_of_a_connection_has_its_own_timeout(monkeypatch):
    monkeypatch.setattr(connections_module, "HEADER_SECONDS", 0.5)
    with serving(new_service([], AccessPolicy("127.0.0.1")), listen("127.0.0.1", 0)) as url, httpx.Client() as client:
        for _ in range(3):  # more than HEADER_SECONDS in all, the connection kept between them
            assert client.get(f"{url}/health").status_code in (200, 503)
            time.sleep(0.4)
        with socket.create_connection(address(url), timeout=20) as slow:
            slow.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            result = b""
            while b'"status"' not in result:
                result += slow.recv(10_000)
            slow.sendall(b"GET /health HTTP")
            with contextlib.suppress(ConnectionError):
                assert slow.recv(10_000) == b""


def test_a_request_that_is_being_answered_keeps_its_connection(runs):
    limits = Limits(max_connections=8, max_tokens=10**6)
    with serving(new_service([runs / "char"], AccessPolicy("127.0.0.1"), limits), listen("127.0.0.1", 0)) as url:
        while httpx.get(f"{url}/health").status_code == 503:
            time.sleep(0.05)
        body = {"max_tokens": 3000, "stream": True, "seed": 1}
        with httpx.stream("POST", f"{url}/v1/completions", json=body, timeout=60) as answer:
            lines = answer.iter_lines()
            next(lines)
            with slow_clients(url, 50, HALF_A_HEADER):
                assert max(health(url) for _ in range(5)) < 20
            assert list(lines)[-2:] == ["data: [DONE]", ""]


def test_a_connection_accepted_during_shutdown_is_closed(monkeypatch, caplog):
    made, accepted, service = Connection.connection_made, threading.Event(), new_service([], AccessPolicy("127.0.0.1"))

    def made_late(connection, transport):  # as when asyncio accepts it while the server closes its socket
        accepted.set()
        if service.closing.is_set():
            made(connection, transport)
        else:
            connection.loop.call_later(0.01, made_late, connection, transport)

    monkeypatch.setattr(Connection, "connection_made", made_late)
    with serving(service, listen("127.0.0.1", 0)) as url:
        client = socket.create_connection(address(url), timeout=20)
        assert accepted.wait(20)
        began = time.monotonic()
    with client:
        assert client.recv(10) == b""
    assert time.monotonic() - began < 2.5  # serving() gives requests three seconds
    assert not caplog.records


def test_a_client_that_reads_nothing_does_not_delay_the_shutdown(caplog):
    with serving(new_service([], AccessPolicy("127.0.0.1")), listen("127.0.0.1", 0)) as url:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        client.connect(address(url))
        client.sendall(READS_NOTHING)
        time.sleep(0.5)
        began = time.monotonic()
    client.close()
    assert time.monotonic() - began < 7
    assert not caplog.records


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process can be set on Linux only")
def test_running_out_of_files_is_one_line_in_the_log():
    server = Server()
    pid, limit = server.process.pid, resource.RLIMIT_NOFILE
    before = resource.prlimit(pid, limit)
    used = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    resource.prlimit(pid, limit, (used + 2, before[1]))
    with slow_clients(server.url, 60, NOTHING):
        time.sleep(1.5)  # it tries again once a second
    resource.prlimit(pid, limit, before)
    assert health(server.url) < 20
    _, _, err = server.stop()
    assert err.count("\n") == 1
    assert "connections cannot be accepted: Too many open files" in err


@pytest.mark.parametrize("most", [64, 256, 1024])
def test_connections_never_exceed_the_limit_of_open_files(most):
    script = "from elman.serve.connections import Connection, bounds; print(*bounds(10**6))"
    words = [*map(str, files(most)), sys.executable, "-c", script]
    result = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    connections, at_once = map(int, result.split())
    assert connections >= 4
    assert 2 * connections + 3 * at_once <= max(16, most - connections_module.RESERVED)
    assert bounds(7)[0] == 7
