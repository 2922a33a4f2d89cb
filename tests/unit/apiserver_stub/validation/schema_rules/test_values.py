"""Tests for the CEL values of parts of custom resources."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from apiserver_stub.schema.structural.tree import tree_of
from apiserver_stub.validation.schema_rules.values import cel_value

BYTES = {"type": "string", "format": "byte"}
DURATION = {"type": "string", "format": "duration"}
DAY, TIME = Timestamp(), Timestamp()
DAY.FromDatetime(datetime(2026, 1, 2))
TIME.FromDatetime(datetime(2026, 1, 2, 3, 4, 5))


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (BYTES, "YQ==", b"a"),
        (BYTES, "YQ", "YQ"),
        (DURATION, "1m", Duration(seconds=60)),
        (DURATION, "x", "x"),
        ({"type": "string", "format": "date"}, "2026-01-02", DAY),
        ({"type": "string", "format": "date-time"}, "2026-01-02T03:04:05Z", TIME),
        ({"type": "string", "format": "date-time"}, "2026-01-02t03:04:05z", "2026-01-02t03:04:05z"),
        ({"type": "string"}, "YQ==", "YQ=="),
        ({"type": "number"}, 1, 1.0),
        ({"type": "integer"}, 1, 1),
        ({"type": "string"}, None, None),
        ({"type": "array", "items": BYTES}, ["YQ=="], [b"a"]),
        ({"type": "array", "items": BYTES}, "YQ==", "YQ=="),
        ({"type": "object", "additionalProperties": BYTES}, {"k": "YQ=="}, {"k": b"a"}),
        ({"type": "object", "additionalProperties": BYTES}, 1, 1),
        ({"type": "object", "properties": {"a": BYTES, "in": {"type": "integer"}}}, {"a": "YQ==", "in": 1, "x": 2},
         {"a": b"a", "__in__": 1}),
        ({"type": "object", "properties": {"a": BYTES}}, [1], [1]),
    ],
)  # fmt: skip
def test_value_has_the_type_of_the_schema(schema: dict[str, Any], value: Any, expected: Any) -> None:
    found = cel_value(value, tree_of(schema))

    assert found == expected
    assert type(found) is type(expected)
