"""Schemathesis reads the OpenAPI schema of the service and tries to break it: no 5xx, only described responses."""

from __future__ import annotations

import json
import os

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance
from serve_tools import KEY

from elman.serve.app import new_service
from elman.serve.guard import AccessPolicy

CASES = int(os.environ.get("ELMAN_TEST_SCHEMA_CASES", "100"))  # over all routes
LONGEST = 1000  # characters of a name that the schema allows


def openapi() -> dict:
    service = new_service([], AccessPolicy("127.0.0.1"))
    service.engine.close()
    return service.api.openapi()


# streams of events never end, and trainings have their own tests
schema = schemathesis.openapi.from_dict(openapi()).exclude(path_regex="/events|/trainings")
schema.config.phases.coverage.enabled = CASES > 100  # every keyword of the schema, systematically
ROUTES = sum(1 for _ in schema.get_all_operations())
# a request can be refused for what the schema does not say, such as the limit of n times the number of prompts
UNCHECKED = [positive_data_acceptance]


@schema.parametrize()
@settings(max_examples=-(-CASES // ROUTES), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_the_service_conforms_to_its_schema(case, server):
    model = case.body.get("model") if isinstance(case.body, dict) else None
    if isinstance(model, str) and len(model) <= LONGEST:  # a longer one must be refused
        case.body["model"] = "names" if case.path.endswith("predict") else "byte"  # a byte model accepts any text
    case.call_and_validate(base_url=server.url, headers={"Authorization": f"Bearer {KEY}"}, excluded_checks=UNCHECKED)


def test_valid_and_invalid_requests_with_null_bytes_are_generated():
    modes = {mode.value for mode in schema.config.generation.modes}
    assert modes == {"positive", "negative"}
    assert schema.config.generation.allow_x00


@pytest.mark.parametrize(("path", "body"), [
    ("completions", {"model": "char", "prompt": "The\0"}), ("completions", {"model": "char\0"}),
    ("completions", {"model": "byte", "prompt": "\0", "stop": "\0"}), ("completions", {"\0": 1}),
    ("elman/predict", {"model": "names", "inputs": ["\0"]}),
    ("elman/look/read", {"model": "byte", "text": "a\0b"}), ("elman/look/flow", {"model": "char", "text": "a\0b"}),
    ("elman/steps", {"input": "a\0", "target": "\0a"}), ("elman/trainings", {"text": "a", "name": "\0"}),
    ("elman/trainings", {"corpus": "\0"}), ("elman/trainings", {"text": "\0"}),
])  # fmt: skip
def test_null_bytes_are_text_or_an_error_of_the_client(server, path, body):
    answer = server.post(f"/v1/{path}", **body)
    assert answer.status_code in (200, 400, 404), answer.text
    assert answer.status_code == 200 or answer.json()["error"]["message"]


def test_the_schema_is_served_and_names_the_version(server):
    served = server.http.get("/openapi.json").json()
    assert served == json.loads(json.dumps(openapi()))
    assert served["info"]["version"] == pytest.importorskip("elman").__version__


def test_bounds_and_defaults_are_part_of_the_schema(server):
    fields = openapi()["components"]["schemas"]["CompletionRequest"]["properties"]
    number, null = fields["logprobs"]["anyOf"]
    assert (number, null) == ({"type": "integer", "minimum": 0, "maximum": 20}, {"type": "null"})
    assert fields["max_tokens"]["default"] == 16
    for path, methods in openapi()["paths"].items():
        for operation in methods.values():
            assert "422" not in operation["responses"], path  # errors have the status that OpenAI gives them


def test_documentation_pages_that_load_from_a_cdn_are_off(server):
    assert server.http.get("/docs").status_code == server.http.get("/redoc").status_code == 404
