"""Tests for the repair loop of service allocations."""

from __future__ import annotations

from collections.abc import AsyncIterator
from ipaddress import ip_network
from pathlib import Path

import pytest

from apiserver_stub.apimachinery import objects
from apiserver_stub.controllers import allocator_repair
from apiserver_stub.controllers.allocator_repair import LEAKED_AFTER, Repair, repair_service_ranges
from apiserver_stub.kinds.range_allocation import RangeAllocation, numbers_of
from apiserver_stub.kinds.registry import Registry, Resource
from apiserver_stub.kinds.service_allocators import ServiceAllocators
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.storage import Put, Remove
from apiserver_stub.storage.record import without_revision
from apiserver_stub.storage.sqlite import SqliteStore


class Harness:
    """Services and ranges in a store, with the repair loop."""

    def __init__(self, store: SqliteStore, *networks: str) -> None:
        self.store = store
        self.addresses = ServiceAllocators([ip_network(text) for text in networks], range(30000, 30100))
        self.repair = Repair(store, self.addresses, 3600)
        self.ips, self.ports = self.addresses.bitmaps[4], self.addresses.ports

    async def service(self, name: str, *addresses: str, ports: tuple[int, ...] = (), type: str = "NodePort") -> None:
        service = {
            "kind": "Service",
            "apiVersion": "v1",
            "metadata": {"name": name, "namespace": "ns", "uid": name},
            "spec": {"type": type, "clusterIPs": addresses, "ports": [{"port": 1, "nodePort": port} for port in ports]},
        }
        await self.store.update("core/services", f"ns/{name}", lambda _: Put(objects.encode_for_store(service)))

    async def remove(self, name: str) -> None:
        await self.store.update("core/services", f"ns/{name}", lambda record: Remove(without_revision(record.data)))  # type: ignore[union-attr]

    async def taken(self, allocation: RangeAllocation) -> list[int]:
        """Return the allocated numbers; the first of the range is 1."""
        bits = (await allocation.snapshot(self.store)).bits
        return [number - allocation.first + 1 for number in numbers_of(allocation.first, bits)]

    def reported(self) -> dict[str, tuple[str, str, int]]:
        """Return service, note and count by reason."""
        events = [objects.decode(record.data) for record in self.store.collection("core/events").select()]
        return {
            event["reason"]: (
                event["involvedObject"]["name"],
                event["message"],
                (event.get("series") or {"count": 1})["count"],
            )
            for event in events
        }


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    yield Harness(store, "10.0.0.0/24")
    await store.close()


async def test_first_pass_allocates_values_of_existing_services(harness: Harness) -> None:
    await harness.service("a", "10.0.0.5", ports=(30001, 30001))
    await harness.service("headless", "None")
    await harness.service("elsewhere", "10.0.0.9", type="ExternalName")
    await harness.repair.once()

    assert await harness.taken(harness.ips) == [5]
    assert await harness.taken(harness.ports) == [2]
    assert harness.reported() == {}


async def test_consistent_allocations_are_not_written(harness: Harness) -> None:
    await harness.service("a", "10.0.0.5")
    await harness.repair.once()
    before = harness.store.revision
    await harness.repair.once()

    assert harness.store.revision == before


async def test_leaked_allocation_is_released_after_several_passes(harness: Harness) -> None:
    await harness.repair.once()
    leaked = await harness.ips.allocate(harness.store) - harness.ips.first + 1

    for _ in range(LEAKED_AFTER - 1):
        await harness.repair.once()
        assert await harness.taken(harness.ips) == [leaked]
    await harness.repair.once()
    assert await harness.taken(harness.ips) == []


async def test_allocation_used_before_release_is_kept(harness: Harness) -> None:
    await harness.repair.once()
    await harness.ips.allocate(harness.store, harness.ips.first)
    for _ in range(LEAKED_AFTER - 1):
        await harness.repair.once()
    await harness.service("slow", "10.0.0.1")
    await harness.repair.once()
    await harness.remove("slow")
    await harness.repair.once()  # the passes are counted from zero

    assert await harness.taken(harness.ips) == [1]


async def test_services_that_share_an_address_get_events(harness: Harness) -> None:
    await harness.repair.once()
    for number in (4, 29):
        await harness.ips.allocate(harness.store, harness.ips.first + number)
    await harness.service("a", "10.0.0.5", "fd00::1")
    await harness.service("b", "10.0.0.5")
    await harness.service("c", "10.0.1.1", ports=(20,))
    await harness.service("d", "10.0.0.7", ports=(30007,))
    for _ in range(2):
        await harness.repair.once()

    assert await harness.taken(harness.ips) == [5, 7, 30]
    assert harness.reported() == {
        "ClusterIPNotValid": (
            "a",
            "Cluster IP fd00::1 is of ip family that is no longer configured on cluster; please recreate service",
            2,
        ),
        "ClusterIPAlreadyAllocated": (
            "b",
            "Cluster IP [IPv4]:10.0.0.5 was assigned to multiple services; please recreate service",
            2,
        ),
        "ClusterIPOutOfRange": (
            "c",
            "Cluster IP [IPv4]:10.0.1.1 is not within the service CIDR 10.0.0.0/24; please recreate service",
            2,
        ),
        "PortOutOfRange": ("c", "Port 20 is not within the port range 30000-30099; please recreate service", 2),
        "ClusterIPNotAllocated": ("d", "Cluster IP [IPv4]:10.0.0.7 is not allocated; repairing", 1),
        "PortNotAllocated": ("d", "Port 30007 is not allocated; repairing", 1),
    }


async def test_changed_range_is_rebuilt_from_services(harness: Harness) -> None:
    await harness.service("a", "10.0.0.5")
    await harness.repair.once()
    other = Harness(harness.store, "10.0.0.0/28")
    await other.repair.once()

    assert (await other.ips.snapshot(harness.store)).range == "10.0.0.0/28"
    assert await other.taken(other.ips) == [5]


async def test_concurrent_allocation_is_not_lost(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    await harness.repair.once()
    await harness.service("a", "10.0.0.5")
    catch_up, changes = harness.store.catch_up, [3, 2]

    async def concurrent(name: str, revision: int = 0) -> None:
        await catch_up(name, revision)
        if name == "core/services" and changes:
            await harness.ips.allocate(harness.store, harness.ips.first + changes.pop())

    monkeypatch.setattr(harness.store, "catch_up", concurrent)
    await harness.repair.once()

    assert await harness.taken(harness.ips) == [3, 4, 5]


@pytest.mark.parametrize(
    ("registry", "found"),
    [
        (Registry([]), False),
        (Registry([Resource("", "v1", "Service", "services")]), False),
        (build_registry(parse([])), True),
    ],
)
async def test_ranges_are_repaired_if_services_are_served(harness: Harness, registry: Registry, *, found: bool) -> None:
    assert (await repair_service_ranges(harness.store, registry, 3600) is not None) is found


@pytest.mark.parametrize(("services", "omits"), [(2, False), (3, True)])
async def test_number_of_events_of_a_pass_is_limited(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, services: int, *, omits: bool
) -> None:
    monkeypatch.setattr(allocator_repair, "_MAX_EVENTS", 2)
    for number in range(services):
        await harness.service(f"s{number}", f"192.0.2.{number}")
    await harness.repair.once()
    assert len(harness.store.collection("core/events")) == 2
    assert any("omitting some events" in text for text in caplog.messages) is omits


async def test_leaks_are_logged_when_they_are_found_and_released(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    await harness.service("a", "10.0.0.5")
    await harness.repair.once()
    await harness.remove("a")
    found = []
    for _ in range(LEAKED_AFTER + 1):
        caplog.clear()
        await harness.repair.once()
        leaks = [record for record in caplog.records if record.message == "Found leaked Service allocations"]
        found.append([(record.new, record.freed) for record in leaks])  # type: ignore[attr-defined]
    assert found == [[(1, 0)], [], [(0, 1)], []]
