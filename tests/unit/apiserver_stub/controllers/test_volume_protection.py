"""Tests for the protection of volumes and claims that are in use."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.controllers.volume_protection import VolumeProtection
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, rest, running, store

__all__ = ["store"]

VOLUMES, CLAIMS, PODS = "core/persistentvolumes", "core/persistentvolumeclaims", "core/pods"
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
CLAIM = {"name": "v", "persistentVolumeClaim": {"claimName": "p-v"}}
OTHER = {"name": "o", "persistentVolumeClaim": {"claimName": "of-another-volume"}}
EPHEMERAL = {"name": "v", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}


def pod(volume: Any, phase: str = "Running", node: str = "n", name: str = "p", **metadata: Any) -> dict[str, Any]:
    spec = {"volumes": [OTHER, {"name": "tmp", "emptyDir": {}}, volume], **({"nodeName": node} if node else {})}
    return {"metadata": {"name": name, "namespace": "ns", **metadata}, "spec": spec, "status": {"phase": phase}}


def claim(name: str = "p-v", **metadata: Any) -> dict[str, Any]:
    finalizers = ["kubernetes.io/pvc-protection"]
    return {"metadata": {"name": name, "namespace": "ns", "finalizers": finalizers, **DELETED, **metadata}}


def volume(phase: str) -> dict[str, Any]:
    metadata = {"name": "v", "finalizers": ["kubernetes.io/pv-protection"], **DELETED}
    return {"metadata": metadata, "status": {"phase": phase}}


@pytest.mark.parametrize("source", [CLAIM, EPHEMERAL])
@pytest.mark.parametrize("phase", ["Running", "Succeeded", "Failed"])
async def test_claim_remains_until_the_pod_that_uses_it_is_deleted(
    store: MeteredStore, clock: FakeClock, source: Any, phase: str
) -> None:
    store.put(PODS, pod(source, phase))
    store.put(CLAIMS, claim())
    async with running(store, VolumeProtection(store, Identity(), clock).run()):
        await rest(store)
        before = store.read(CLAIMS, "ns/p-v")
        store.remove(PODS, "ns/p")
        await rest(store)
    assert before is not None
    assert store.read(CLAIMS, "ns/p-v") is None


async def test_claim_of_two_pods_remains_until_both_are_deleted(store: MeteredStore, clock: FakeClock) -> None:
    for name in ("p", "q"):
        store.put(PODS, pod(CLAIM, name=name))
    store.put(CLAIMS, claim())
    async with running(store, VolumeProtection(store, Identity(), clock).run()):
        store.remove(PODS, "ns/p")
        await rest(store)
        before = store.read(CLAIMS, "ns/p-v")
        store.remove(PODS, "ns/q")
        await rest(store)
    assert before is not None
    assert store.read(CLAIMS, "ns/p-v") is None


@pytest.mark.parametrize(
    ("source", "metadata", "removed"),
    [
        (EPHEMERAL, {**DELETED, "deletionGracePeriodSeconds": 0}, True),
        (EPHEMERAL, {**DELETED, "deletionGracePeriodSeconds": 30}, False),
        (EPHEMERAL, {"deletionGracePeriodSeconds": 0}, False),
        (CLAIM, {**DELETED, "deletionGracePeriodSeconds": 0}, False),
    ],
)
async def test_pod_that_has_shut_down_releases_only_ephemeral_claims(
    store: MeteredStore, clock: FakeClock, source: Any, metadata: dict[str, Any], *, removed: bool
) -> None:
    store.put(PODS, pod(source))
    store.put(CLAIMS, claim())
    async with running(store, VolumeProtection(store, Identity(), clock).run()):
        await rest(store)
        store.put(PODS, pod(source, **metadata))
        await rest(store)
    assert (store.read(CLAIMS, "ns/p-v") is None) is removed


@pytest.mark.parametrize(
    "other",
    [
        pod(CLAIM, node=""),
        pod({"name": "v", "persistentVolumeClaim": {"claimName": "other"}}),
        {**pod(CLAIM), "metadata": {"name": "p", "namespace": "other"}},
    ],
)
async def test_claim_that_no_assigned_pod_uses_is_removed(
    store: MeteredStore, clock: FakeClock, other: dict[str, Any]
) -> None:
    store.put(PODS, other)
    store.put(CLAIMS, claim())
    async with running(store, VolumeProtection(store, Identity(), clock).run()):
        await rest(store)
    assert store.read(CLAIMS, "ns/p-v") is None


async def test_volume_remains_while_it_is_bound(store: MeteredStore, clock: FakeClock) -> None:
    store.put(VOLUMES, volume("Bound"))
    async with running(store, VolumeProtection(store, Identity(), clock).run()):
        await rest(store)
        before = store.read(VOLUMES, "v")
        store.put(VOLUMES, volume("Released"))
        await rest(store)
    assert before is not None
    assert store.read(VOLUMES, "v") is None


async def test_only_the_finalizer_of_deleted_claims_is_removed(
    store: MeteredStore, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    own = "kubernetes.io/pvc-protection"
    store.put(CLAIMS, claim("shared", finalizers=[own, "example.com/hold"]))
    store.put(CLAIMS, claim("others", finalizers=["example.com/hold"]))
    live = {"name": "live", "namespace": "ns", "finalizers": [own]}
    store.put(CLAIMS, {"metadata": live, "spec": {"note": '"deletionTimestamp"'}})
    for name in ("live", "shared", "others", "missing"):
        store.put(PODS, pod({"name": "v", "persistentVolumeClaim": {"claimName": name}}, name=name))
    async with running(store, VolumeProtection(store, Identity(), clock).run()):
        await rest(store)
        writes = store.writes
        for name in ("live", "shared", "others", "missing"):
            store.remove(PODS, f"ns/{name}")
        await rest(store)

    found = {name: store.read(CLAIMS, f"ns/{name}")["metadata"]["finalizers"] for name in ("live", "shared", "others")}
    assert found == {"live": [own], "shared": ["example.com/hold"], "others": ["example.com/hold"]}
    assert store.writes == writes + 4 + 1
    assert caplog.messages == []
