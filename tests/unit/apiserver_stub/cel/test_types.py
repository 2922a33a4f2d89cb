"""Tests for the types of CEL variables."""

from __future__ import annotations

import pytest

from apiserver_stub.cel.types import field_type


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("STRING", "string"),
        ("int", "int"),
        ("timestamp", "timestamp"),
        ("duration", "duration"),
        ("list<string>", "list(string)"),
        ("list<map<string, dyn>>", "list"),
        ("map<string, dyn>", "map"),
        ("map<string, int>", "dyn"),
        ("map<int, dyn>", "dyn"),
        ("dyn", "dyn"),
        ("kubernetes.Thing", "dyn"),
    ],
)
def test_variable_has_the_most_precise_type_of_a_field(name: str, expected: str) -> None:
    assert field_type(name) == expected
