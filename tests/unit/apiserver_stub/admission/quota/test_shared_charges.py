"""Tests for quotas that several servers charge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from apiserver_stub.admission.quota.shared_charges import CHARGES, SharedCharges
from apiserver_stub.admission.quota.usage_tracker import COLLECTION, QuotaUsageTracker
from apiserver_stub.apimachinery import objects
from apiserver_stub.controllers.leadership import Leadership
from apiserver_stub.controllers.quotas import ResourceQuotas
from apiserver_stub.storage import Keep, StoreUnavailable
from nodeagent.base.identity import Identity
from nodeagent.base.quantity import Quantity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import REGISTRY, MeteredStore, store

__all__ = ["store"]
KEY = "n/q"
ONE = {"count/secrets": Quantity(1)}


@asynccontextmanager
async def trackers(store: MeteredStore, *names: str) -> AsyncIterator[list[QuotaUsageTracker]]:
    """Yield the tracker of each server, over one store with a quota of two secrets."""
    spec, status = {"hard": {"count/secrets": "2"}}, {"hard": {"count/secrets": "2"}, "used": {"count/secrets": "1"}}
    store.put(COLLECTION, {"metadata": {"name": "q", "namespace": "n"}, "spec": spec, "status": status})
    found, tasks = [], []
    for name in names:
        charges = SharedCharges(store, name, 60, FakeClock())  # type: ignore[arg-type]
        tracker = QuotaUsageTracker(store, REGISTRY, Identity())  # type: ignore[arg-type]
        tracker.share(charges)
        tasks.append(asyncio.ensure_future(charges.run()))
        found.append(tracker)
    try:
        yield found
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def quota(store: MeteredStore) -> Any:
    record = store.collection(COLLECTION).get(KEY)
    assert record is not None
    return objects.decode(record.data)


def used(store: MeteredStore) -> str:
    return str(quota(store)["status"]["used"]["count/secrets"])


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_recount_keeps_charges_of_requests_in_other_servers(store: MeteredStore) -> None:
    async with trackers(store, "one", "other") as (one, other):
        one.announce(quota(store), ONE)
        await one.update(KEY, lambda _: Keep())
        await other.recount(KEY)
        during = used(store)
        one.free(quota(store), ONE)
        await turns()
        await other.recount(KEY)
    assert (during, used(store)) == ("1", "0")
    assert not store.collection(CHARGES).select()


async def test_charges_of_a_killed_server_count_until_they_expire(store: MeteredStore) -> None:
    async with trackers(store, "killed", "other") as (killed, other):
        killed.announce(quota(store), ONE)
        await turns()
        before = other.count(quota(store))
        store.remove(CHARGES, "killed")  # As the store does when the record expires.
        after = other.count(quota(store))
    assert (before, after) == (ONE, {"count/secrets": Quantity()})


async def test_request_waits_for_requests_that_may_fail_in_other_servers(store: MeteredStore) -> None:
    two = {"count/secrets": Quantity(2)}
    async with trackers(store, "one", "other") as (one, other):
        alone = await other.may_fit_later([quota(store)], two, 9)
        one.announce(quota(store), ONE)
        await turns()
        waiting = asyncio.ensure_future(other.may_fit_later([quota(store)], two, 9))
        await turns()
        waited = not waiting.done()
        one.free(quota(store), ONE)
        fits = await waiting
        store.put("core/secrets", {"metadata": {"name": "s", "namespace": "n"}})
        one.announce(quota(store), ONE)
        await turns()
        exceeded = await other.may_fit_later([quota(store)], two, 9)  # Whether that request succeeds or not.
        late = await other.may_fit_later([quota(store)], ONE, 0)
    assert (alone, waited, fits, exceeded, late) == (False, True, True, False, False)


async def test_usage_is_not_counted_from_an_outdated_state(store: MeteredStore) -> None:
    async with trackers(store, "one") as (one,):
        stale, tries = quota(store), []
        store.put(COLLECTION, {**stale, "metadata": {**stale["metadata"], "labels": {"a": "b"}}})

        def decide(_: Any) -> Any:
            tries.append(one.count(stale))

        with pytest.raises(StoreUnavailable):
            await one.update(KEY, decide)
    assert tries == []


async def test_only_the_leader_recounts(store: MeteredStore) -> None:
    async with trackers(store, "one") as (one,):
        clock = FakeClock()
        leadership = Leadership(store, Identity(), clock, "one")  # type: ignore[arg-type]
        tasks = [asyncio.ensure_future(ResourceQuotas(store, one, leadership, clock).run())]  # type: ignore[arg-type]
        try:
            await turns(50)
            following = used(store)
            tasks.append(asyncio.ensure_future(leadership.run()))
            await turns(50)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    assert (following, used(store)) == ("1", "0")


async def test_charges_of_expired_servers_are_dropped(store: MeteredStore) -> None:
    def put_charge(server: str, name: str) -> None:
        charge = {"quota": KEY, "used": {"count/secrets": "1"}}
        store.put(CHARGES, {"metadata": {"name": server, "labels": {"n": name}}, "charges": [charge]})

    charges = SharedCharges(store, "own", 60, FakeClock())  # type: ignore[arg-type]
    put_charge("a", "1")
    put_charge("b", "1")
    before, kept = list(charges.of_others(KEY)), set(charges._decoded)
    store.remove(CHARGES, "a")
    put_charge("b", "2")
    after = list(charges.of_others(KEY))

    assert (before, after) == ([ONE, ONE], [ONE])
    assert (kept, set(charges._decoded)) == ({"a", "b"}, {"b"})
