"""Tests for the protobuf form of the OpenAPI document."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apiserver_stub.endpoints import openapi
from apiserver_stub.endpoints.openapi import protobuf
from apiserver_stub.endpoints.openapi.proto import v2_pb2 as pb
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
            case "parameters":
                found[field.name] = [parameter(item.parameter) for item in value]
            case "schema" if field.message_type.name == "SchemaItem":
                found[field.name] = plain(value.schema)
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


def parameter(message: pb.Parameter) -> Any:
    kind = message.non_body_parameter
    found: Any = getattr(kind, kind.WhichOneof("oneof")) if message.HasField("non_body_parameter") else None
    return plain(found if found is not None else message.body_parameter)


def test_protobuf_document_equals_the_json_document(document: Any) -> None:
    message = pb.Document.FromString(protobuf.encode(document))

    def without_empty(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: without_empty(content) for name, content in value.items() if content not in ("", [])}
        return [without_empty(item) for item in value] if isinstance(value, list) else value

    assert without_empty(plain(message)) == without_empty(document)


def test_key_without_a_protobuf_field_is_an_error(document: Any) -> None:
    schema = {"type": "string", "pattern": "x"}
    with pytest.raises(ValueError, match="pattern"):
        protobuf.encode({**document, "paths": {}, "definitions": {"a": schema}})
