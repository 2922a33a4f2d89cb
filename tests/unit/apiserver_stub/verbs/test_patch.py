"""Tests for the kind and API version of patched objects."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds.registry import Resource
from apiserver_stub.schema.structural.schema import StructuralSchema
from apiserver_stub.schema.structural.tree import tree_of
from apiserver_stub.verbs.patch import restore_type

JSON_PATCH = "application/json-patch+json"


def custom() -> Resource:
    return Resource("g", "v1", "W", "ws", schema=StructuralSchema("W", tree_of({"type": "object"})))


@pytest.mark.parametrize("new", [{"apiVersion": "W"}, {"apiVersion": "g/v1", "kind": ""}, {"metadata": {}}])
def test_custom_kind_removed_by_a_patch_is_rejected(new: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as error:
        restore_type(custom(), JSON_PATCH, new)

    assert (error.value.code, error.value.reason) == (422, "Invalid")
    assert "Object 'Kind' is missing in" in error.value.message


def test_kind_and_version_removed_by_a_patch_are_restored() -> None:
    new: dict[str, Any] = {"metadata": {"name": "m"}}

    restore_type(Resource("", "v1", "ConfigMap", "configmaps"), JSON_PATCH, new)

    assert (new["apiVersion"], new["kind"]) == ("v1", "ConfigMap")
