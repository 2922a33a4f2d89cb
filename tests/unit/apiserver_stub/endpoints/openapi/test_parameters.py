"""Tests for the parameters of operations in the OpenAPI documents."""

from __future__ import annotations

import pytest

from apiserver_stub.endpoints.openapi.parameters import of_operation, parameter

POD = "/api/v1/namespaces/{namespace}/pods/{name}"


@pytest.mark.parametrize(
    ("path", "verb", "subresource", "names"),
    [
        (POD, "get", "", ["name", "namespace", "pretty"]),
        (POD, "update", "", ["dryRun", "fieldManager", "fieldValidation", "name", "namespace", "pretty"]),
        (f"{POD}/portforward", "", "portforward", ["name", "namespace", "ports"]),
        (f"{POD}/proxy/{{path}}", "", "proxy", ["name", "namespace", "path", "path"]),
    ],
)
def test_parameters_depend_on_path_and_verb(path: str, verb: str, subresource: str, names: list[str]) -> None:
    assert [item["name"] for item in of_operation(verb, path, "Pod", subresource, 36, v3=True)] == names


@pytest.mark.parametrize(
    ("name", "verb", "subresource", "since"),
    [
        ("stream", "get", "log", 32),
        ("shardSelector", "list", "", 36),
        ("shardSelector", "watchlist", "", 36),
        ("ignoreStoreReadErrorWithClusterBreakingPotential", "delete", "", 32),
    ],
)
def test_parameters_exist_since_their_release(name: str, verb: str, subresource: str, since: int) -> None:
    for minor in (since - 1, since):
        found = {item["name"] for item in of_operation(verb, POD, "Pod", subresource, minor, v3=True)}
        assert (name in found) == (minor >= since)


def test_name_states_the_kind() -> None:
    assert parameter("name", "path", "Pod", v3=True)["description"] == "Name of the Pod."


@pytest.mark.parametrize("v3", [True, False])
def test_only_parameters_in_the_path_are_required(v3: bool) -> None:
    found = {location: parameter("name", location, v3=v3) for location in ("path", "query")}

    assert [location for location, item in found.items() if item.get("required")] == ["path"]
    assert ("schema" in found["path"]) == v3
    assert found["path"].get("schema", found["path"])["type"] == "string"
