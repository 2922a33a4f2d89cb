"""Tests for the schemas of custom kinds in published documents."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

from apiserver_stub.endpoints import openapi
from apiserver_stub.endpoints.openapi import protobuf, protobuf_v3
from apiserver_stub.endpoints.openapi.proto import v3_pb2 as pb3
from apiserver_stub.kinds.custom_resources import resources_of
from apiserver_stub.options import Options
from apiserver_stub.server.kinds import build_registry
from nodeagent.base.identity import Identity

SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "default": 3, "multipleOf": 1},
        "maybe": {"type": "string", "nullable": True, "default": "x", "example": {"a": 1}},
        "on": {"type": "boolean", "default": True},
        "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
        "labels": {"type": "object", "additionalProperties": {"type": "string", "not": {"maxLength": 3}}},
        "list": {"type": "array", "items": {"type": "string", "enum": ["a"]}, "uniqueItems": False},
        "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {}}},
        "loose": {"x-kubernetes-preserve-unknown-fields": True, "items": {"type": "string"}},
        "any": {"type": "object", "additionalProperties": True},
        "pod": {"type": "object", "x-kubernetes-embedded-resource": True},
    },
}


@cache
def documents() -> dict[str, Any]:
    """Return the documents of a server with a custom kind, by name."""
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC}}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "Widgets"}
    registry = build_registry(Options())
    registry.replace(
        "widgets.example.com",
        resources_of(
            {
                "metadata": {"name": "widgets.example.com"},
                "spec": {
                    "group": "example.com",
                    "scope": "Namespaced",
                    "names": names,
                    "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
                },
                "status": {
                    "acceptedNames": names,
                    "conditions": [{"type": name, "status": "True"} for name in ("NamesAccepted", "Established")],
                },
            }
        ),
    )
    return {name: json.loads(body) for name, body in openapi._build(registry, Identity()).items()}


def version_3() -> Any:
    return documents()["apis/example.com/v1"]


def test_version_3_contains_the_schema_of_the_definition() -> None:
    found = version_3()["components"]["schemas"]["com.example.v1.Widget"]

    assert found["x-kubernetes-group-version-kind"] == [{"group": "example.com", "kind": "Widget", "version": "v1"}]
    spec = found["properties"]["spec"]
    pod = spec["properties"]["pod"]
    assert set(pod["properties"]) == {"apiVersion", "kind", "metadata"}
    assert spec == {**SPEC, "properties": {**SPEC["properties"], "pod": pod}}
    assert set(found["properties"]) == {"apiVersion", "kind", "metadata", "spec"}


def test_version_2_omits_unsupported_fields() -> None:
    found = documents()[""]["definitions"]["com.example.v1.Widget"]["properties"]["spec"]["properties"]

    assert found["size"] == {"type": "integer", "minimum": 1, "multipleOf": 1}
    assert (found["maybe"], found["port"]) == ({}, {"x-kubernetes-int-or-string": True})
    assert found["open"] == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    assert (found["loose"], found["any"]) == ({"x-kubernetes-preserve-unknown-fields": True}, {"type": "object"})
    assert found["labels"]["additionalProperties"] == {"type": "string"}
    assert "ConfigMap" in str(documents()[""]["definitions"].keys())


def test_lists_have_the_kind_of_the_definition() -> None:
    path = "/apis/example.com/v1/namespaces/{namespace}/widgets"

    for kind, schemas in (("v3", version_3()["components"]["schemas"]), ("v2", documents()[""]["definitions"])):
        assert schemas["com.example.v1.Widgets"]["required"] == ["items"], kind
    result = version_3()["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert result == {"$ref": "#/components/schemas/com.example.v1.Widgets"}


def test_documents_have_a_protobuf_form() -> None:
    message = pb3.Document.FromString(protobuf_v3.encode(version_3()))

    schemas = {item.name: item.value.schema for item in message.components.schemas.additional_properties}
    (spec,) = (
        item.value.schema
        for item in schemas["com.example.v1.Widget"].properties.additional_properties
        if item.name == "spec"
    )
    found = {item.name: item.value.schema for item in spec.properties.additional_properties}
    assert (found["size"].default.number, found["maybe"].default.string, found["on"].default.boolean) == (3, "x", True)
    assert protobuf.encode(documents()[""])


def test_references_resolve_within_the_documents() -> None:
    for name, key in (("apis/example.com/v1", "schemas"), ("", "definitions")):
        document = documents()[name]
        known = document["definitions"] if key == "definitions" else document["components"]["schemas"]
        assert set(re.findall(rf'#/(?:components/)?{key}/([^"]+)"', json.dumps(document))) <= known.keys(), name
