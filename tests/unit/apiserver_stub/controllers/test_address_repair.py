"""Tests for the repair loop of cluster IPs that objects record, and for the default ServiceCIDR."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from ipaddress import ip_network
from typing import Any

import pytest

from apiserver_stub.apimachinery import objects
from apiserver_stub.controllers.address_repair import (
    CONTROLLER,
    RESYNC_SECONDS,
    ROLLBACK_SECONDS,
    WRITE_SECONDS,
    AddressRepair,
)
from apiserver_stub.controllers.default_service_cidr import DefaultServiceCidr
from apiserver_stub.controllers.event_recorder import EventRecorder
from apiserver_stub.kinds.address_objects import AddressObjects
from apiserver_stub.kinds.service_allocators import ServiceAllocators
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, rest, running, store

__all__ = ["store"]

KINDS = AddressObjects.of(Identity(), Release(1, 36))


class Harness:
    """Services, ranges and addresses in a store, with the running repair loop."""

    def __init__(self, store: MeteredStore, clock: FakeClock) -> None:
        self.store, self.clock = store, clock

    def range(self, *blocks: str) -> None:
        self.store.put(KINDS.ranges, {"metadata": {"name": "kubernetes"}, "spec": {"cidrs": list(blocks)}})

    async def service(self, name: str, *addresses: str, **spec: Any) -> None:
        metadata = {"name": name, "namespace": "ns", "uid": name}
        spec = {"type": "ClusterIP", "clusterIPs": list(addresses), **spec}
        self.store.put("core/services", {"kind": "Service", "metadata": metadata, "spec": spec})
        await rest(self.store)

    async def address(self, key: str, service: str, **reference: Any) -> None:
        found = KINDS.address(key, "ns", service)
        found["metadata"]["creationTimestamp"] = objects.format_time(self.clock.wall())
        found["spec"]["parentRef"] |= reference
        self.store.put(KINDS.addresses, found)
        await rest(self.store)

    async def advance(self, seconds: float) -> None:
        await self.clock.advance(seconds)
        await rest(self.store)

    def parents(self) -> dict[str, str]:
        """Return the services of the addresses."""
        found = [objects.decode(record.data) for record in self.store.collection(KINDS.addresses).select()]
        return {item["metadata"]["name"]: item["spec"]["parentRef"]["name"] for item in found}

    def notes(self) -> list[str]:
        return [objects.decode(record.data)["note"] for record in self.store.collection("core/events").select()]


@asynccontextmanager
async def repairing(store: MeteredStore, clock: FakeClock) -> AsyncIterator[Harness]:
    harness = Harness(store, clock)
    harness.range("10.0.0.0/24", "fd00::/112")
    repair = AddressRepair(store, KINDS, EventRecorder(store, CONTROLLER, 3600, Identity(), clock), clock)
    async with running(store, repair.run()):
        yield harness


async def test_missing_and_deleted_addresses_of_a_service_are_created(store: MeteredStore, clock: FakeClock) -> None:
    async with repairing(store, clock) as harness:
        await harness.service("a", "10.0.0.5", "fd00::5")
        assert harness.parents() == {"10.0.0.5": "a", "fd00::5": "a"}
        assert harness.notes()[0] == "Cluster IP [IPv4]: 10.0.0.5 is not allocated; repairing"

        store.remove(KINDS.addresses, "fd00::5")
        await rest(store)
        assert harness.parents() == {"10.0.0.5": "a", "fd00::5": "a"}


async def test_address_without_service_is_deleted_after_the_time_of_a_request(
    store: MeteredStore, clock: FakeClock
) -> None:
    async with repairing(store, clock) as harness:
        await harness.address("10.0.0.5", "a")
        await harness.advance(WRITE_SECONDS - 1)
        assert harness.parents() == {"10.0.0.5": "a"}

        await harness.advance(2)
        assert harness.parents() == {}
        assert harness.notes() == ["IPAddress: 10.0.0.5 for Service ns/a appears to have leaked: cleaning up"]


async def test_address_that_its_service_does_not_use_is_deleted(store: MeteredStore, clock: FakeClock) -> None:
    async with repairing(store, clock) as harness:
        await harness.service("a", "10.0.0.5")
        await harness.address("10.0.0.6", "a")
        assert harness.parents() == {"10.0.0.5": "a", "10.0.0.6": "a"}

        await harness.advance(ROLLBACK_SECONDS + 1)
        assert harness.parents() == {"10.0.0.5": "a"}


@pytest.mark.parametrize("reference", [{"resource": "gateways"}, {"name": "gone"}])
async def test_address_of_a_service_with_another_reference_is_replaced(
    store: MeteredStore, clock: FakeClock, reference: Any
) -> None:
    async with repairing(store, clock) as harness:
        await harness.address("10.0.0.5", "a", **reference)
        await harness.service("a", "10.0.0.5")

        assert harness.parents() == {"10.0.0.5": "a"}
        assert any("has a wrong reference; repairing" in note or "is not allocated" in note for note in harness.notes())


async def test_shared_and_foreign_cluster_ips_are_reported_only(store: MeteredStore, clock: FakeClock) -> None:
    async with repairing(store, clock) as harness:
        await harness.service("a", "10.0.0.5")
        await harness.service("b", "10.0.0.5")
        await harness.service("c", "10.9.0.5")
        await harness.service("headless", "None")
        await harness.advance(RESYNC_SECONDS)

        assert harness.parents() == {"10.0.0.5": "a"}
        notes = {*harness.notes()}
        assert "Cluster IP [IPv4]:10.0.0.5 was assigned to multiple services; please recreate service" in notes
        assert "Cluster IP [IPv4]: 10.9.0.5 is not within any configured Service CIDR; please recreate service" in notes


async def test_addresses_of_other_managers_are_not_changed(store: MeteredStore, clock: FakeClock) -> None:
    async with repairing(store, clock) as harness:
        store.put(KINDS.addresses, {"metadata": {"name": "10.0.0.9"}, "spec": {"parentRef": {"name": "gateway"}}})
        await harness.advance(WRITE_SECONDS + RESYNC_SECONDS)

        assert harness.parents() == {"10.0.0.9": "gateway"}


def default(store: MeteredStore, clock: FakeClock, *networks: str) -> DefaultServiceCidr:
    addresses = ServiceAllocators([ip_network(text) for text in networks], range(30000, 30100), KINDS)
    return DefaultServiceCidr(store, addresses, EventRecorder(store, "test", 3600, Identity(), clock))  # type: ignore[arg-type]


async def test_default_range_is_created_ready_and_extended_to_dual_stack(store: MeteredStore, clock: FakeClock) -> None:
    await default(store, clock, "10.0.0.0/24").reconcile()
    found = store.read(KINDS.ranges, "kubernetes")
    assert found["spec"]["cidrs"] == ["10.0.0.0/24"]
    assert [item["status"] for item in found["status"]["conditions"]] == ["True"]

    await default(store, clock, "10.0.0.0/24", "fd00::/112").reconcile()
    assert store.read(KINDS.ranges, "kubernetes")["spec"]["cidrs"] == ["10.0.0.0/24", "fd00::/112"]


async def test_default_range_with_other_blocks_is_not_changed(store: MeteredStore, clock: FakeClock) -> None:
    await default(store, clock, "10.0.0.0/24").reconcile()
    before = store.writes
    await default(store, clock, "10.1.0.0/24").reconcile()

    assert store.writes == before


async def test_deleted_default_range_is_kept_until_the_next_pass(store: MeteredStore, clock: FakeClock) -> None:
    controller = default(store, clock, "10.0.0.0/24")
    await controller.reconcile()
    found = store.read(KINDS.ranges, "kubernetes")
    found["metadata"]["deletionTimestamp"] = objects.format_time(clock.wall() - timedelta(hours=1))
    found["status"] = {}
    store.put(KINDS.ranges, found)
    await controller.reconcile()

    assert store.read(KINDS.ranges, "kubernetes")["status"] == {}


@pytest.mark.parametrize(
    ("status", "note", "message"),
    [
        ("False", ["Configuration matches, but no addresses"], "no addresses"),
        ("True", [], "no addresses"),
        ("Unknown", [], "Kubernetes default Service CIDR is ready"),
    ],
)
async def test_default_range_that_is_not_ready_is_reported_once(
    store: MeteredStore, clock: FakeClock, status: str, note: list[str], message: str
) -> None:
    conditions = [
        {"type": "Other", "status": "False", "reason": "Other", "message": "other"},
        {"type": "Ready", "status": status, "reason": "R", "message": "no addresses"},
    ]
    spec = {"cidrs": ["10.0.0.0/24"]}
    store.put(KINDS.ranges, {"metadata": {"name": "kubernetes"}, "spec": spec, "status": {"conditions": conditions}})
    events = EventRecorder(store, "test", 3600, Identity(), clock)  # type: ignore[arg-type]
    addresses = ServiceAllocators([ip_network("10.0.0.0/24")], range(30000, 30100), KINDS)
    controller = DefaultServiceCidr(store, addresses, events)  # type: ignore[arg-type]

    for _ in range(2):
        await controller.reconcile()
    async with running(store, events.run()):
        await rest(store)

    found = store.read(KINDS.ranges, "kubernetes")["status"]["conditions"]
    assert [item["type"] for item in found] == ["Other", "Ready"]
    assert found[1]["message"] == message
    reports = [objects.decode(record.data) for record in store.collection("core/events").select()]
    assert [(item["note"], item["reason"], item.get("series")) for item in reports] == [(n, "R", None) for n in note]


async def test_reasons_of_an_inconsistent_default_range_are_reported(
    store: MeteredStore, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    await default(store, clock, "10.0.0.0/24").reconcile()
    controller = default(store, clock, "10.1.0.0/24")
    for _ in range(2):
        await controller.reconcile()
    assert caplog.messages == [
        "Invalid default ServiceCIDR: The default ServiceCIDR [10.0.0.0/24] does not match the controller flag"
        " configurations [10.1.0.0/24]"
    ]
