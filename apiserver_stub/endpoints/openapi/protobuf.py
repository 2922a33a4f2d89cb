"""OpenAPI version 2 in protobuf, which older clients request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.endpoints.openapi.proto import v2_pb2 as pb

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
    "pattern": "pattern",
    "title": "title",
    "uniqueItems": "unique_items",
}
"""Keys of schemas with plain values, and their fields."""


def encode(document: Object) -> bytes:
    """Return *document* in protobuf form.

    :raises ValueError: it has a member that the messages have no field for.
    """
    message = pb.Document(swagger=document["swagger"], info=pb.Info(**document["info"]))
    for path, item in document["paths"].items():
        _put_path(message.paths.path.add(name=path).value, item)
    _put_named(message.definitions.additional_properties, document["definitions"])
    for name, content in document["parameters"].items():
        _put_parameter(message.parameters.additional_properties.add(name=name).value, content)
    for name, content in document["securityDefinitions"].items():
        found = message.security_definitions.additional_properties.add(name=name)
        found.value.api_key_security.MergeFrom(pb.ApiKeySecurity(**content))
    for requirement in document["security"]:
        added = message.security.add()
        for name, scopes in requirement.items():
            added.additional_properties.add(name=name).value.value.extend(scopes)
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
            case "operationId":
                message.operation_id = content
            case "description":
                message.description = content
            case "consumes" | "produces" | "schemes" | "tags":
                getattr(message, name).extend(content)
            case "parameters":
                _put_parameters(message.parameters, content)
            case "responses":
                for code, response in content.items():
                    found = message.responses.response_code.add(name=code).value.response
                    found.description = response["description"]
                    if "schema" in response:
                        _put_schema(found.schema.schema, response["schema"])
            case _:
                _extend(message.vendor_extension, name, content)


def _put_parameters(messages: Any, parameters: Iterable[Object]) -> None:
    for item in parameters:
        if "$ref" in item:
            messages.add().json_reference._ref = item["$ref"]
        else:
            _put_parameter(messages.add().parameter, item)


def _put_parameter(parameter: Any, item: Object) -> None:
    common = {
        "name": item["name"],
        "in": item["in"],
        "required": item.get("required", False),
        "description": item.get("description", ""),
    }
    if item["in"] == "body":
        body = parameter.body_parameter
        body.MergeFrom(pb.BodyParameter(**common))
        _put_schema(body.schema, item["schema"])
        return
    plain = {**common, "type": item["type"], "unique_items": item.get("uniqueItems", False)}
    if item["in"] == "path":
        parameter.non_body_parameter.path_parameter_sub_schema.MergeFrom(pb.PathParameterSubSchema(**plain))
    else:
        parameter.non_body_parameter.query_parameter_sub_schema.MergeFrom(pb.QueryParameterSubSchema(**plain))


def _put_named(messages: Any, schemas: Object) -> None:
    for name, schema in schemas.items():
        _put_schema(messages.add(name=name).value, schema)


def _put_schema(message: pb.Schema, schema: Object) -> None:
    message.SetInParent()
    for name, content in schema.items():
        if name in _FIELDS:
            setattr(message, _FIELDS[name], content)
            continue
        match name:
            case "$ref":
                message._ref = content
            case "required":
                message.required.extend(content)
            case "enum":
                message.enum.extend(pb.Any(yaml=objects.encode(value).decode()) for value in content)
            case "type":
                message.type.value.append(content)
            case "items":
                _put_schema(message.items.schema.add(), content)
            case "properties":
                _put_named(message.properties.additional_properties, content)
            case "additionalProperties" if isinstance(content, bool):
                message.additional_properties.boolean = content
            case "additionalProperties":
                _put_schema(message.additional_properties.schema, content)
            case _:
                _extend(message.vendor_extension, name, content)


def _extend(messages: Any, name: str, content: object) -> None:
    if not name.startswith(_EXTENSION):
        raise ValueError(f"no field for {name!r}")
    messages.add(name=name, value=pb.Any(yaml=objects.encode(content).decode()))  # JSON is YAML
