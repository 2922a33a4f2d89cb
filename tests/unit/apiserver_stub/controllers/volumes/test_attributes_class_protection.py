"""Tests for the protection of volume attributes classes."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.controllers.volume_attributes_protection import AttributesClassProtection
from nodeagent.base.identity import Identity
from nodeagent.testing.clock import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, rest, running, store

__all__ = ["store"]

CLASSES, CLAIMS, VOLUMES = (
    "storage.k8s.io/volumeattributesclasses",
    "core/persistentvolumeclaims",
    "core/persistentvolumes",
)
FINALIZER = "kubernetes.io/vac-protection"


def attributes_class(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": "fast", "finalizers": [FINALIZER], **metadata}, "driverName": "d"}


@pytest.mark.parametrize(
    ("collection", "key", "content"),
    [
        (CLAIMS, "n/c", {"spec": {"volumeAttributesClassName": "fast"}}),
        (CLAIMS, "n/c", {"status": {"currentVolumeAttributesClassName": "fast"}}),
        (CLAIMS, "n/c", {"status": {"modifyVolumeStatus": {"targetVolumeAttributesClassName": "fast"}}}),
        (VOLUMES, "c", {"spec": {"volumeAttributesClassName": "fast"}}),
    ],
)
async def test_deleted_class_remains_while_it_is_used(
    store: MeteredStore, clock: FakeClock, collection: str, key: str, content: dict[str, Any]
) -> None:
    namespace, _, name = key.rpartition("/")
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    store.put(CLASSES, attributes_class(deletionTimestamp="2026-01-01T00:00:00Z"))
    store.put(collection, {"metadata": metadata, **content})

    async with running(store, AttributesClassProtection(store, Identity(), clock).run()):
        await rest(store)
        assert store.read(CLASSES, "fast") is not None
        store.remove(collection, key)
        await rest(store)

    assert store.read(CLASSES, "fast") is None


async def test_class_that_is_not_deleted_keeps_its_finalizer(store: MeteredStore, clock: FakeClock) -> None:
    store.put(CLASSES, attributes_class())
    store.put(CLAIMS, {"metadata": {"name": "c", "namespace": "n"}, "spec": {"volumeAttributesClassName": "fast"}})

    async with running(store, AttributesClassProtection(store, Identity(), clock).run()):
        store.remove(CLAIMS, "n/c")
        await rest(store)

    assert store.read(CLASSES, "fast")["metadata"]["finalizers"] == [FINALIZER]
