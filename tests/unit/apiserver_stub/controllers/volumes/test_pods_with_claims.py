"""Tests for the scheduling of pods with claims."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.controllers.scheduler import Scheduler
from apiserver_stub.controllers.volumes.binder import VolumeBinder
from apiserver_stub.feature_gates import build_gates
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, rest, running, store
from tests.unit.apiserver_stub.controllers.test_scheduler import condition, node, node_of, pod

from .objects import CLAIMS, CLASSES, NODES, PODS, VOLUMES, bound_to, claim, reference, storage_class, volume

__all__ = ["store"]

SELECTED = "volume.kubernetes.io/selected-node"
NO_PREEMPTION = "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
BOUND: dict[str, Any] = {"volumeName": "v", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
ELSEWHERE = {
    "required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]}
}


def user(name: str = "web", of: str = "c", **spec: Any) -> dict[str, Any]:
    """Return a pod with the claim *of*."""
    return pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": of}}], **spec)


async def schedule(store: MeteredStore, clock: FakeClock, *, binds: bool = False) -> None:
    controllers = [Scheduler(store, Identity(), 3600, build_gates({}), clock).run()]
    if binds:
        controllers.append(VolumeBinder(store, Identity(), 3600, clock).run())
    store.put(NODES, node())
    async with running(store, *controllers):
        for _ in range(3):
            await clock.advance(1)
            await rest(store)


def unschedulable(store: MeteredStore) -> str:
    found = condition(store, "web")
    assert found is not None and found[:2] == ("False", "Unschedulable")
    return found[2].removeprefix("0/1 nodes are available: ").removesuffix(f" {NO_PREEMPTION}")


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ([], 'persistentvolumeclaim "c" not found.'),
        ([claim()], "pod has unbound immediate PersistentVolumeClaims."),
        ([claim(storageClassName="slow", volumeName="v")], "pod has unbound immediate PersistentVolumeClaims."),
        ([claim(storageClassName="static")], "1 node(s) didn't find available persistent volumes to bind."),
        ([claim(volumeName="gone", annotations=BOUND["annotations"])],
         "1 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)."),
        ([claim(**BOUND)], "1 node(s) had volume node affinity conflict."),
        ([claim() | {"status": {"phase": "Lost"}}],
         'persistentvolumeclaim "c" bound to non-existent persistentvolume "".'),
    ],
)  # fmt: skip
async def test_pod_waits_with_the_reason(
    store: MeteredStore, clock: FakeClock, claims: list[dict[str, Any]], message: str
) -> None:
    for name in ("slow", "static"):
        provisioner = "example.com/p" if name == "slow" else "kubernetes.io/no-provisioner"
        store.put(CLASSES, storage_class(name, provisioner))
    store.put(VOLUMES, volume(nodeAffinity=ELSEWHERE, claimRef=reference("c", "uid-c"), phase="Bound"))
    for each in claims:
        store.put(CLAIMS, each)
    store.put(PODS, user())
    await schedule(store, clock)

    assert node_of(store, "web") is None
    assert unschedulable(store) == message


async def test_missing_ephemeral_claim_is_reported(store: MeteredStore, clock: FakeClock) -> None:
    store.put(PODS, pod("web", volumes=[{"name": "data", "ephemeral": {}}]))
    await schedule(store, clock)

    text = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "web-data".'
    assert unschedulable(store) == text


async def test_pod_is_bound_once_its_claim_is(store: MeteredStore, clock: FakeClock) -> None:
    store.put(CLAIMS, claim())
    store.put(PODS, user())
    store.put(VOLUMES, volume())
    await schedule(store, clock, binds=True)

    assert node_of(store, "web") == "n1"


async def test_existing_volume_is_preferred_to_a_new_one(store: MeteredStore, clock: FakeClock) -> None:
    store.put(CLASSES, storage_class("slow"))
    store.put(VOLUMES, volume(storageClassName="slow"))
    store.put(CLAIMS, claim(storageClassName="slow"))
    store.put(PODS, user())
    await schedule(store, clock, binds=True)

    assert node_of(store, "web") == "n1" and bound_to(store) == ("Bound", "v")
    assert SELECTED not in store.read(CLAIMS, "n/c")["metadata"]["annotations"]


async def test_node_is_selected_and_the_pod_waits_for_its_volume(store: MeteredStore, clock: FakeClock) -> None:
    store.put(CLASSES, storage_class("slow"))
    store.put(CLAIMS, claim(storageClassName="slow"))
    store.put(PODS, user())
    store.put(NODES, node())
    binder = VolumeBinder(store, Identity(), 3600, clock).run()
    async with running(store, Scheduler(store, Identity(), 3600, build_gates({}), clock).run(), binder):
        await clock.advance(1)
        await rest(store)
        assert node_of(store, "web") is None and condition(store, "web") is None
        assert store.read(CLAIMS, "n/c")["metadata"]["annotations"][SELECTED] == "n1"
        store.put(VOLUMES, volume("new", storageClassName="slow", claimRef=reference("c", "uid-c"), phase="Pending"))
        await clock.advance(1)
        await rest(store)

    assert bound_to(store) == ("Bound", "new") and node_of(store, "web") == "n1"


async def test_exclusive_claim_is_used_by_one_pod(store: MeteredStore, clock: FakeClock) -> None:
    modes = ("ReadWriteOncePod",)
    store.put(VOLUMES, volume(modes=modes, claimRef=reference("c", "uid-c"), phase="Bound"))
    store.put(CLAIMS, claim(modes=modes, **BOUND))
    store.put(PODS, user("first", nodeName="n1"))
    store.put(PODS, user())
    await schedule(store, clock)

    assert unschedulable(store).startswith(
        "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode."
    )
