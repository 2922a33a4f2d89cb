"""Tests for parameters that several operations of the OpenAPI documents share."""

from __future__ import annotations

from typing import Any

from apiserver_stub.endpoints.openapi.parameters import parameter
from apiserver_stub.endpoints.openapi.shared_parameters import move_common, share


def operation(*names: str, body: str = "") -> dict[str, Any]:
    found = [parameter(name, "path" if name == "namespace" else "query", v3=False) for name in names]
    if body:
        found.insert(0, {"name": "body", "in": "body", "schema": {"$ref": f"#/definitions/{body}"}})
    return {"parameters": found}


def test_parameters_of_all_operations_belong_to_the_path() -> None:
    item = {"get": operation("namespace", "pretty"), "post": operation("dryRun", "namespace", "pretty")}

    move_common(item)

    assert [found["name"] for found in item["parameters"]] == ["namespace", "pretty"]
    assert "parameters" not in item["get"]
    assert [found["name"] for found in item["post"]["parameters"]] == ["dryRun"]


def test_body_remains_with_its_operation() -> None:
    item = {"post": operation("pretty", body="io.k8s.api.core.v1.Pod")}

    move_common(item)

    assert [found["in"] for found in item["post"]["parameters"]] == ["body"]


def test_parameters_are_replaced_by_references() -> None:
    generic = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
    paths = {
        "/a": {"parameters": operation("namespace")["parameters"], "delete": operation("dryRun", body=generic)},
        "/b": {"get": operation("namespace", "pretty")},
    }

    shared = share(paths)

    assert [name.partition("-")[0] for name in shared] == ["body", "namespace", "pretty"]
    (reference,) = paths["/a"]["parameters"]
    assert reference == paths["/b"]["get"]["parameters"][0]
    assert shared[reference["$ref"].removeprefix("#/parameters/")] == parameter("namespace", "path", v3=False)
    body, dry_run = paths["/a"]["delete"]["parameters"]
    assert "$ref" in body and dry_run["name"] == "dryRun"


def test_parameters_of_one_kind_are_not_shared() -> None:
    paths = {"/a": {"post": operation("fieldValidation", "name", body="io.k8s.api.core.v1.Pod")}}

    assert share(paths) == {}
    assert [found["name"] for found in paths["/a"]["post"]["parameters"]] == ["body", "fieldValidation", "name"]
