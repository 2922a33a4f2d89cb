"""OpenAPI version 3 in protobuf, which Go clients request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.endpoints.openapi.proto import v3_pb2 as pb

_EXTENSION = "x-"
_FIELDS = {
    "description": "description",
    "exclusiveMaximum": "exclusive_maximum",
    "exclusiveMinimum": "exclusive_minimum",
    "format": "format",
    "maxItems": "max_items",
    "maxLength": "max_length",
    "maxProperties": "max_properties",
    "maximum": "maximum",
    "minItems": "min_items",
    "minLength": "min_length",
    "minProperties": "min_properties",
    "minimum": "minimum",
    "multipleOf": "multiple_of",
    "nullable": "nullable",
    "pattern": "pattern",
    "title": "title",
    "type": "type",
    "uniqueItems": "unique_items",
}
"""Keys of schemas with plain values, and their fields."""
_ALTERNATIVES = {"allOf": "all_of", "anyOf": "any_of", "oneOf": "one_of"}


def encode(document: Object) -> bytes:
    """Return *document* in protobuf form.

    :raises ValueError: it has a member that the messages have no field for.
    """
    message = pb.Document(openapi=document["openapi"], info=pb.Info(**document["info"]))
    for path, item in document["paths"].items():
        _put_path(message.paths.path.add(name=path).value, item)
    components = document["components"]
    _put_named(message.components.schemas.additional_properties, components.get("schemas", {}))
    for name, content in components["securitySchemes"].items():
        scheme = message.components.security_schemes.additional_properties.add(name=name).value.security_scheme
        scheme.MergeFrom(pb.SecurityScheme(**content))
    return message.SerializeToString()


def _put_path(message: pb.PathItem, item: Object) -> None:
    for name, content in item.items():
        if name == "parameters":
            _put_parameters(message.parameters, content)
        else:
            _put_operation(getattr(message, name), content)


def _put_operation(message: pb.Operation, operation: Object) -> None:
    for name, content in operation.items():
        match name:
            case "description":
                message.description = content
            case "operationId":
                message.operation_id = content
            case "tags":
                message.tags.extend(content)
            case "parameters":
                _put_parameters(message.parameters, content)
            case "requestBody":
                body = message.request_body.request_body
                body.required = content.get("required", False)
                _put_content(body.content, content["content"])
            case "responses":
                for code, described in content.items():
                    response = message.responses.response_or_reference.add(name=code).value.response
                    response.description = described["description"]
                    if "content" in described:
                        _put_content(response.content, described["content"])
            case _:
                _extend(message.specification_extension, name, content)


def _put_parameters(messages: Any, parameters: Iterable[Object]) -> None:
    for item in parameters:
        parameter = messages.add().parameter
        plain = {name: item[name] for name in ("name", "in", "description", "required") if name in item}
        parameter.MergeFrom(pb.Parameter(**plain))
        _put_schema(parameter.schema, item["schema"])


def _put_content(message: pb.MediaTypes, content: Object) -> None:
    for media_type, described in content.items():
        _put_schema(message.additional_properties.add(name=media_type).value.schema, described["schema"])


def _put_named(messages: Any, schemas: Object) -> None:
    for name, schema in schemas.items():
        _put_schema(messages.add(name=name).value, schema)


def _put_schema(message: pb.SchemaOrReference, schema: Object) -> None:
    if "$ref" in schema:
        message.reference._ref = schema["$ref"]
    else:
        _fill(message.schema, schema)


def _fill(message: pb.Schema, schema: Object) -> None:
    message.SetInParent()
    for name, content in schema.items():
        if name in _FIELDS:
            setattr(message, _FIELDS[name], content)
            continue
        match name:
            case "required":
                message.required.extend(content)
            case "enum":
                message.enum.extend(pb.Any(yaml=objects.encode(value).decode()) for value in content)
            case "items":
                _put_schema(message.items.schema_or_reference.add(), content)
            case "properties":
                _put_named(message.properties.additional_properties, content)
            case "additionalProperties" if isinstance(content, bool):
                message.additional_properties.boolean = content
            case "additionalProperties":
                _put_schema(message.additional_properties.schema_or_reference, content)
            case "not":
                _fill(getattr(message, "not"), content)
            case "default":
                _put_default(message.default, content)
            case "example" | "externalDocs":
                pass  # Clients do not need them.
            case "allOf" | "anyOf" | "oneOf":
                for alternative in content:
                    _put_schema(getattr(message, _ALTERNATIVES[name]).add(), alternative)
            case _:
                _extend(message.specification_extension, name, content)


def _put_default(message: pb.DefaultType, content: object) -> None:
    """Write a default, if the messages have a field for values of its type."""
    if isinstance(content, bool):
        message.boolean = content
    elif isinstance(content, int | float):
        message.number = content
    elif isinstance(content, str):
        message.string = content


def _extend(messages: Any, name: str, content: object) -> None:
    if not name.startswith(_EXTENSION):
        raise ValueError(f"no field for {name!r}")
    messages.add(name=name, value=pb.Any(yaml=objects.encode(content).decode()))  # JSON is YAML
