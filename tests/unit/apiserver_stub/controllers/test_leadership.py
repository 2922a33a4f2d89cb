"""Tests for the election of the server that runs the controllers."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from apiserver_stub.controllers.leadership import Leadership, LeaseTiming
from apiserver_stub.storage import StoreUnavailable
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, store

__all__ = ["store"]
LEASES, LEASE = "coordination.k8s.io/leases", "kube-system/nodeagent-controllers"


def test_only_server_of_a_store_is_active_without_a_lease(store: MeteredStore) -> None:
    assert Leadership(store, Identity(), FakeClock()).active


async def test_leader_that_stops_hands_over_immediately(store: MeteredStore) -> None:
    clock = FakeClock()
    one, other = (Leadership(store, Identity(), clock, name) for name in ("one", "other"))
    tasks = [asyncio.ensure_future(item.run()) for item in (one, other)]
    try:
        await clock.advance(30)
        first = one.active, other.active
        assert store.read(LEASES, LEASE)["spec"]["leaseTransitions"] == 0
        tasks[0].cancel()
        await asyncio.gather(tasks[0], return_exceptions=True)
        released = store.read(LEASES, LEASE)["spec"]["holderIdentity"]
        await clock.advance(LeaseTiming().retry_seconds)
        second = one.active, other.active
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert (first, released, second) == ((True, False), "", (False, True))
    assert store.read(LEASES, LEASE)["spec"]["leaseTransitions"] == 1


async def test_killed_leader_is_replaced_after_the_duration_of_its_lease(store: MeteredStore) -> None:
    clock, timing = FakeClock(), LeaseTiming(6.0, 4.0, 1.0)
    killed, other = (Leadership(store, Identity(), clock, name, timing) for name in ("killed", "other"))
    await killed._renew(clock.now())
    task = asyncio.ensure_future(other.run())
    try:
        await clock.advance(3)
        early = killed.leads, other.leads
        await clock.advance(2)
        between = killed.leads, other.leads
        await clock.advance(3)
        late = killed.leads, other.leads
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert (early, between, late) == ((True, False), (False, False), (False, True))


async def test_controller_runs_while_its_server_leads(store: MeteredStore) -> None:
    clock = FakeClock()
    leadership, states = Leadership(store, Identity(), clock, "one"), []

    async def controller() -> None:
        states.append("started")
        try:
            await asyncio.Event().wait()
        finally:
            states.append("stopped")

    def unavailable(_name: str, _key: str) -> None:
        raise StoreUnavailable("etcd")

    tasks = [asyncio.ensure_future(item) for item in (leadership.run_while_leading(controller), leadership.run())]
    try:
        await clock.advance(1)
        store.before_update = unavailable
        await clock.advance(LeaseTiming().renew_deadline_seconds)
        lost = list(states)
        store.before_update = None
        await clock.advance(LeaseTiming().retry_seconds)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert lost == ["started", "stopped"]
    assert states == ["started", "stopped", "started", "stopped"]


async def test_state_of_a_controller_is_not_retained_after_its_term(store: MeteredStore) -> None:
    class State:
        pass

    clock, states = FakeClock(), weakref.WeakSet[State]()
    leadership = Leadership(store, Identity(), clock, "one")

    async def controller() -> None:
        state = State()
        states.add(state)
        await asyncio.Event().wait()
        del state

    def unavailable(_name: str, _key: str) -> None:
        raise StoreUnavailable("etcd")

    tasks = [asyncio.ensure_future(item) for item in (leadership.run_while_leading(controller), leadership.run())]
    try:
        await clock.advance(1)
        assert len(states) == 1
        store.before_update = unavailable
        await clock.advance(LeaseTiming().renew_deadline_seconds)
        gc.collect()
        assert not states
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_failure_of_a_controller_is_not_hidden(store: MeteredStore) -> None:
    async def fail() -> None:
        raise LookupError("x")

    for holder in ("", "one"):
        clock = FakeClock()
        leadership = Leadership(store, Identity(), clock, holder)
        if holder:
            await leadership._renew(clock.now())
        with pytest.raises(LookupError):
            await leadership.run_while_leading(fail)


def test_external_controller_manager_takes_precedence(store: MeteredStore) -> None:
    clock = FakeClock()
    leadership = Leadership(store, Identity(), clock)
    renewed = clock.wall().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    metadata = {"name": "kube-controller-manager", "namespace": "kube-system"}
    store.put(LEASES, {"metadata": metadata, "spec": {"holderIdentity": "host_1", "renewTime": renewed}})

    assert not leadership.active
