"""Tests for the parameters of all operations at a path, in the OpenAPI documents."""

from __future__ import annotations

import pytest

from apiserver_stub.endpoints.openapi.parameters import of_path, parameter

POD = "/api/v1/namespaces/{namespace}/pods/{name}"


@pytest.mark.parametrize(
    ("path", "subresource", "names"),
    [
        (POD, "", ["name", "namespace", "pretty"]),
        ("/api/v1/nodes", "", ["pretty"]),
        (f"{POD}/portforward", "portforward", ["name", "namespace", "ports"]),
        (f"{POD}/proxy/{{path}}", "proxy", ["name", "namespace", "path", "path"]),
    ],
)
def test_parameters_depend_on_the_path(path: str, subresource: str, names: list[str]) -> None:
    assert [item["name"] for item in of_path(path, subresource, 36, v3=True)] == names


@pytest.mark.parametrize(("minor", "listed"), [(31, False), (32, True)])
def test_stream_of_a_log_is_a_parameter_since_its_release(minor: int, listed: bool) -> None:
    names = [item["name"] for item in of_path(f"{POD}/log", "log", minor, v3=True)]

    assert ("stream" in names) == listed
    assert {"follow", "tailLines", "pretty"} <= set(names)


@pytest.mark.parametrize("v3", [True, False])
def test_only_parameters_in_the_path_are_required(v3: bool) -> None:
    found = {location: parameter("name", location, v3=v3) for location in ("path", "query")}

    assert [location for location, item in found.items() if item.get("required")] == ["path"]
    assert ("schema" in found["path"]) == v3
    assert found["path"].get("schema", found["path"])["type"] == "string"
