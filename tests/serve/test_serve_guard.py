"""The checks of host, origin, key and body; and the service still works after each refused request."""

from __future__ import annotations

import http.client
import json
import socket

import httpx
import pytest
from serve_tools import KEY

from elman.errors import ArgumentError
from elman.serve.guard import AccessPolicy

ASK = {"model": "char", "prompt": "The", "max_tokens": 2}
BEARER = {"Authorization": f"Bearer {KEY}"}
JSON = {**BEARER, "Content-Type": "application/json"}


def raw(server, method, path, headers=None, body=None):
    """A request with exactly these headers and this path."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=20)
    try:
        connection.putrequest(method, path, skip_host="Host" in (headers or {}), skip_accept_encoding=True)
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, answer.read(), answer.headers
    finally:
        connection.close()


def refused(answer, status, code) -> None:
    assert answer[0] == status, answer[1]
    error = json.loads(answer[1])["error"]
    assert error["code"] == code
    assert answer[2]["X-Content-Type-Options"] == "nosniff"


@pytest.fixture(autouse=True)
def goes_on(server):
    yield
    assert server.complete(**ASK)


@pytest.mark.parametrize("path", ["/v1/models", "/v1/completions", "/v1", "/v1/", "/metrics", "/openapi.json", "/v1/x"])
@pytest.mark.parametrize("given", [None, "Bearer wrong", f"Bearer {KEY}x", f"Basic {KEY}", "Bearer", KEY, "Bearer é"])
def test_nothing_is_served_without_the_key(server, path, given):
    headers = {} if given is None else {"Authorization": given.encode()}
    answer = raw(server, "GET", path, headers)
    refused(answer, 401, "invalid_api_key")
    assert answer[2]["WWW-Authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ["/", "/index.html", "/health", "/static/plotly.min.js"])
def test_the_page_and_health_need_no_key(server, path):
    status, body, headers = raw(server, "GET", path)
    assert status == 200
    assert body
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "Access-Control-Allow-Origin" not in headers
    assert "Server" not in headers


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "",
                                  "localhost@evil.example", "evil.example:8765", "[::2]", "[", "a b"])  # fmt: skip
def test_a_foreign_host_header_is_refused(server, host):
    answer = raw(server, "GET", "/v1/models", {"Host": host, **BEARER})
    if answer[0] != 400 or b"Invalid HTTP" not in answer[1]:  # some are not even HTTP
        refused(answer, 403, "host_not_allowed")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1234", "127.0.0.1:80", "[::1]:8765"])
def test_names_of_this_machine_are_accepted(server, host):
    assert raw(server, "GET", "/v1/models", {"Host": host, **BEARER})[0] == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://localhost.evil.example", "http://localhost:1", "", "http://["]
)
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/elman/trainings", "/"])
def test_a_page_of_another_site_is_refused(server, origin, path):
    headers = {"Host": "localhost:8765", "Origin": origin, **JSON}
    refused(raw(server, "POST", path, headers, b"{}"), 403, "origin_not_allowed")


def test_the_own_page_is_accepted(server):
    host = server.url.removeprefix("http://")
    answer = raw(server, "POST", "/v1/completions", {"Host": host, "Origin": f"http://{host}", **JSON}, b"{}")
    assert answer[0] == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "json"])
def test_only_json_is_accepted(server, kind):
    answer = raw(server, "POST", "/v1/completions", {**BEARER, "Content-Type": kind}, b"{}")
    refused(answer, 415, "unsupported_media_type")


@pytest.mark.parametrize(("body", "code"), [
    (b"", "invalid_json"), (b"{", "invalid_json"), (b"[]", "invalid_type"), (b"\xff", "invalid_json"),
    (b'{"temperature": NaN}', "invalid_json"), (b'{"temperature": 1e999}', "invalid_value"),
    (b'{"temperature": 1' + b"0" * 400 + b"}", "invalid_value"),
    (b'{"prompt": ' + b"[" * 100_000, "invalid_json"), (b'{"seed": 1' + b"0" * 5000 + b"}", "invalid_json"),
])  # fmt: skip
def test_an_invalid_body_is_refused(server, body, code):
    refused(raw(server, "POST", "/v1/completions", JSON, body), 400, code)


def test_an_oversized_body_is_refused_with_or_without_its_length(server):
    body = b'{"prompt": "' + b"a" * (1 << 20) + b'"}'
    refused(raw(server, "POST", "/v1/completions", JSON, body), 413, "body_too_large")
    pieces = (body[i : i + 65536] for i in range(0, len(body), 65536))
    answer = server.http.post("/v1/completions", content=pieces, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")


@pytest.mark.parametrize("size", [3, 4, 1000])
def test_a_body_with_two_lengths_is_refused_and_the_connection_closed(server, size):
    host, port = server.url.removeprefix("http://").split(":")
    lines = ["POST /v1/completions HTTP/1.1", "Host: localhost", *(f"{name}: {value}" for name, value in JSON.items())]
    head = "\r\n".join([*lines, f"Content-Length: {size}", "Transfer-Encoding: chunked", "", ""])
    with socket.create_connection((host, int(port)), timeout=20) as client:
        client.sendall(head.encode() + b"2\r\n{}\r\n0\r\n\r\nGET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        result = b""
        while piece := client.recv(10_000):
            result += piece
    assert result.startswith(b"HTTP/1.1 400")
    assert result.count(b"HTTP/1.1") == 1
    assert b"Content-Length and Transfer-Encoding" in result


TRICKS = ["..", "../char", "..%2fchar", "%2e%2e%2fchar", "char/../byte", "/etc/passwd", "char%00", "./char", "~",
          "char/config.json", "..%5cchar", "%252e%252e"]  # fmt: skip


@pytest.mark.parametrize("name", TRICKS)
def test_path_traversal_in_the_name_of_a_run_finds_nothing(server, name):
    for path in (f"/v1/models/{name}", f"/v1/elman/runs/{name}", f"/v1/elman/runs/{name}/events"):
        status, body, _ = raw(server, "GET", path, BEARER)
        assert status == 404, (path, body)
    assert server.post("/v1/completions", model=name, prompt="The").status_code == 404
    assert raw(server, "DELETE", f"/v1/elman/trainings/{name}", BEARER)[0] == 404


@pytest.mark.parametrize("path", [
    "/../app.py", "/..%2fapp.py", "/%2e%2e/app.py", "/static/../../app.py", "//etc/passwd", "/page/../../app.py%00",
])  # fmt: skip
def test_path_traversal_in_the_path_of_a_file_finds_nothing(server, path):
    status, body, _ = raw(server, "GET", path)
    assert status in (404, 400)
    assert b"import" not in body


@pytest.mark.parametrize(("method", "path", "status"), [
    ("GET", "/v1/completions", 405), ("DELETE", "/v1/models", 405), ("GET", "/v1/chat/completions", 405),
    ("GET", "/nothing", 404), ("PUT", "/", 405),
])  # fmt: skip
def test_unknown_paths_and_methods_have_the_same_form_of_error(server, method, path, status):
    refused(raw(server, method, path, BEARER), status, {404: "not_found", 405: "method_not_allowed"}[status])


def test_cors_is_enabled_only_for_allowed_origins():
    from starlette.testclient import TestClient

    from elman.serve.app import new_service

    policy = AccessPolicy("127.0.0.1", key=KEY, hosts=("models.example",), origins=("https://site.example",))
    with TestClient(new_service([], policy), base_url="http://models.example") as client:
        asked = {"Origin": "https://site.example", "Access-Control-Request-Method": "POST"}
        answer = client.options("/v1/completions", headers={**asked, "Access-Control-Request-Headers": "authorization"})
        assert answer.status_code == 200
        assert answer.headers["Access-Control-Allow-Origin"] == "https://site.example"
        answer = client.get("/v1/models", headers={"Origin": "https://site.example", **BEARER})
        assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (200, "https://site.example")
        answer = client.get("/v1/models", headers={"Origin": "https://other.example", **BEARER})
        assert answer.status_code == 403
        assert "Access-Control-Allow-Origin" not in answer.headers
        assert client.get("/v1/models", headers={"Host": "other.example", **BEARER}).status_code == 403


def test_other_machines_are_accepted_by_address_or_allowed_name_only():
    policy = AccessPolicy("0.0.0.0", hosts=("models.example",))
    assert [policy.allows_host(host) for host in ("192.168.1.5:80", "models.example", "localhost", "[fe80::1]")] == [
        True
    ] * 4
    assert not policy.allows_host("evil.example")
    assert "without a key" in " ".join(policy.warnings())
    assert "has the key" in " ".join(AccessPolicy("0.0.0.0", key="k").warnings())
    assert not list(AccessPolicy("127.0.0.1").warnings())


@pytest.mark.parametrize("key", ["secret", " secret\n", "à", "ключ"])
def test_a_key_is_compared_as_it_is_sent(key):
    sent = key.strip().encode().decode("latin-1")  # as servers read a header
    assert AccessPolicy("127.0.0.1", key=key).allows_key(f"Bearer  {sent} ")
    assert not AccessPolicy("127.0.0.1", key=key).allows_key(f"Bearer {sent}x")


@pytest.mark.parametrize("key", [" ", "\n", "\udcff", "a\nb"])
def test_a_key_that_no_client_could_send_is_refused_at_the_start(key):
    with pytest.raises(ArgumentError, match="ELMAN_API_KEY"):
        AccessPolicy("127.0.0.1", key=key)


def test_a_public_service_without_a_key_starts_no_trainings():
    from starlette.testclient import TestClient

    from elman.serve.app import new_service

    with TestClient(new_service([], AccessPolicy("0.0.0.0")), base_url="http://192.168.0.9") as client:
        assert client.get("/v1/models").json() == {"object": "list", "data": []}
        assert client.post("/v1/completions", json={}).status_code in (404, 503)
        answer = client.post("/v1/elman/trainings", json={"text": "a" * 1000})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "training_not_allowed")


def test_a_client_that_sends_half_a_body_does_not_block_others(server):
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"), timeout=20)
    connection.putrequest("POST", "/v1/completions")
    for name, value in {**JSON, "Content-Length": "1000"}.items():
        connection.putheader(name, value)
    connection.endheaders(b'{"prompt": ')
    assert httpx.get(f"{server.url}/health").status_code == 200
    connection.close()
