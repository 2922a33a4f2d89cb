"""Custom resources: pruning, defaults, and validation by schemas, formats and rules."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from apiserver_stub.apimachinery import objects
from apiserver_stub.schema.field_validation import SchemaMismatch
from apiserver_stub.schema.structural.schema import StructuralSchema
from apiserver_stub.schema.structural.tree import tree_of
from apiserver_stub.validation.custom_resources import CustomResourceRules
from apiserver_stub.validation.schema_values.formats import format_check
from tests.fuzz.fields import changed
from tests.fuzz.target import target

FORMATS = (
    *("bsonobjectid", "uri", "email", "hostname", "ipv4", "ipv6", "cidr", "mac", "uuid", "uuid3", "uuid4", "uuid5"),
    *("isbn", "isbn10", "isbn13", "creditcard", "ssn", "hexcolor", "rgbcolor", "byte", "password", "date", "duration"),
    *("datetime", "date-time"),
)
TEXT = {"type": "string", "maxLength": 20}
SCHEMA: Any = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "default": {},
            "required": ["count"],
            "x-kubernetes-validations": [
                {"rule": "self.count <= 100 || has(self.name)", "messageExpression": "'count ' + string(self.count)"},
                {"rule": "!has(self.parts) || self.parts.all(p, p.weight < self.count)"},
            ],
            "properties": {
                "count": {"type": "integer", "minimum": 1, "multipleOf": 1, "default": 5, "format": "int32"},
                "share": {"type": "number", "exclusiveMaximum": True, "maximum": 1, "multipleOf": 0.25},
                "name": {**TEXT, "pattern": "^[a-z]+(-[a-z]+)*$"},
                "kind": {"enum": ["a", 1, None, {"b": [1]}], "x-kubernetes-preserve-unknown-fields": True},
                "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "since": {"type": "string", "format": "date-time", "nullable": True},
                "labels": {"type": "object", "additionalProperties": TEXT, "maxProperties": 3},
                "tags": {"type": "array", "items": TEXT, "x-kubernetes-list-type": "set", "uniqueItems": False},
                "parts": {
                    "type": "array",
                    "maxItems": 10,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["id"],
                    "items": {
                        "type": "object",
                        "required": ["id"],
                        "properties": {"id": TEXT, "weight": {"type": "integer", "default": 0}},
                    },
                },
                "template": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "choice": {
                    "type": "object",
                    "oneOf": [{"required": ["x"]}, {"required": ["y"]}],
                    "not": {"required": ["z"]},
                },
            },
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
TREE = tree_of(SCHEMA)
EXAMPLE = {
    "apiVersion": "example.com/v1",
    "kind": "Widget",
    "metadata": {"name": "a", "labels": {"a": "b"}, "finalizers": ["example.com/a"]},
    "spec": {
        "count": 7,
        "share": 0.5,
        "name": "a-b",
        "kind": {"b": [1]},
        "port": "http",
        "since": "2024-01-01T00:00:00Z",
        "labels": {"a": "b"},
        "tags": ["a", "b"],
        "parts": [{"id": "a", "weight": 1}, {"id": "b"}],
        "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {}},
        "choice": {"x": 1},
    },
    "status": {"ready": True},
}
SCALE = {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.replicas"}


@target(
    UnicodeDecodeError,
    tokens=(b"@", b"(" * 400, b"::", b"/24", b"2024-01-01T00:00:00Z", b"978-", b"#fff", b"rgb(", b"urn:", b"1 day"),
)
def string_format(data: bytes) -> None:
    """A text has a format or does not."""
    text = data.decode()
    for name in FORMATS:
        check = format_check(name)
        assert check is None or check(text) in (True, False)


@target(SchemaMismatch, RecursionError)
def custom_object(data: bytes) -> None:
    """A custom resource is valid or invalid, whatever the values of its fields; what is pruned stays pruned."""
    obj = msgspec.json.decode(msgspec.json.encode(changed([EXAMPLE], b"\x00" + data)))
    if not isinstance(obj.get("metadata"), dict):
        return
    schema = StructuralSchema("Widget", TREE)
    schema.check(obj)
    schema.settle(obj)
    settled = copy.deepcopy(obj)
    schema.settle(obj)
    assert obj == settled
    rules = CustomResourceRules(TREE, SCALE, ratchets=True)
    for cause in rules.validate(obj):
        assert cause.message
    rules.validate(obj, copy.deepcopy(EXAMPLE))
    rules.validate_status(obj, copy.deepcopy(EXAMPLE))
    objects.encode(obj)
