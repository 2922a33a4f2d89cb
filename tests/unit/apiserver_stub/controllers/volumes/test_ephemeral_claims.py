"""Tests for the controller of generic ephemeral volumes."""

from __future__ import annotations

from typing import Any

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
