"""Tests for the allocation of cluster IPs and node ports of services."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from ipaddress import IPv4Address, IPv6Address, ip_network
from pathlib import Path
from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.kinds.range_allocation import Snapshot, numbers_of
from apiserver_stub.kinds.service_allocators import ServiceAllocators, ServiceReservation, used_by
from apiserver_stub.kinds.services import ServiceStrategy
from apiserver_stub.storage.sqlite import SqliteStore
from nodeagent.base.identity import Identity

PORTS = range(30000, 30004)


class Harness:
    """Services and their allocations in a store."""

    def __init__(self, store: SqliteStore, *networks: str) -> None:
        self.store = store
        ranges = [ip_network(text) for text in networks or ["10.0.0.0/29"]]
        self.addresses = ServiceAllocators(ranges, PORTS)
        self.strategy = ServiceStrategy(self.addresses, Identity())

    async def begin(self) -> Harness:
        """Initialize empty ranges."""
        for allocation in (*self.addresses.bitmaps.values(), self.addresses.ports):
            await allocation.replace(self.store, Snapshot(), ())
        return self

    def _filled_in(self, spec: Any) -> Any:
        service: Any = {"metadata": {"name": "s", "namespace": "ns"}, "spec": {"ports": [{"port": 80}], **spec}}
        self.strategy.default(service)
        return service

    async def reserve(self, *, dry_run: bool = False, **spec: Any) -> tuple[Any, ServiceReservation]:
        service = self._filled_in(spec)
        self.strategy.prepare_create(service)
        return service, await self.strategy.reserve(self.store, service, None, dry_run=dry_run)

    async def new(self, **spec: Any) -> Any:
        service, reservation = await self.reserve(**spec)
        await reservation.keep()
        return service

    async def change(self, old: Any, **spec: Any) -> tuple[Any, ServiceReservation]:
        new = self._filled_in(spec)
        self.strategy.prepare_update(new, old, "")
        return new, await self.strategy.reserve(self.store, new, old)

    async def update(self, old: Any, **spec: Any) -> Any:
        new, reservation = await self.change(old, **spec)
        await reservation.keep()
        return new

    async def delete(self, service: Any) -> None:
        await (await self.strategy.reserve(self.store, None, service)).keep()

    async def taken(self) -> tuple[list[str], list[int]]:
        """Return the allocated addresses and ports."""
        addresses, ports = [], self.addresses.ports
        for version, allocation in self.addresses.bitmaps.items():
            build = IPv4Address if version == 4 else IPv6Address
            found = await allocation.snapshot(self.store)
            addresses += [str(build(number)) for number in numbers_of(allocation.first, found.bits)]
        return addresses, numbers_of(ports.first, (await ports.snapshot(self.store)).bits)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    found = SqliteStore(tmp_path / "store.db")
    await found.open()
    yield found
    await found.close()


async def test_services_have_unique_addresses_until_the_range_is_full(store: SqliteStore) -> None:
    harness = await Harness(store).begin()
    found = await asyncio.gather(*(harness.new() for _ in range(6)))

    # excludes the network and broadcast addresses
    assert {service["spec"]["clusterIP"] for service in found} == {f"10.0.0.{number}" for number in range(1, 7)}
    with pytest.raises(ApiError, match="failed to allocate a serviceIP: range is full") as error:
        await harness.new()
    assert error.value.code == 500


async def test_small_range_has_no_numbers_behind_its_end(store: SqliteStore) -> None:
    harness = await Harness(store, "10.0.0.0/28").begin()
    found = [await harness.new() for _ in range(14)]

    assert len({service["spec"]["clusterIP"] for service in found}) == 14
    with pytest.raises(ApiError, match="range is full"):
        await harness.new()


async def test_servers_of_one_store_never_allocate_a_value_twice(store: SqliteStore) -> None:
    one, other = await Harness(store, "10.0.0.0/24").begin(), Harness(store, "10.0.0.0/24")
    found = await asyncio.gather(*(harness.new() for harness in (one, other) for _ in range(100)))

    assert len({service["spec"]["clusterIP"] for service in found}) == 200


@pytest.mark.parametrize("metadata", [{}, {"metadata": {}}, {"metadata": {"namespace": "ns"}}])
async def test_service_without_a_name_is_left_to_validation(store: SqliteStore, metadata: Any) -> None:
    harness = await Harness(store).begin()
    service: Any = {**metadata, "spec": {"type": "ClusterIP", "ports": [{"port": 80}]}}
    harness.strategy.default(service)

    reservation = await harness.strategy.reserve(store, service, None)

    assert (await harness.taken())[0] == service["spec"]["clusterIPs"]
    await reservation.release()
    assert await harness.taken() == ([], [])


async def test_pending_allocation_is_reserved_immediately(store: SqliteStore) -> None:
    harness = await Harness(store).begin()
    _, reservation = await harness.reserve(clusterIP="10.0.0.2")

    with pytest.raises(ApiError, match=r"failed to allocate IP 10\.0\.0\.2: provided IP is already allocated") as error:
        await harness.new(clusterIP="10.0.0.2")
    assert error.value.code == 422
    await reservation.release()  # the write failed
    assert (await harness.new(clusterIP="10.0.0.2"))["spec"]["clusterIPs"] == ["10.0.0.2"]


async def test_deleted_service_releases_its_allocations(store: SqliteStore) -> None:
    harness = await Harness(store, "10.0.0.0/29", "fd00:1::/112").begin()
    service = await harness.new(type="NodePort", ipFamilyPolicy="RequireDualStack")

    assert await harness.taken() == (service["spec"]["clusterIPs"], [service["spec"]["ports"][0]["nodePort"]])
    await harness.delete(service)
    assert await harness.taken() == ([], [])


async def test_rejected_service_allocates_nothing(store: SqliteStore) -> None:
    harness = await Harness(store).begin()
    await harness.new(type="NodePort", clusterIP="10.0.0.1", ports=[{"port": 80, "nodePort": 30001}])
    before = await harness.taken()

    with pytest.raises(ApiError, match="30001: provided port is already allocated"):
        await harness.new(type="NodePort", ports=[{"port": 1}, {"port": 80, "nodePort": 30001}])
    assert await harness.taken() == before


async def test_dry_run_allocates_nothing(store: SqliteStore) -> None:
    harness = await Harness(store).begin()
    chosen, reservation = await harness.reserve(
        dry_run=True, type="NodePort", clusterIP="10.0.0.1", ports=[{"port": 80, "nodePort": 30001}]
    )
    await reservation.keep()
    open_, _ = await harness.reserve(dry_run=True, type="NodePort", ports=[{"port": 1}, {"port": 2}])

    assert (chosen["spec"]["clusterIP"], chosen["spec"]["ports"][0]["nodePort"]) == ("10.0.0.1", 30001)
    assert open_["spec"]["clusterIP"] == "10.0.0.0"
    assert [port["nodePort"] for port in open_["spec"]["ports"]] == [32769, 32770]
    assert await harness.taken() == ([], [])


@pytest.mark.parametrize("expected", ["10.0.1.1", "10.0.0.0", "10.0.0.7"])
async def test_address_outside_the_range_is_rejected(store: SqliteStore, expected: str) -> None:
    with pytest.raises(ApiError) as error:
        await (await Harness(store).begin()).new(clusterIP=expected)

    assert error.value.code == 422
    assert f'[]string{{"{expected}"}}: failed to allocate IP {expected}: the provided IP' in error.value.message


async def test_static_range_is_reserved_for_requested_addresses(store: SqliteStore) -> None:
    harness = await Harness(store, "10.0.0.0/24").begin()
    found = await asyncio.gather(*(harness.new() for _ in range(100)))

    assert min(int(service["spec"]["clusterIP"].rpartition(".")[2]) for service in found) > 16


@pytest.mark.parametrize(
    ("requested", "families", "count"),
    [
        ({}, ["IPv4"], 1),
        ({"ipFamilies": ["IPv6"]}, ["IPv6"], 1),
        ({"ipFamilyPolicy": "PreferDualStack"}, ["IPv4", "IPv6"], 2),
        ({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6"]}, ["IPv6", "IPv4"], 2),
        ({"clusterIP": "None", "selector": {"a": "b"}}, ["IPv4"], 1),
        ({"clusterIP": "None"}, ["IPv4", "IPv6"], 1),
    ],
)
async def test_addresses_follow_the_ip_families(
    store: SqliteStore, requested: Any, families: list[str], count: int
) -> None:
    spec = (await (await Harness(store, "10.0.0.0/24", "fd00:1::/112").begin()).new(**requested))["spec"]

    assert spec["ipFamilies"] == families
    assert len(spec["clusterIPs"]) == count
    if requested.get("clusterIP") != "None":
        assert ["IPv6" if ":" in ip else "IPv4" for ip in spec["clusterIPs"]] == families


async def test_dual_stack_requires_two_ranges(store: SqliteStore) -> None:
    harness = await Harness(store).begin()

    assert (await harness.new(ipFamilyPolicy="PreferDualStack"))["spec"]["ipFamilies"] == ["IPv4"]
    with pytest.raises(ApiError, match="this cluster is not configured for dual-stack services"):
        await harness.new(ipFamilyPolicy="RequireDualStack")
    with pytest.raises(ApiError, match=r'spec.ipFamilies\[0\]: Invalid value: "IPv6": not configured on this cluster'):
        await harness.new(ipFamilies=["IPv6"])


async def test_node_ports_are_allocated_by_type(store: SqliteStore) -> None:
    harness = await Harness(store).begin()
    chosen = await harness.new(type="NodePort", ports=[{"port": 80, "nodePort": 30001}])
    both = [{"name": "u", "port": 53, "protocol": "UDP"}, {"name": "t", "port": 53, "protocol": "TCP"}]
    shared = (await harness.new(type="NodePort", ports=both))["spec"]["ports"]

    assert chosen["spec"]["ports"][0]["nodePort"] == 30001
    assert shared[0]["nodePort"] == shared[1]["nodePort"] in PORTS
    with pytest.raises(ApiError, match="30001: provided port is already allocated"):
        await harness.new(type="NodePort", ports=[{"port": 80, "nodePort": 30001}])
    with pytest.raises(ApiError, match="The range of valid ports is 30000-30003"):
        await harness.new(type="NodePort", ports=[{"port": 80, "nodePort": 80}])


async def test_requested_ports_are_not_allocated_to_other_ports(store: SqliteStore) -> None:
    harness = await Harness(store).begin()
    ports = [{"port": number, **({"nodePort": number} if number > 30001 else {})} for number in PORTS]
    given = (await harness.new(type="NodePort", ports=ports))["spec"]["ports"]

    assert {port["nodePort"] for port in given} == set(PORTS)
    assert [port["nodePort"] for port in given[2:]] == [30002, 30003]


async def test_load_balancer_without_allocation_has_only_requested_ports(store: SqliteStore) -> None:
    harness = await Harness(store).begin()
    ports = [{"port": 80}, {"port": 81, "nodePort": 30001}]
    service = await harness.new(type="LoadBalancer", allocateLoadBalancerNodePorts=False, ports=ports)

    assert [port.get("nodePort") for port in service["spec"]["ports"]] == [None, 30001]
    assert (await harness.taken())[1] == [30001]


async def test_local_traffic_policy_allocates_a_health_check_port(store: SqliteStore) -> None:
    harness = await Harness(store).begin()
    balancer: Any = {"type": "LoadBalancer", "allocateLoadBalancerNodePorts": False, "externalTrafficPolicy": "Local"}
    chosen = await harness.new(**balancer, healthCheckNodePort=30002)
    given = await harness.new(**balancer)

    assert chosen["spec"]["healthCheckNodePort"] == 30002
    assert (await harness.taken())[1] == sorted([30002, given["spec"]["healthCheckNodePort"]])
    with pytest.raises(ApiError, match="HealthCheck NodePort 30002: provided port is already allocated"):
        await harness.new(**balancer, healthCheckNodePort=30002)
    after = await harness.update(chosen, **{**balancer, "externalTrafficPolicy": "Cluster"}, healthCheckNodePort=30002)
    assert "healthCheckNodePort" not in after["spec"]
    assert (await harness.taken())[1] == [given["spec"]["healthCheckNodePort"]]


async def test_update_keeps_allocations(store: SqliteStore) -> None:
    harness = await Harness(store).begin()
    old = await harness.new(type="NodePort")
    address, port = old["spec"]["clusterIP"], old["spec"]["ports"][0]["nodePort"]

    kept = await harness.update(old, type="NodePort")
    assert (kept["spec"]["clusterIPs"], kept["spec"]["ports"][0]["nodePort"]) == ([address], port)
    assert await harness.taken() == ([address], [port])

    plain = await harness.update(kept, type="ClusterIP", ports=[dict(kept["spec"]["ports"][0])])
    assert "nodePort" not in plain["spec"]["ports"][0]
    assert await harness.taken() == ([address], [])

    gone = await harness.update(plain, type="ExternalName", externalName="x.example", **_addresses(plain))
    assert "clusterIP" not in gone["spec"]
    assert await harness.taken() == ([], [])

    back = await harness.update(gone)
    assert await harness.taken() == (back["spec"]["clusterIPs"], [])


async def test_failed_update_keeps_previous_allocations(store: SqliteStore) -> None:
    harness = await Harness(store).begin()
    old = await harness.new(type="NodePort", ports=[{"port": 80, "nodePort": 30001}])
    before = await harness.taken()
    _, reservation = await harness.change(old, type="NodePort", ports=[{"port": 80, "nodePort": 30002}])

    assert (await harness.taken())[1] == [30001, 30002]
    await reservation.release()
    assert await harness.taken() == before


async def test_change_to_single_stack_releases_the_second_address(store: SqliteStore) -> None:
    harness = await Harness(store, "10.0.0.0/29", "fd00:1::/112").begin()
    both = await harness.new(ipFamilyPolicy="PreferDualStack")
    one = await harness.update(both, **{**_addresses(both), "ipFamilyPolicy": "SingleStack"})

    assert one["spec"]["clusterIPs"] == both["spec"]["clusterIPs"][:1]
    assert (await harness.taken())[0] == one["spec"]["clusterIPs"]


async def test_cluster_ip_is_immutable(store: SqliteStore) -> None:
    harness = await Harness(store).begin()
    old = await harness.new(clusterIP="10.0.0.1")
    new = await harness.update(old, clusterIP="10.0.0.2")

    (cause,) = harness.strategy.validate_update(new, old, "")
    assert (cause.field, cause.message) == (
        "spec.clusterIPs[0]",
        'Invalid value: []string{"10.0.0.2"}: may not change once set',
    )


def _addresses(service: Any) -> Any:
    return {name: service["spec"][name] for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy")}


def test_allocations_of_a_service_are_those_of_its_type() -> None:
    ports: dict[str, Any] = {"ports": [{"port": 80, "nodePort": 30001}], "clusterIPs": ["10.0.0.2", "fd00::2"]}
    local = {"type": "LoadBalancer", "externalTrafficPolicy": "Local", **ports}
    both = ("10.0.0.2", "fd00::2")
    cases: list[tuple[dict[str, Any], tuple[tuple[str, ...], tuple[int, ...]]]] = [
        (local, (both, (30001,))),
        ({**local, "healthCheckNodePort": 30003}, (both, (30001, 30003))),
        ({**local, "externalTrafficPolicy": "Cluster", "healthCheckNodePort": 30003}, (both, (30001,))),
        ({"type": "NodePort", **ports}, (both, (30001,))),
        ({"type": "ClusterIP", **ports}, (both, ())),
        ({"type": "ClusterIP", "clusterIP": "10.0.0.2"}, (("10.0.0.2",), ())),
        ({"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"]}, ((), ())),
        ({"type": "ExternalName", **ports}, ((), ())),
    ]

    for spec, (addresses, numbers) in cases:
        found = used_by({"spec": spec})
        assert (found.addresses, found.ports) == (addresses, numbers), spec


async def test_address_of_a_second_family_is_allocated_when_it_is_required(store: SqliteStore) -> None:
    harness = await Harness(store, "10.0.0.0/29", "fd00:1::/112").begin()
    old = await harness.new()
    first = old["spec"]["clusterIPs"]

    new = await harness.update(old, ipFamilyPolicy="RequireDualStack")

    assert (old["spec"]["ipFamilies"], new["spec"]["ipFamilies"]) == (["IPv4"], ["IPv4", "IPv6"])
    assert new["spec"]["clusterIPs"][:1] == first
    assert new["spec"]["clusterIPs"][1].startswith("fd00:1::")
    assert (await harness.taken())[0] == new["spec"]["clusterIPs"]
