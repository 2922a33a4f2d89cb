"""Tests for the controller of generic ephemeral volumes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apiserver_stub.apimachinery.objects import format_time
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.volumes.ephemeral_claims import EphemeralClaims
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import REGISTRY, MeteredStore, context, rest, running, store

from .objects import CLAIMS, PODS, claim, events

__all__ = ["store"]

TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def pod(**metadata: Any) -> dict[str, Any]:
    volumes = [{"name": "data", "ephemeral": {"volumeClaimTemplate": TEMPLATE}}]
    return {"metadata": {"name": "web", "namespace": "n", "uid": "uid-web", **metadata}, "spec": {"volumes": volumes}}


async def run(store: MeteredStore, clock: FakeClock) -> None:
    async with running(store, EphemeralClaims(context(store), REGISTRY, Identity(), 3600, clock).run()):
        await clock.advance(1)
        await rest(store)


async def test_claim_is_created_with_the_pod_as_owner(store: MeteredStore, clock: FakeClock) -> None:
    store.put(PODS, pod())
    await run(store, clock)

    created = store.read(CLAIMS, "n/web-data")
    (owner,) = created["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == ("Pod", "web", "uid-web", True)
    assert created["metadata"]["labels"] == {"app": "web"}
    assert created["spec"]["resources"] == TEMPLATE["spec"]["resources"] and created["status"] == {"phase": "Pending"}


async def test_deleted_pod_gets_no_claim(store: MeteredStore, clock: FakeClock) -> None:
    store.put(PODS, pod(deletionTimestamp="2024-01-01T00:00:00Z"))
    await run(store, clock)

    assert store.read(CLAIMS, "n/web-data") is None


async def test_claim_of_a_user_is_reported(store: MeteredStore, clock: FakeClock) -> None:
    store.put(CLAIMS, claim("web-data"))
    store.put(PODS, pod())
    await run(store, clock)

    note = "ephemeral volume data: PVC n/web-data was not created for pod n/web (pod is not owner)"
    assert events(store) == [("web", "FailedBinding", note)]


async def test_deleted_claim_of_a_pod_is_created_again(store: MeteredStore, clock: FakeClock) -> None:
    async with running(store, EphemeralClaims(context(store), REGISTRY, Identity(), 3600, clock).run()):
        for name in ("web", "gone"):
            store.put(PODS, pod(name=name, uid=f"uid-{name}"))
        store.put(CLAIMS, claim("other"))
        await rest(store)
        store.remove(PODS, "n/gone")
        for name in ("web-data", "gone-data", "other"):
            store.remove(CLAIMS, f"n/{name}")
        await clock.advance(1)
        await rest(store)
        left = [record.key for record in store.collection(CLAIMS).select()]
    assert left == ["n/web-data"]


async def test_terminated_pods_and_other_volumes_get_no_claim(store: MeteredStore, clock: FakeClock) -> None:
    store.put(PODS, {**pod(), "status": {"phase": "Succeeded"}})
    other = pod(name="other", uid="uid-other", annotations={"note": '"ephemeral"'})
    other["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]
    store.put(PODS, other)
    await run(store, clock)

    assert list(store.collection(CLAIMS).select()) == []
    assert events(store) == []


async def test_own_claim_is_not_reported(store: MeteredStore, clock: FakeClock) -> None:
    for owner, reported in (
        ({"uid": "uid-web", "controller": True}, False),
        ({"uid": "uid-web"}, True),
        ({"uid": "uid-other", "controller": True}, True),
    ):
        memory, owned = MeteredStore(), claim("web-data")
        owned["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "web", **owner}]
        memory.put(CLAIMS, owned)
        memory.put(PODS, pod())
        await run(memory, FakeClock())
        assert bool(events(memory)) is reported, owner


@pytest.mark.parametrize(("reason", "reported"), [("AlreadyExists", False), ("Forbidden", True)])
async def test_rejected_claim_is_reported_unless_it_exists(
    store: MeteredStore, clock: FakeClock, reason: str, *, reported: bool
) -> None:
    def reject(collection: str, key: str) -> None:
        if collection == CLAIMS:
            store.before_update = None
            raise ApiError(409, reason, "rejected", {})

    store.put(PODS, pod())
    store.before_update = reject
    async with running(store, EphemeralClaims(context(store), REGISTRY, Identity(), 3600, clock).run()):
        await clock.advance(120)
        await rest(store)
    assert ([note for _, _, note in events(store)] != []) is reported
    assert (store.read(CLAIMS, "n/web-data") is not None) is reported  # Only failures are retried.


@pytest.mark.parametrize(("age", "created"), [(0, False), (100, True)])
async def test_controller_waits_while_a_controller_manager_runs(
    store: MeteredStore, clock: FakeClock, age: int, *, created: bool
) -> None:
    renewed = format_time(clock.wall() - timedelta(seconds=age))
    metadata = {"name": "kube-controller-manager", "namespace": "kube-system"}
    lease = {"metadata": metadata, "spec": {"holderIdentity": "x", "renewTime": renewed}}
    store.put("coordination.k8s.io/leases", lease)
    store.put(PODS, pod())
    await run(store, clock)
    assert (store.read(CLAIMS, "n/web-data") is not None) is created
