"""Tests for the allocation of cluster IPs from ServiceCIDRs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds import address_allocation as module
from apiserver_stub.kinds.address_allocation import AddressAllocation
from apiserver_stub.kinds.address_objects import AddressObjects
from apiserver_stub.kinds.range_allocation import Snapshot
from apiserver_stub.kinds.service_allocators import ServiceAllocators
from apiserver_stub.kinds.services import ServiceStrategy
from apiserver_stub.storage import Put
from apiserver_stub.storage.sqlite import SqliteStore
from nodeagent.base.identity import Identity
from nodeagent.base.release import Release

KINDS = AddressObjects.of(Identity(), Release(1, 36))
NOT_READY = {"conditions": [{"type": "Ready", "status": "False"}]}


class Harness:
    """Services in a store with ServiceCIDRs."""

    def __init__(self, store: SqliteStore) -> None:
        networks = [ip_network("10.0.0.0/29"), ip_network("fd00::/112")]
        self.store, self.addresses = store, ServiceAllocators(networks, range(30000, 30004), KINDS)
        self.strategy = ServiceStrategy(self.addresses, Identity())

    async def range(self, name: str, *blocks: str, status: Any = None, **metadata: Any) -> None:
        spec = {"cidrs": list(blocks)}
        obj: Any = {"kind": "ServiceCIDR", "apiVersion": "v1", "metadata": {"name": name, **metadata}, "spec": spec}
        obj["status"] = status or {}
        await self.store.update(KINDS.ranges, name, lambda _: Put(objects.encode_for_store(obj)))

    async def new(self, name: str = "s", *, dry_run: bool = False, **spec: Any) -> Any:
        service: Any = {"metadata": {"name": name, "namespace": "ns"}, "spec": {"ports": [{"port": 80}], **spec}}
        self.strategy.default(service)
        self.strategy.prepare_create(service)
        await (await self.strategy.reserve(self.store, service, None, dry_run=dry_run)).keep()
        return service

    def taken(self) -> list[str]:
        return [record.key for record in self.store.collection(KINDS.addresses).select()]


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[Harness]:
    store = SqliteStore(tmp_path / "store.db")
    await store.open()
    found = Harness(store)
    await found.addresses.ports.replace(store, Snapshot(), ())
    await found.range("kubernetes", "10.0.0.0/29")
    yield found
    await store.close()


async def test_allocated_address_is_an_object_that_refers_to_its_service(harness: Harness) -> None:
    (address,) = (await harness.new("web"))["spec"]["clusterIPs"]

    record = harness.store.collection(KINDS.addresses).get(address)
    assert record is not None
    found = objects.decode(record.data)
    assert found["kind"] == "IPAddress"
    assert found["metadata"]["labels"] == {
        "ipaddress.kubernetes.io/ip-family": "IPv4",
        "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
    }
    assert found["spec"]["parentRef"] == {"resource": "services", "namespace": "ns", "name": "web"}


async def test_range_is_used_until_it_is_full_and_further_ranges_extend_it(harness: Harness) -> None:
    found = await asyncio.gather(*(harness.new() for _ in range(6)))

    assert {item["spec"]["clusterIP"] for item in found} == {f"10.0.0.{number}" for number in range(1, 7)}
    with pytest.raises(ApiError, match="range is full"):
        await harness.new()
    await harness.range("more", "10.1.0.0/29")
    assert (await harness.new())["spec"]["clusterIP"].startswith("10.1.0.")


@pytest.mark.parametrize("state", [{"status": NOT_READY}, {"deletionTimestamp": "2026-01-01T00:00:00Z"}])
async def test_range_that_is_not_ready_is_not_used(harness: Harness, state: Any) -> None:
    await harness.range("kubernetes", "10.0.0.0/29", **state)

    with pytest.raises(ApiError, match="range is full"):
        await harness.new()


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("address", ["10.9.0.1", "10.0.0.0", "10.0.0.7"])
async def test_address_outside_of_all_ranges_is_rejected(harness: Harness, address: str, dry_run: bool) -> None:
    with pytest.raises(ApiError, match="the provided network does not match the current range"):
        await harness.new(clusterIP=address, dry_run=dry_run)
    assert harness.taken() == []


async def test_address_is_released_while_another_client_deletes_it(harness: Harness) -> None:
    service = await harness.new(clusterIP="10.0.0.3")
    deletions = [await harness.strategy.reserve(harness.store, None, service) for _ in range(2)]

    await asyncio.gather(*(deletion.keep() for deletion in deletions))

    assert harness.taken() == []


async def test_requested_address_is_allocated_once_and_released_with_its_service(harness: Harness) -> None:
    service = await harness.new(clusterIP="10.0.0.3")

    with pytest.raises(ApiError, match="provided IP is already allocated"):
        await harness.new(clusterIP="10.0.0.3")
    assert harness.taken() == ["10.0.0.3"]
    await (await harness.strategy.reserve(harness.store, None, service)).keep()
    assert harness.taken() == []


async def test_dry_run_allocates_nothing(harness: Harness) -> None:
    await harness.new(dry_run=True)
    await harness.new(clusterIP="10.0.0.3", dry_run=True)

    assert harness.taken() == []


async def test_address_of_a_large_ipv6_range_is_in_canonical_form(harness: Harness) -> None:
    await harness.range("six", "fd00::/64")
    service = await harness.new(ipFamilies=["IPv6"])

    assert harness.taken() == service["spec"]["clusterIPs"]


@pytest.mark.parametrize(
    ("version", "number", "expected"),
    [
        (4, -1, False),
        (4, 0, True),
        (4, (1 << 32) - 1, True),
        (4, 1 << 32, False),
        (6, 1 << 32, True),
        (6, (1 << 128) - 1, True),
        (6, 1 << 128, False),
    ],
)
def test_numbers_are_addresses_of_their_family(version: int, number: int, *, expected: bool) -> None:
    assert (number in AddressAllocation(KINDS, version)) is expected


async def test_search_in_a_large_range_yields_to_other_tasks(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(seconds)

    for number in range(1, 7):
        await harness.new(clusterIP=f"10.0.0.{number}")
    monkeypatch.setattr(module, "_STEP", 4)
    monkeypatch.setattr(module.asyncio, "sleep", pause)

    with pytest.raises(ApiError, match="range is full"):
        await harness.new()

    assert pauses == [0]
