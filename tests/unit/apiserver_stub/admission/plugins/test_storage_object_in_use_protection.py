"""Tests for the finalizers of objects in use."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission.plugins.storage_object_in_use_protection import StorageObjectInUseProtection
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.admission.conftest import make_call


@pytest.mark.parametrize(
    ("group", "plural", "expected"),
    [
        ("", "persistentvolumes", True),
        ("", "persistentvolumeclaims", True),
        ("storage.k8s.io", "volumeattributesclasses", True),
        ("storage.k8s.io", "storageclasses", False),
    ],
)
def test_volumes_claims_and_attributes_classes_are_protected(group: str, plural: str, expected: bool) -> None:
    resource = build_registry(parse(["--compatibility-version=1.36"])).find(group, "v1", plural)
    assert resource is not None

    assert StorageObjectInUseProtection(Identity()).concerns(resource, "CREATE", "") is expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, ["kubernetes.io/pvc-protection"]),
        (["a"], ["a", "kubernetes.io/pvc-protection"]),
        (["kubernetes.io/pvc-protection", "a"], ["kubernetes.io/pvc-protection", "a"]),
    ],
)
async def test_finalizer_is_added_once(given: Any, expected: list[str]) -> None:
    claims = build_registry(parse([])).find("", "v1", "persistentvolumeclaims")
    claim: Any = {"metadata": {"name": "c", "finalizers": given}}

    await StorageObjectInUseProtection(Identity()).admit(make_call(claim, resource=claims))

    assert claim["metadata"]["finalizers"] == expected
