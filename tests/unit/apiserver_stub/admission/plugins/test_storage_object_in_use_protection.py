"""Tests for the finalizers of objects in use."""

from __future__ import annotations

import pytest

from apiserver_stub.admission.plugins.storage_object_in_use_protection import StorageObjectInUseProtection
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from nodeagent.base.identity import Identity


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
