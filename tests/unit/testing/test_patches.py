"""Tests for strategic merge patches of lists, and JSON patches."""

import pytest

from nodeagent.contracts.api import PatchType
from nodeagent.errors import ApiError
from nodeagent.testing.patches import apply_patch


def strategic(target, patch):
    return apply_patch(target, patch, PatchType.STRATEGIC)


def test_primitive_values_are_deleted_from_a_list():
    target = {"metadata": {"finalizers": ["a", "b"]}}
    patch = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "$deleteFromPrimitiveList/missing": ["a"]}}
    assert strategic(target, patch) == {"metadata": {"finalizers": ["b"]}}


@pytest.mark.parametrize(
    ("order", "result"), [(["c", "a", "b"], ["c", "a", "b"]), (["c"], ["c", "a", "b"]), ([], ["a", "b", "c"])]
)
def test_elements_have_the_requested_order_and_others_follow(order, result):
    target = {"status": {"conditions": [{"type": name} for name in "abc"]}}
    directive = {"status": {"$setElementOrder/conditions": [{"type": name} for name in order]}}
    assert [each["type"] for each in strategic(target, directive)["status"]["conditions"]] == result
    primitive = {"metadata": {"finalizers": ["a", "b", "c"]}}
    directive = {"metadata": {"$setElementOrder/finalizers": order}}
    assert strategic(primitive, directive)["metadata"]["finalizers"] == result


def test_elements_are_merged_replaced_and_deleted_by_their_key():
    target = {"status": {"conditions": [{"type": "a", "status": "True", "reason": "r"}, {"type": "b"}]}}

    merged = strategic(target, {"status": {"conditions": [{"type": "a", "status": "False"}, {"type": "c", "x": None}]}})
    assert merged["status"]["conditions"] == [
        {"type": "a", "status": "False", "reason": "r"},
        {"type": "b"},
        {"type": "c"},
    ]
    deleted = strategic(
        target, {"status": {"conditions": [{"type": "b", "$patch": "delete"}, {"type": "z", "$patch": "delete"}]}}
    )
    assert [each["type"] for each in deleted["status"]["conditions"]] == ["a"]
    replaced = strategic(target, {"status": {"conditions": [{"type": "z"}, {"$patch": "replace"}]}})
    assert replaced["status"]["conditions"] == [{"type": "z"}]


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ({"op": "add", "path": "/a/-", "value": 3}, {"a": [1, 2, 3], "x/y": 1}),
        ({"op": "add", "path": "/a/0", "value": 3}, {"a": [3, 1, 2], "x/y": 1}),
        ({"op": "replace", "path": "/a/1", "value": 3}, {"a": [1, 3], "x/y": 1}),
        ({"op": "remove", "path": "/x~1y"}, {"a": [1, 2]}),
        ({"op": "add", "path": "/b", "value": {}}, {"a": [1, 2], "x/y": 1, "b": {}}),
    ],
)
def test_json_patch_changes_lists_and_fields(operation, result):
    assert apply_patch({"a": [1, 2], "x/y": 1}, [operation], PatchType.JSON) == result


@pytest.mark.parametrize("path", ["/missing/x", "/a/7", "/a/x"])
def test_json_patch_of_a_missing_element_is_rejected(path):
    with pytest.raises(ApiError, match="failed to apply patch operation"):
        apply_patch({"a": [1]}, [{"op": "remove", "path": path}], PatchType.JSON)
