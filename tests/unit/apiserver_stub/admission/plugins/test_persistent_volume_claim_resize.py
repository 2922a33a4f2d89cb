"""Tests for the PersistentVolumeClaimResize admission plugin."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.admission.listers import Lister
from apiserver_stub.admission.plugins.persistent_volume_claim_resize import PersistentVolumeClaimResize
from apiserver_stub.apimachinery.status import ApiError
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.admission.conftest import make_call
from tests.unit.apiserver_stub.authz.conftest import Memory


def claim(size: str | None, storage_class: str | None = None, annotation: str | None = None) -> dict[str, Any]:
    metadata = {"name": "c", "annotations": {"volume.beta.kubernetes.io/storage-class": annotation}}
    requests = {"storage": size} if size else {}
    spec = {"storageClassName": storage_class, "resources": {"requests": requests}}
    return {"metadata": metadata if annotation else {"name": "c"}, "spec": spec}


@pytest.mark.parametrize(
    ("old", "size", "is_rejected"),
    [
        (claim("1Gi", "growing"), "2Gi", False),
        (claim("1Gi", "fixed"), "2Gi", True),
        (claim("1Gi", "unset"), "2Gi", True),
        (claim("1Gi", "absent"), "2Gi", True),
        (claim("1Gi"), "2Gi", True),
        (claim("1Gi", "fixed"), "1Gi", False),
        (claim("1Gi", "fixed"), "1024Mi", False),
        (claim("1Gi", "fixed"), None, False),
        (claim(None, "fixed"), "1Gi", True),
        (claim("1Gi", "fixed", "growing"), "2Gi", False),
        (claim("1Gi", "growing", "fixed"), "2Gi", True),
    ],
)
@pytest.mark.row("admission.PersistentVolumeClaimResize")
async def test_claims_grow_only_if_their_class_allows_it(old: Any, size: str | None, *, is_rejected: bool) -> None:
    store: Any = Memory()
    for name, fields in (("growing", {"allowVolumeExpansion": True}), ("fixed", {"allowVolumeExpansion": False})):
        store.put("storage.k8s.io/storageclasses", {"metadata": {"name": name}, **fields})
    store.put("storage.k8s.io/storageclasses", {"metadata": {"name": "unset"}})
    found = ""

    try:
        plugin = PersistentVolumeClaimResize(Lister(store), Identity())
        await plugin.validate(make_call(claim(size), old, operation="UPDATE"))
    except ApiError as error:
        found = error.message

    assert bool(found) == is_rejected
    assert ("only dynamically provisioned pvc can be resized" in found) == is_rejected
