"""Tests for the resource quota controller."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from apiserver_stub.admission.quota.shared_charges import CHARGES, SharedCharges
from apiserver_stub.admission.quota.usage_tracker import COLLECTION, QuotaUsageTracker
from apiserver_stub.controllers.leadership import Leadership
from apiserver_stub.controllers.quotas import ResourceQuotas
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import REGISTRY, MeteredStore, rest, running, store

__all__ = ["store"]

MAPS, PODS = "core/configmaps", "core/pods"


@asynccontextmanager
async def counting(store: MeteredStore, clock: FakeClock, charges: SharedCharges | None = None) -> AsyncIterator[None]:
    tracker = QuotaUsageTracker(store, REGISTRY, Identity())  # type: ignore[arg-type]
    others = []
    if charges is not None:
        tracker.share(charges)
        others.append(charges.run())
    leadership = Leadership(store, Identity(), clock)  # type: ignore[arg-type]
    quotas = ResourceQuotas(store, tracker, leadership, clock)  # type: ignore[arg-type]
    async with running(store, quotas.run(), *others):
        await settle(store, clock)
        yield


async def settle(store: MeteredStore, clock: FakeClock) -> None:
    await clock.advance(1)
    await rest(store)


def put_quota(store: MeteredStore, name: str = "q", **hard: str) -> None:
    hard = hard or {"configmaps": "9", "pods": "9"}
    store.put(COLLECTION, {"metadata": {"name": name, "namespace": "n", "uid": name}, "spec": {"hard": hard}})


def put_map(store: MeteredStore, name: str, namespace: str = "n") -> None:
    store.put(MAPS, {"metadata": {"name": name, "namespace": namespace, "uid": name}})


def put_pod(store: MeteredStore, phase: str) -> None:
    metadata = {"name": "p", "namespace": "n", "uid": "p"}
    store.put(PODS, {"metadata": metadata, "spec": {"containers": []}, "status": {"phase": phase}})


def used(store: MeteredStore, name: str = "q") -> Any:
    return store.read(COLLECTION, f"n/{name}")["status"]["used"]


async def test_usage_follows_the_objects_of_the_namespace(store: MeteredStore, clock: FakeClock) -> None:
    put_quota(store)
    put_quota(store, "second", configmaps="1")
    put_map(store, "q")  # Like the quota.
    found = []
    async with counting(store, clock):
        found.append(used(store)["configmaps"])
        put_map(store, "b")
        put_map(store, "elsewhere", "other")
        await settle(store, clock)
        found.append(used(store)["configmaps"])
        store.remove(MAPS, "n/q")
        await settle(store, clock)
        found.append(used(store)["configmaps"])
        put_map(store, "c")
        await settle(store, clock)
        found.append(used(store)["configmaps"])
        assert used(store, "second") == {"configmaps": "2"}
    assert found == ["1", "2", "1", "2"]


async def test_terminated_pods_are_not_counted(store: MeteredStore, clock: FakeClock) -> None:
    put_quota(store)
    put_pod(store, "Running")
    async with counting(store, clock):
        before = used(store)["pods"]
        put_pod(store, "Succeeded")
        await settle(store, clock)
        assert (before, used(store)["pods"]) == ("1", "0")


async def test_changed_and_recreated_quota_is_counted(
    store: MeteredStore, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    put_map(store, "a")
    put_quota(store)
    put_quota(store, "second")
    async with counting(store, clock):
        put_quota(store, configmaps="3")
        await settle(store, clock)
        changed = used(store)
        store.remove(COLLECTION, "n/q")
        put_map(store, "b")
        await settle(store, clock)
        remaining = used(store, "second")["configmaps"]
        store.remove(COLLECTION, "n/second")
        put_map(store, "c")
        await settle(store, clock)
        put_quota(store)
        await settle(store, clock)
        again = used(store)["configmaps"]
    assert (changed, remaining, again) == ({"configmaps": "1"}, "2", "3")
    assert caplog.messages == []


@pytest.mark.parametrize("change", ["updated", "removed"])
async def test_quota_is_counted_again_when_a_server_releases_its_charges(
    store: MeteredStore, clock: FakeClock, change: str
) -> None:
    charge = {"quota": "n/q", "used": {"configmaps": "1"}}
    store.put(CHARGES, {"metadata": {"name": "server"}, "charges": [charge]})
    status = {"hard": {"configmaps": "9"}, "used": {"configmaps": "1"}}
    quota = {"metadata": {"name": "q", "namespace": "n", "uid": "q"}, "spec": {"hard": {"configmaps": "9"}}}
    store.put(COLLECTION, {**quota, "status": status})
    async with counting(store, clock, SharedCharges(store, "other", 60, clock)):  # type: ignore[arg-type]
        before = used(store)
        if change == "updated":
            store.put(CHARGES, {"metadata": {"name": "server"}, "charges": []})
        else:
            store.remove(CHARGES, "server")
        await settle(store, clock)
        assert (before, used(store)) == ({"configmaps": "1"}, {"configmaps": "0"})
