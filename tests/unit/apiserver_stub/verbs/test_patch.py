"""Tests for the kind and API version of patched objects."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.schema.structural.schema import StructuralSchema
from apiserver_stub.schema.structural.tree import tree_of
from apiserver_stub.verbs.patch import restore_type

JSON_PATCH, MERGE_PATCH = "application/json-patch+json", "application/merge-patch+json"


def custom() -> Resource:
    return Resource("g", "v1", "W", "ws", schema=StructuralSchema("W", tree_of({"type": "object"})))


@pytest.mark.parametrize("new", [{"apiVersion": "W"}, {"apiVersion": "g/v1", "kind": ""}, {"metadata": {}}])
def test_custom_kind_removed_by_a_patch_is_rejected(new: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as error:
        restore_type(custom(), JSON_PATCH, new)

    assert (error.value.code, error.value.reason) == (422, "Invalid")
    assert "Object 'Kind' is missing in" in error.value.message


@pytest.mark.parametrize(("name", "value", "go_type"), [("kind", 5, "number"), ("apiVersion", ["g/v1"], "array")])
def test_patch_that_sets_no_text_as_custom_kind_is_rejected(name: str, value: Any, go_type: str) -> None:
    with pytest.raises(ApiError) as error:
        restore_type(custom(), JSON_PATCH, {"apiVersion": "g/v1", "kind": "W", name: value}, "status")

    assert error.value.code == 422
    assert f"cannot unmarshal {go_type} into Go struct field .{name} of type string" in error.value.message


@pytest.mark.parametrize(
    ("media_type", "new", "code"),
    [(MERGE_PATCH, {}, 500), (JSON_PATCH, {"apiVersion": None}, 422)],
)
def test_api_version_removed_by_a_patch_of_a_custom_kind_is_an_error(
    media_type: str, new: dict[str, Any], code: int
) -> None:
    with pytest.raises(ApiError) as error:
        restore_type(custom(), media_type, {"kind": "W", **new})

    assert error.value.code == code


@pytest.mark.parametrize("new", [{"apiVersion": "g/v1", "kind": "X"}, {"apiVersion": "g/v2", "kind": "W"}])
def test_other_custom_kind_is_accepted_in_patches_of_the_status(new: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as error:
        restore_type(custom(), JSON_PATCH, dict(new))
    restore_type(custom(), JSON_PATCH, new, "status")

    assert error.value.code == 422
    assert (new["apiVersion"], new["kind"]) == ("g/v1", "W")


def test_kind_and_version_removed_by_a_patch_are_restored() -> None:
    new: dict[str, Any] = {"metadata": {"name": "m"}}

    restore_type(Resource("", "v1", "ConfigMap", "configmaps"), JSON_PATCH, new)

    assert (new["apiVersion"], new["kind"]) == ("v1", "ConfigMap")
