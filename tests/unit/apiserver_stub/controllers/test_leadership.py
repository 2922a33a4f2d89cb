"""Tests for the election of the server that runs the controllers."""

from __future__ import annotations

import asyncio

from apiserver_stub.controllers.leadership import Leadership
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, store

__all__ = ["store"]
LEASES = "coordination.k8s.io/leases"


def test_only_server_of_a_store_is_active_without_a_lease(store: MeteredStore) -> None:
    assert Leadership(store, Identity(), FakeClock()).active


async def test_one_of_two_servers_leads_until_it_stops(store: MeteredStore) -> None:
    clock = FakeClock()
    one, other = (Leadership(store, Identity(), clock, name) for name in ("one", "other"))
    tasks = [asyncio.ensure_future(item.run()) for item in (one, other)]
    try:
        await clock.advance(30)
        first = one.active, other.active
        tasks[0].cancel()
        await clock.advance(10)
        between = other.active
        for _ in range(6):
            await clock.advance(5)
        second = one.active, other.active
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert (first, between, second) == ((True, False), False, (False, True))
    assert store.read(LEASES, "kube-system/nodeagent-controllers")["spec"]["leaseTransitions"] == 1


def test_external_controller_manager_takes_precedence(store: MeteredStore) -> None:
    clock = FakeClock()
    leadership = Leadership(store, Identity(), clock)
    renewed = clock.wall().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    metadata = {"name": "kube-controller-manager", "namespace": "kube-system"}
    store.put(LEASES, {"metadata": metadata, "spec": {"holderIdentity": "host_1", "renewTime": renewed}})

    assert not leadership.active
