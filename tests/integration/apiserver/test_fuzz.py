"""Fuzz tests: no request causes an internal error or memory growth."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.integration.apiserver.conftest import Api, Server

BOUNDED = settings(
    max_examples=2,
    deadline=None,
    database=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
PATHS = [
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/configmaps/m",
    "/api/v1/namespaces/default/pods/p",
    "/api/v1/nodes/n/status",
    "/apis/events.k8s.io/v1/namespaces/default/events",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
]
TYPES = [
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
]
QUERIES = [
    "allowWatchBookmarks",
    "continue",
    "dryRun",
    "fieldManager",
    "fieldSelector",
    "fieldValidation",
    "force",
    "gracePeriodSeconds",
    "labelSelector",
    "limit",
    "pretty",
    "propagationPolicy",
    "resourceVersion",
    "resourceVersionMatch",
    "timeout",
]
HEADERS = ["Accept", "Accept-Encoding", "Audit-ID", "Authorization", "Content-Encoding", "If-None-Match", "User-Agent"]
MOST_GROWTH_KIB = 60 << 10

values = st.text(max_size=12) | st.sampled_from(["9" * 30, "-1", "1e9", "a=b", "0", "true", "All", "\0", "a.b.c"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "spec", "status", "data", "name", "labels", "uid", "op", "path", "value", "$patch"]
            ),
            below,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    found = Server(tmp_path_factory.mktemp("apiserver"))
    api = found.api()
    api.ok("POST", PATHS[0], {"metadata": {"name": "m"}})
    api.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n"}})
    yield found
    assert found.stop() == 0


def resident_kib(server: Server) -> int:
    lines = Path(f"/proc/{server.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def quoted(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode("utf-8", "surrogatepass"))


@settings(max_examples=250, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE"]),
    path=st.sampled_from(PATHS),
    content_type=st.sampled_from(TYPES),
    query=st.dictionaries(st.sampled_from(QUERIES), values, max_size=3),
    headers=st.dictionaries(st.sampled_from(HEADERS), st.binary(max_size=20), max_size=2),
    body=st.none() | st.binary(max_size=40) | json_values,
)
def test_arbitrary_requests_cause_no_internal_error(
    server: Server,
    method: str,
    path: str,
    content_type: str,
    query: dict[str, str],
    headers: dict[str, bytes],
    body: Any,
) -> None:
    api = server.api(close=False)
    shown = {
        name: "".join(chr(byte) for byte in text if byte >= 0x20 and byte != 0x7F) for name, text in headers.items()
    }
    text = "&".join(f"{name}={quoted(value)}" for name, value in query.items())
    try:
        code, _, response = api.raw(method, f"{path}?{text}", body, content_type=content_type, headers=shown)
    finally:
        api.close()

    assert code < 500 or _is_upstream_error(code, response), response


def _is_upstream_error(code: int, response: Any) -> bool:
    """Return whether the response is an error that upstream intentionally reports as 500, without a reason."""
    status = json.loads(response) if isinstance(response, bytes) and response[:1] == b"{" else response
    return code == 500 and isinstance(status, dict) and status.get("kind") == "Status" and "reason" not in status


def test_operations_of_the_openapi_document_cause_no_internal_error(server: Server, api: Api) -> None:
    """Call every operation of the OpenAPI document with values generated from it."""
    before = resident_kib(server)
    failures: list[str] = []
    for location in ("api/v1", "apis/events.k8s.io/v1", "apis/coordination.k8s.io/v1"):
        document = api.ok("GET", f"/openapi/v3/{location}")
        for found in schemathesis.openapi.from_dict(document).get_all_operations():
            operation = found.ok()
            if operation.method == "delete" and "{name}" not in operation.path:
                continue  # would delete the namespaces of other requests
            if "/watch/" in operation.path:
                continue  # does not end
            if operation.path.rpartition("/")[2] in ("attach", "exec", "log", "portforward", "proxy"):
                continue  # streams from nodes, which do not exist
            _call_once(api, operation, failures)
    assert failures == []
    assert resident_kib(server) - before < MOST_GROWTH_KIB


def _call_once(api: Api, operation: Any, failures: list[str]) -> None:
    @BOUNDED
    @given(case=operation.as_strategy())
    def call(case: Any) -> None:
        query = {name: value for name, value in (case.query or {}).items() if name != "watch"}
        path = operation.path
        for name, value in (case.path_parameters or {}).items():
            path = path.replace(f"{{{name}}}", quoted(str(value)) or "x")
        text = "&".join(f"{name}={quoted(str(value))}" for name, value in query.items())
        body = case.body if isinstance(case.body, dict | list) else None
        try:
            code, response = api.call(case.method, f"{path}?{text}", body, content_type=case.media_type or TYPES[0])
        except http.client.HTTPException as error:
            api.close()
            failures.append(f"{case.method} {path}?{text}: {error!r}")
            return
        meant = code == 504 or _is_upstream_error(code, response)  # the server waits for a future version
        if code >= 500 and not meant:
            failures.append(f"{case.method} {path}?{text} {body}: {code} {response}")

    call()


def test_generated_requests_and_found_failures_cause_no_internal_error() -> None:
    """Send the requests that once failed, and some random ones, to a server with everything enabled."""
    corpus = Path(__file__).parents[2] / "api_fuzz" / "corpus.jsonl"
    command = [sys.executable, "-m", "tests.api_fuzz", "--requests=1200", "--seed=7", f"--replay={corpus}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
