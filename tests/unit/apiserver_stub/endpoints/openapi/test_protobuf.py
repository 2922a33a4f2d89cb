"""Tests for the protobuf form of the OpenAPI document."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apiserver_stub.endpoints import openapi
from apiserver_stub.endpoints.openapi import protobuf, protobuf_v3
from apiserver_stub.endpoints.openapi.proto import v2_pb2 as pb
from apiserver_stub.endpoints.openapi.proto import v3_pb2 as pb3
from apiserver_stub.options import Options
from apiserver_stub.server.kinds import build_registry
from nodeagent.base.identity import Identity


@pytest.fixture(scope="module")
def document() -> Any:
    return json.loads(openapi._build(build_registry(Options()), Identity())[""])


def plain(message: Any) -> Any:
    """Return *message* in the structure of the JSON document."""
    found: Any = {}
    for field, value in message.ListFields():
        match field.name:
            case "_ref":
                found["$ref"] = value
            case "vendor_extension":
                found |= {item.name: json.loads(item.value.yaml) for item in value}
            case "path" | "additional_properties" if field.is_repeated:
                found |= {item.name: plain(item.value) for item in value}
            case "response_code":
                found |= {item.name: plain(item.value.response) for item in value}
            case "parameters" if field.is_repeated:
                found[field.name] = [parameter(item) for item in value]
            case "parameters":
                items = value.additional_properties
                found[field.name] = {item.name: non_reference(item.value) for item in items}
            case "schema" if field.message_type.name == "SchemaItem":
                found[field.name] = plain(value.schema)
            case "enum":
                found[field.name] = [json.loads(item.yaml) for item in value]
            case "security":
                found[field.name] = [plain(item) for item in value]
            case "security_definitions":
                items = value.additional_properties
                found["securityDefinitions"] = {item.name: plain(item.value.api_key_security) for item in items}
            case "items":
                found[field.name] = plain(value.schema[0])
            case "type" if field.message_type:
                (found[field.name],) = value.value
            case "additional_properties":
                found["additionalProperties"] = plain(value.schema)
            case _ if field.is_repeated:
                found[field.name] = list(value)
            case _ if field.message_type:
                found[field.name] = plain(value)
            case _:
                found[field.camelcase_name] = value
    return found


def plain_v3(message: Any) -> Any:
    """Return *message* of version 3 in the structure of the JSON document."""
    found: Any = {}
    for field, value in message.ListFields():
        names = {"_ref": "$ref", "response_or_reference": "responses", "specification_extension": ""}
        name = names.get(field.name, field.camelcase_name)
        if field.name == "specification_extension":
            found |= {item.name: json.loads(item.value.yaml) for item in value}
        elif field.name in ("additional_properties", "path", "response_or_reference") and field.is_repeated:
            found |= {item.name: plain_v3(item.value) for item in value}
        elif field.name == "default":
            found["default"] = getattr(value, value.WhichOneof("oneof"))
        elif field.name == "enum":
            found["enum"] = [json.loads(item.yaml) for item in value]
        elif field.name == "items":
            found["items"] = plain_v3(value.schema_or_reference[0])
        elif field.is_repeated and field.message_type:
            found[name] = [plain_v3(item) for item in value]
        elif field.is_repeated:
            found[name] = list(value)
        elif field.message_type and value.DESCRIPTOR.oneofs_by_name:
            content = getattr(value, value.WhichOneof("oneof"))
            found[name] = content if isinstance(content, bool) else plain_v3(content)
        else:
            found[name] = plain_v3(value) if field.message_type else value
    if len(message.DESCRIPTOR.oneofs) == 1 and message.DESCRIPTOR.name.endswith(("Reference", "Item")):
        return next(iter(found.values()))
    return found


def parameter(message: pb.ParametersItem) -> Any:
    if message.HasField("json_reference"):
        return {"$ref": message.json_reference._ref}
    return non_reference(message.parameter)


def non_reference(message: pb.Parameter) -> Any:
    kind = message.non_body_parameter
    found: Any = getattr(kind, kind.WhichOneof("oneof")) if message.HasField("non_body_parameter") else None
    return plain(found if found is not None else message.body_parameter)


def test_protobuf_document_equals_the_json_document(document: Any) -> None:
    message = pb.Document.FromString(protobuf.encode(document))

    assert without_empty(plain(message)) == without_empty(document)


def without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {name: without_empty(content) for name, content in value.items()}
        return {name: content for name, content in kept.items() if content not in ("", [], {}, False)}
    return [without_empty(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", ["api/v1", "apis/policy/v1", "apis/rbac.authorization.k8s.io/v1"])
def test_protobuf_document_of_version_3_equals_the_json_document(name: str) -> None:
    found = json.loads(openapi._build(build_registry(Options()), Identity())[name])

    message = pb3.Document.FromString(protobuf_v3.encode(found))

    assert without_empty(plain_v3(message)) == without_empty(found)


def test_key_without_a_protobuf_field_is_an_error(document: Any) -> None:
    schema = {"type": "string", "nullable": True}
    with pytest.raises(ValueError, match="nullable"):
        protobuf.encode({**document, "paths": {}, "definitions": {"a": schema}})
