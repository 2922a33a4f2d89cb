"""Tests for JSON patch (RFC 6902) and merge patch (RFC 7386)."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apiserver_stub.apimachinery.json_patch import apply_json_patch, apply_merge_patch
from apiserver_stub.apimachinery.status import ApiError

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
        ([{"op": "replace", "path": "", "value": 5}], {"a": {"b": [1, 2]}}),
        ([{"op": "replace", "path": "/c", "value": 1}], {"a": {"b": [1, 2]}, "c": 1}),
        ([{"op": "add", "path": "/c"}], {"a": {"b": [1, 2]}, "c": None}),
        ([{"op": "add", "path": "a/c", "value": 1}], {"a": {"b": [1, 2]}, "c": 1}),
        ([{"op": "add", "path": "/a/b/-1", "value": 3}], {"a": {"b": [1, 2, 3]}}),
        ([{"op": "remove", "path": "/a/b/-2"}], {"a": {"b": [2]}}),
        ([{"op": "copy", "from": "/c", "path": "/d"}], {"a": {"b": [1, 2]}, "d": None}),
        ([{"op": "test", "path": "/c", "value": None}], {"a": {"b": [1, 2]}}),
        ([{"op": "test", "path": "", "value": {"a": {"b": [1, 2]}}}], {"a": {"b": [1, 2]}}),
        (None, {"a": {"b": [1, 2]}}),
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
        {"op": "replace", "path": "/nope/a", "value": 1},
        {"op": "add", "path": "", "value": {}},
        {"op": "test", "path": "/nope", "value": 1},
        {"op": "test", "path": "/nope"},
        {"op": "copy", "from": "/nope/a", "path": "/b"},
        {"op": "add", "path": "/a/b", "value": 1},
        {"op": "add", "path": "/l/5", "value": 1},
        {"op": "add", "path": "/l/-3", "value": 1},
        {"op": "add", "path": "/l/x", "value": 1},
        {"op": "move", "from": "/l", "path": "/l/0"},
        {"op": "frob", "path": "/a"},
        {"op": "add", "path": "a", "value": 1},
        {"path": "/a"},
        None,
    ],
)
def test_failing_json_patch_is_unprocessable(operation: Any) -> None:
    document = {"a": 1, "l": [1]}

    with pytest.raises(ApiError) as error:
        apply_json_patch(document, [{"op": "add", "path": "/x", "value": 1}, operation])

    assert error.value.code == 422
    assert document == {"a": 1, "l": [1]}


def test_invalid_json_patch_is_rejected() -> None:
    with pytest.raises(ApiError) as error:
        apply_json_patch({}, {"op": "add"})
    assert error.value.code == 400

    with pytest.raises(ApiError) as error:
        apply_json_patch({}, [1])
    assert error.value.code == 400

    with pytest.raises(ApiError) as error:
        apply_json_patch({}, [{}] * 10_001)
    assert error.value.code == 413


def test_merge_patch() -> None:
    document = {"a": {"b": 1, "c": 2}, "l": [1]}

    merged = apply_merge_patch(document, {"a": {"b": None, "d": {"e": None, "f": 3}}, "l": [2]})

    assert merged == {"a": {"c": 2, "d": {"f": 3}}, "l": [2]}
    assert document == {"a": {"b": 1, "c": 2}, "l": [1]}


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        ({"a": [1]}, {"a": [{"b": None, "c": 1}, None]}, {"a": [{"c": 1}, None]}),
        ({}, {"a": {"b": {"c": None}}}, {"a": {"b": {}}}),
        ({"a": "text"}, {"a": {"b": None}}, {"a": {}}),
    ],
)
def test_merge_patch_drops_nulls_of_new_values(document: Any, patch: Any, result: Any) -> None:
    assert apply_merge_patch(document, patch) == result


@given(OBJECTS, OBJECTS)
def test_repeated_merge_patch_changes_nothing_after_the_second_time(document: Any, patch: Any) -> None:
    before = copy.deepcopy(document)

    twice = apply_merge_patch(apply_merge_patch(document, patch), patch)  # A list that replaces an object keeps nulls.

    assert apply_merge_patch(twice, patch) == twice
    assert document == before


@given(OBJECTS, st.sampled_from("abc"), JSON)
def test_added_value_is_present(document: Any, key: str, value: Any) -> None:
    operations = [
        {"op": "add", "path": f"/{key}", "value": value},
        {"op": "test", "path": f"/{key}", "value": value},
    ]

    assert apply_json_patch(document, operations)[key] == value


POINTERS = st.lists(st.sampled_from(["a", "b", "c", "0", "1", "-", "", "~1", "01"]), max_size=3).map(
    lambda parts: "".join(f"/{part}" for part in parts)
)
OPERATIONS = st.lists(
    st.one_of(
        st.fixed_dictionaries(
            {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": POINTERS},
            optional={"from": POINTERS, "value": JSON},
        ),
        JSON,
    ),
    max_size=5,
)


@given(OBJECTS, OPERATIONS)
def test_random_operations_do_not_modify_the_original(document: Any, operations: Any) -> None:
    before = copy.deepcopy(document)

    try:
        apply_json_patch(document, operations)
    except ApiError as error:
        assert error.code in (400, 422)

    assert document == before


@given(OBJECTS, st.sampled_from("abc"), JSON)
def test_added_and_removed_value_leaves_the_document_unchanged(document: Any, key: str, value: Any) -> None:
    document.pop(key, None)
    operations = [{"op": "add", "path": f"/{key}", "value": value}, {"op": "remove", "path": f"/{key}"}]

    assert apply_json_patch(document, operations) == document


@given(OBJECTS, st.sampled_from("ab"), JSON)
def test_move_equals_copy_and_remove(document: Any, key: str, value: Any) -> None:
    document[key] = value
    moved = apply_json_patch(document, [{"op": "move", "from": f"/{key}", "path": "/z"}])

    steps = [{"op": "copy", "from": f"/{key}", "path": "/z"}, {"op": "remove", "path": f"/{key}"}]
    assert apply_json_patch(document, steps) == moved


def test_removal_of_the_document_is_rejected() -> None:
    with pytest.raises(ApiError) as error:
        apply_json_patch({"a": 1}, [{"op": "remove", "path": ""}])

    assert error.value.code == 422


def test_copies_are_limited_in_size() -> None:
    doubling = [{"op": "copy", "from": "/data", "path": f"/data/c{number}"} for number in range(60)]

    with pytest.raises(ApiError, match="limited to 3145728 bytes") as error:
        apply_json_patch({"data": {"x": "y" * 100}}, doubling)

    assert error.value.code == 422


def difference(old: Any, new: Any) -> Any:
    """Return the merge patch from *old* to *new*, both without nulls inside."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    patch = {key: difference(old.get(key), value) for key, value in new.items() if key not in old or old[key] != value}
    return patch | dict.fromkeys(old.keys() - new.keys())


NO_NULLS = st.recursive(
    st.booleans() | st.integers(-3, 3) | st.text("xy", max_size=2),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(st.sampled_from("abc"), below, max_size=3),
    max_leaves=8,
)
PLAIN_OBJECTS = st.dictionaries(st.sampled_from("abc"), NO_NULLS, max_size=3)


@given(PLAIN_OBJECTS, PLAIN_OBJECTS)
def test_merge_patch_of_a_difference_yields_the_target(old: Any, new: Any) -> None:
    assert apply_merge_patch(old, difference(old, new)) == new


def test_operations_are_limited_in_number() -> None:
    operations = [{"op": "test", "path": "/a", "value": 1}] * 10_000
    assert apply_json_patch({"a": 1}, operations) == {"a": 1}

    with pytest.raises(ApiError, match="maximum operations in a JSON patch is 10000, got 10001") as error:
        apply_json_patch({"a": 1}, [*operations, operations[0]])

    assert error.value.code == 413


@pytest.mark.parametrize(
    ("value", "expected", "same"),
    [
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1}, {"a": 1, "b": 1}, False),
        ({"a": 1, "b": 1}, {"a": 1}, False),
        ({"a": 1}, {"b": 1}, False),
        ([1], [1], True),
        ([1], [1, 1], False),
        ([1, 2], [2, 1], False),
        (1, True, False),
        (True, True, True),
        ({"a": [0]}, {"a": [False]}, False),
        ({}, [], False),
        (None, None, True),
    ],
)
def test_tested_value_must_be_the_same(value: Any, expected: Any, *, same: bool) -> None:
    operations = [{"op": "test", "path": "/a", "value": expected}]

    if same:
        assert apply_json_patch({"a": value}, operations) == {"a": value}
    else:
        with pytest.raises(ApiError) as error:
            apply_json_patch({"a": value}, operations)
        assert error.value.code == 422
