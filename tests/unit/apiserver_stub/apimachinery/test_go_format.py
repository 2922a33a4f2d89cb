"""Tests for JSON values in Go's formats."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.go_format import escape_json, go_literal, go_type, go_value


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (80.0, "80"),
        (100000.0, "100000"),
        (1e6, "1e+06"),
        (12345678.0, "1.2345678e+07"),
        (123456.7, "123456.7"),
        (0.0001, "0.0001"),
        (1e-5, "1e-05"),
        (-0.0, "0"),
        (-1.25, "-1.25"),
        (1e300, "1e+300"),
        (5e-324, "5e-324"),
        (12345678, "12345678"),
        (None, "<nil>"),
        (True, "true"),
        ({"b": [1, "x"], "a": {}}, "map[a:map[] b:[1 x]]"),
    ],
)
def test_values_are_formatted_as_by_fmt(value: Any, shown: str) -> None:
    assert go_value(value) == shown


def test_literals_include_types() -> None:
    value: dict[str, Any] = {"b": [1, 1e6, None, True], "a": "x\n"}

    items: list[Any] = [{}, [], "", True]

    assert go_literal(value) == (
        'map[string]interface {}{"a":"x\\n", "b":[]interface {}{1, 1e+06, interface {}(nil), true}}'
    )
    assert [go_type(item) for item in items] == [
        "map[string]interface {}",
        "[]interface {}",
        "string",
        "bool",
    ]


def test_json_is_escaped_for_html() -> None:
    assert escape_json('"<a&b>\u2028é"') == '"\\u003ca\\u0026b\\u003e\\u2028é"'
