"""Tests for the stored form of objects: empty lists of required fields are null."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.schema import shapes
from apiserver_stub.schema.stored_form import settle


@pytest.mark.parametrize(
    ("version", "kind", "obj", "settled"),
    [
        ("rbac.authorization.k8s.io/v1", "Role", {"rules": []}, {"rules": None}),
        ("rbac.authorization.k8s.io/v1", "Role", {"rules": [{"verbs": []}]}, {"rules": [{"verbs": None}]}),
        ("v1", "Pod", {"spec": {"containers": [], "volumes": []}}, {"spec": {"containers": None, "volumes": []}}),
        ("v1", "ConfigMap", {"data": {}}, {"data": {}}),
        ("example.com/v1", "Own", {"list": []}, {"list": []}),
    ],
)
def test_empty_list_of_a_required_field_becomes_null(version: str, kind: str, obj: Any, settled: Any) -> None:
    settle(obj, shapes.of(version, kind, "k8s.io"))
    assert obj == settled
