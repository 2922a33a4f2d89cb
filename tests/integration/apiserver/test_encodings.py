"""Tests for values with several encodings; the expected responses are those of kube-apiserver 1.29."""

from __future__ import annotations

from typing import Any

import pytest

from nodeagent.base import apiproto

from .conftest import Api

STRATEGIC = "application/strategic-merge-patch+json"


def secret(name: str, value: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"k": value}}


def test_base64_with_line_breaks_is_stored_without_them(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/secrets"

    assert api.ok("POST", path, secret("s", "Vm\nFs"))["data"] == {"k": "VmFs"}
    patch = {"data": {"k": "Vg=\r\n="}}
    assert api.ok("PATCH", f"{path}/s", patch, content_type=STRATEGIC)["data"] == {"k": "Vg=="}
    body = b"apiVersion: v1\nkind: Secret\nmetadata: {name: y}\ndata:\n  k: |\n    Vm\n    Fs\n"
    assert api.ok("POST", path, body, content_type="application/yaml")["data"] == {"k": "VmFs"}


def test_invalid_base64_is_rejected_with_its_offset(api: Api, namespace: str) -> None:
    code, error = api.call("POST", f"/api/v1/namespaces/{namespace}/secrets", secret("s", "VmFs="))

    assert code == 400
    problem = "illegal base64 data at input byte 4"
    assert error["message"] == f'Secret in version "v1" cannot be handled as a Secret: {problem}'


def test_map_without_entries_is_omitted(api: Api, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    api.ok("POST", path, secret("s", "VmFs"))

    assert "data" not in api.ok("PATCH", f"{path}/s", {"data": {"k": None}}, content_type=STRATEGIC)


def test_quantity_with_spaces_around_it_is_accepted(api: Api, namespace: str) -> None:
    container = {"name": "c", "image": "i", "resources": {"limits": {"memory": "128M ", "cpu": "1u"}}}
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [container], "schedulerName": "none"}}

    created = api.ok("POST", f"/api/v1/namespaces/{namespace}/pods", pod)

    assert created["spec"]["containers"][0]["resources"]["limits"] == {"memory": "128M", "cpu": "1m"}


@pytest.mark.parametrize("year", ["0001", "0999", "1000", "9999"])
def test_protobuf_time_of_any_year_is_accepted(api: Api, namespace: str, year: str) -> None:
    time = f"{year}-06-01T00:00:00Z"
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"e{year}", "namespace": namespace},
        "involvedObject": {"namespace": namespace},
        "firstTimestamp": time,
    }
    body, path = apiproto.encode(event), f"/api/v1/namespaces/{namespace}/events"

    created = api.ok("POST", path, body, content_type="application/vnd.kubernetes.protobuf")

    assert created["firstTimestamp"] == time
