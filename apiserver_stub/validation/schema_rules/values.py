"""CEL values of the parts of objects. No I/O."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from apiserver_stub.schema.structural.tree import Node
from apiserver_stub.validation.schema_rules.types import escaped, fields_of, kind_of
from nodeagent.base.duration import parse_duration


def cel_value(value: Any, node: Node, *, is_resource: bool = False) -> Any:
    """Return the CEL value for *value*, which *node* describes; values of other types are unchanged."""
    if value is None:
        return None
    kind = kind_of(node)
    if kind == "object" and isinstance(value, dict):
        fields = fields_of(node, is_resource=is_resource)
        return {escaped(name): cel_value(value[name], field) for name, field in fields.items() if name in value}
    if kind == "list" and isinstance(value, list) and node.items is not None:
        return [cel_value(item, node.items) for item in value]
    if kind == "map" and isinstance(value, dict) and node.values is not None:
        return {name: cel_value(item, node.values) for name, item in value.items()}
    if kind == "double" and isinstance(value, int):
        return float(value)
    return _scalar(value, kind) if isinstance(value, str) else value


def _scalar(text: str, kind: str) -> Any:
    from google.protobuf.duration_pb2 import Duration
    from google.protobuf.timestamp_pb2 import Timestamp

    try:
        if kind == "bytes":
            return base64.b64decode(text, validate=True)
        if kind == "duration":
            duration = Duration()
            duration.FromNanoseconds(parse_duration(text).nanoseconds)
            return duration
        if kind == "timestamp":
            timestamp = Timestamp()
            timestamp.FromJsonString(text if "T" in text.upper() else f"{text}T00:00:00Z")
            return timestamp
    except (ValueError, binascii.Error):
        pass
    return text
