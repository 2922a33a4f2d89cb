"""Tests for the fast validation of simple schemas."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nodeagent.base.plain_schemas import is_plainly_valid
from nodeagent.plugin_schemas import validate

NAMES = st.sampled_from(["a", "b", "c"])
NUMBERS = st.sampled_from([0, 1, 2, 1.0, 1.5, -1])
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, st.sampled_from(["", "a", "bb", "ccc"])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=6,
)
TYPES = st.sampled_from(["string", "boolean", "integer", "number", "array", "object", "null"])


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": st.one_of(TYPES, st.lists(TYPES, min_size=1, max_size=2, unique=True)),
        "enum": st.lists(VALUES, min_size=1, max_size=2),
        **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), NUMBERS),
        **dict.fromkeys(
            ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), st.integers(0, 2)
        ),
        "pattern": st.sampled_from(["^a", "b$"]),
        "uniqueItems": st.booleans(),
        "required": st.lists(NAMES, max_size=2, unique=True),
        "items": inner,
        "additionalProperties": inner,
        "properties": st.dictionaries(NAMES, inner, max_size=2),
        "patternProperties": st.dictionaries(st.just("^a"), inner, max_size=1),
        "not": inner,
        "anyOf": st.lists(inner, min_size=1, max_size=2),
        "const": VALUES,
        "description": st.just("text"),
    }
    return st.lists(st.sampled_from(sorted(keywords)), max_size=3, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: keywords[name] for name in names})
    )


@settings(max_examples=300, deadline=None)
@given(st.recursive(st.booleans(), schemas, max_leaves=4), VALUES)
def test_plainly_valid_values_are_valid(schema: Any, value: Any) -> None:
    if is_plainly_valid(value, schema):
        assert validate({"plugin": schema}, {"plugin": value}) == []


SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["owner"],
    "properties": {
        "owner": {"type": "string", "minLength": 1, "pattern": "^[a-z]+$", "description": "The owner."},
        "limit": {"type": "integer", "minimum": 1, "maximum": 9},
        "names": {"type": "array", "items": {"enum": ["a", "b"]}, "uniqueItems": True},
    },
}


def test_typical_settings_are_plainly_valid() -> None:
    assert is_plainly_valid({"owner": "me", "limit": 3, "names": ["a", "b"]}, SCHEMA)


@pytest.mark.parametrize(
    "value",
    [
        *([], {}, {"owner": ""}, {"owner": "Me"}, {"owner": "me", "limit": 0}, {"owner": "me", "limit": 10}),
        *({"owner": "me", "limit": True}, {"owner": "me", "names": ["c"]}, {"owner": "me", "names": ["a", "a"]}),
        {"owner": "me", "other": 1},
    ],
)
def test_invalid_settings_are_left_to_the_validator(value: object) -> None:
    assert not is_plainly_valid(value, SCHEMA)


@pytest.mark.parametrize("schema", [{"$ref": "#/x"}, {"$schema": "https://example.com"}, {"oneOf": [True]}])
def test_other_schemas_are_left_to_the_validator(schema: dict[str, Any]) -> None:
    assert not is_plainly_valid("text", schema)


def test_limits_include_their_bound_unless_they_exclude_it() -> None:
    for rule, valid, invalid in [
        ({"minimum": 2}, 2, 1),
        ({"maximum": 2}, 2, 3),
        ({"exclusiveMinimum": 2}, 3, 2),
        ({"exclusiveMaximum": 2}, 1, 2),
        ({"minLength": 2}, "ab", "a"),
        ({"maxLength": 2}, "ab", "abc"),
        ({"minItems": 2}, [1, 2], [1]),
        ({"maxItems": 2}, [1, 2], [1, 2, 3]),
        ({"minProperties": 2}, {"a": 1, "b": 2}, {"a": 1}),
        ({"uniqueItems": True}, ["a", "b"], ["a", "a"]),
        ({"required": ["a", "b"]}, {"a": 1, "b": 2}, {"a": 1}),
    ]:
        assert is_plainly_valid(valid, rule), rule
        assert not is_plainly_valid(invalid, rule), rule


def test_keyword_for_another_type_does_not_apply() -> None:
    class Text(str):
        __slots__ = ()

    assert is_plainly_valid("text", {"minimum": 2})
    assert is_plainly_valid(1, {"minLength": 2})
    assert not is_plainly_valid(Text("text"), {"minimum": 2})
