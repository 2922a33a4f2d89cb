"""JSON patch and merge patch do what their RFCs say."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver_stub.patch import apply_json_patch, apply_merge_patch
from apiserver_stub.status import ApiError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from("abc"), JSON, max_size=3)


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([{"op": "add", "path": "/c", "value": 1}], {"a": {"b": [1, 2]}, "c": 1}),
        ([{"op": "add", "path": "/a/b/1", "value": 9}], {"a": {"b": [1, 9, 2]}}),
        ([{"op": "add", "path": "/a/b/-", "value": 9}], {"a": {"b": [1, 2, 9]}}),
        ([{"op": "remove", "path": "/a/b/0"}], {"a": {"b": [2]}}),
        ([{"op": "replace", "path": "/a/b", "value": "x"}], {"a": {"b": "x"}}),
        ([{"op": "move", "from": "/a/b", "path": "/c~1d"}], {"a": {}, "c/d": [1, 2]}),
        ([{"op": "copy", "from": "/a/b", "path": "/a/e~0"}], {"a": {"b": [1, 2], "e~": [1, 2]}}),
        ([{"op": "test", "path": "/a/b/0", "value": 1}], {"a": {"b": [1, 2]}}),
        ([{"op": "replace", "path": "", "value": {"z": 1}}], {"z": 1}),
    ],
)
def test_json_patch(operations: list[Any], expected: Any) -> None:
    assert apply_json_patch({"a": {"b": [1, 2]}}, operations) == expected


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "test", "path": "/a", "value": True},
        {"op": "remove", "path": "/nope"},
        {"op": "replace", "path": "/nope", "value": 1},
        {"op": "add", "path": "/a/b", "value": 1},
        {"op": "add", "path": "/l/5", "value": 1},
        {"op": "add", "path": "/l/01", "value": 1},
        {"op": "move", "from": "/l", "path": "/l/0"},
        {"op": "frob", "path": "/a"},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "path": "/a"},
        {"path": "/a"},
        7,
    ],
)
def test_a_json_patch_that_cannot_be_carried_out_is_unprocessable(operation: Any) -> None:
    document = {"a": 1, "l": [1]}

    with pytest.raises(ApiError) as error:
        apply_json_patch(document, [{"op": "add", "path": "/x", "value": 1}, operation])

    assert error.value.code == 422
    assert document == {"a": 1, "l": [1]}


def test_what_is_no_json_patch_is_refused() -> None:
    with pytest.raises(ApiError) as error:
        apply_json_patch({}, {"op": "add"})
    assert error.value.code == 400

    with pytest.raises(ApiError) as error:
        apply_json_patch({}, [{}] * 10_001)
    assert error.value.code == 413


def test_merge_patch() -> None:
    document = {"a": {"b": 1, "c": 2}, "l": [1]}

    merged = apply_merge_patch(document, {"a": {"b": None, "d": {"e": None, "f": 3}}, "l": [2]})

    assert merged == {"a": {"c": 2, "d": {"f": 3}}, "l": [2]}
    assert document == {"a": {"b": 1, "c": 2}, "l": [1]}


@given(OBJECTS, OBJECTS)
def test_merging_twice_is_merging_once(document: Any, patch: Any) -> None:
    before = copy.deepcopy(document)

    once = apply_merge_patch(document, patch)

    assert apply_merge_patch(once, patch) == once
    assert document == before


@given(OBJECTS, st.sampled_from("abc"), JSON)
def test_what_is_added_is_found(document: Any, key: str, value: Any) -> None:
    operations = [
        {"op": "add", "path": f"/{key}", "value": value},
        {"op": "test", "path": f"/{key}", "value": value},
    ]

    assert apply_json_patch(document, operations)[key] == value
