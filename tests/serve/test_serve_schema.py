"""Schemathesis reads the OpenAPI file and tries to break what it says: no 5xx, and no answer that it does not name."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance
from serve_tools import KEY

import elman.serve

CASES = int(os.environ.get("ELMAN_TEST_SCHEMA_CASES", "100"))  # over all routes
FILE = Path(elman.serve.__file__).parent / "openapi.json"
# a stream without end, and trainings, which are tried elsewhere
schema = schemathesis.openapi.from_path(str(FILE)).exclude(path_regex="/events|/trainings")
schema.config.phases.coverage.enabled = CASES > 100  # every keyword of the file, systematically
ROUTES = sum(1 for _ in schema.get_all_operations())
# what the file cannot say, such as that n times the number of prompts has a limit, is refused all the same
UNCHECKED = [positive_data_acceptance]


@schema.parametrize()
@settings(max_examples=-(-CASES // ROUTES), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_the_service_keeps_to_its_file(case, server):
    if isinstance(case.body, dict) and isinstance(case.body.get("model"), str):
        case.body["model"] = "names" if case.path.endswith("predict") else "byte"  # any text is a prompt for it
    case.call_and_validate(base_url=server.url, headers={"Authorization": f"Bearer {KEY}"}, excluded_checks=UNCHECKED)


def test_every_route_is_in_the_file():
    from elman.serve.app import new_service
    from elman.serve.guard import Doors

    service = new_service([], Doors("127.0.0.1"))
    try:
        served = set()

        def collect(routes, prefix: str) -> None:
            for route in routes:
                if getattr(route, "routes", None):
                    collect(route.routes, prefix + route.path)
                elif hasattr(route, "methods"):
                    served.update((prefix + route.path, method.lower()) for method in route.methods - {"HEAD"})

        collect(service.routes, "")
    finally:
        service.engine.close()
    told = {(path, method) for path, methods in json.loads(FILE.read_text())["paths"].items() for method in methods}
    assert served - {("/static/plotly.min.js", "get")} == told


def test_the_file_is_served(server):
    assert server.http.get("/openapi.json").json() == json.loads(FILE.read_text())


def test_the_file_says_which_version_it_is():
    assert json.loads(FILE.read_text())["info"]["version"] == pytest.importorskip("elman").__version__
