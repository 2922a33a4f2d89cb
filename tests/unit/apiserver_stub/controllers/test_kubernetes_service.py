"""Tests for the ``kubernetes`` Service and its endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from ipaddress import ip_network
from typing import Any

import pytest

from apiserver_stub.controllers import kubernetes_service
from apiserver_stub.controllers.allocator_repair import repair_service_ranges
from apiserver_stub.controllers.kubernetes_service import LEASES, KubernetesService, KubernetesServiceSettings
from apiserver_stub.kinds.registry import Registry
from apiserver_stub.lifecycle import Lifecycle
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.storage import StoreUnavailable
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.controllers.harness import REGISTRY, MeteredStore, store

__all__ = ["store"]

SERVICES, ENDPOINTS, SLICES = "core/services", "core/endpoints", "discovery.k8s.io/endpointslices"
KEY = "default/kubernetes"
ADDRESS = "192.0.2.1:6443"


class Server:
    """One API server of a store."""

    def __init__(self, store: MeteredStore, registry: Registry = REGISTRY, address: str = ADDRESS) -> None:
        self.store, self.registry, self.address, self.lifecycle = store, registry, address, Lifecycle()

    def controller(self, network: str = "10.0.0.0/24", **settings: Any) -> KubernetesService:
        chosen = KubernetesServiceSettings([ip_network(network)], **settings)
        return KubernetesService(
            self.store,  # type: ignore[arg-type]
            self.registry,
            self.lifecycle,
            lambda: self.address,
            chosen,
            Identity(),
        )

    async def reconcile(self, network: str = "10.0.0.0/24", **settings: Any) -> None:
        await repair_service_ranges(self.store, self.registry, 3600)  # type: ignore[arg-type]
        await self.controller(network, **settings).reconcile()

    @property
    def service(self) -> Any:
        return self.store.read(SERVICES, KEY)

    def change(self, collection: str, edit: Callable[[Any], object]) -> None:
        found = self.store.read(collection, KEY)
        edit(found)
        self.store.put(collection, found)


@pytest.fixture
def server(store: MeteredStore) -> Server:
    return Server(store)


def hosts(store: MeteredStore) -> list[str]:
    """Return the addresses of the endpoints, which must be those of the slice."""
    subsets = store.read(ENDPOINTS, KEY).get("subsets") or []
    found = [item["ip"] for subset in subsets for item in subset["addresses"]]
    assert [item["addresses"] for item in store.read(SLICES, KEY)["endpoints"]] == [[host] for host in found]
    return found


async def test_service_has_the_first_address_and_the_port_of_the_server(server: Server) -> None:
    await server.reconcile()

    spec = server.service["spec"]
    assert (spec["type"], spec["clusterIP"], spec["ipFamilies"]) == ("ClusterIP", "10.0.0.1", ["IPv4"])
    assert spec["ports"] == [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": 6443}]
    assert "externalTrafficPolicy" not in spec
    assert server.store.read(ENDPOINTS, KEY)["subsets"] == [
        {"addresses": [{"ip": "192.0.2.1"}], "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}]}
    ]
    found = server.store.read(SLICES, KEY)
    assert (found["addressType"], found["metadata"]["generation"]) == ("IPv4", 2)
    assert found["endpoints"] == [{"addresses": ["192.0.2.1"], "conditions": {"ready": True}}]


async def test_service_of_an_ipv6_range(store: MeteredStore) -> None:
    registry = build_registry(parse(["--service-cluster-ip-range=fd00::/112", "--advertise-address=2001:db8::1"]))
    server = Server(store, registry, "[2001:db8::1]:6443")
    await server.reconcile("fd00::/112")
    assert (server.service["spec"]["clusterIP"], server.service["spec"]["ipFamilies"]) == ("fd00::1", ["IPv6"])
    assert store.read(SLICES, KEY)["addressType"] == "IPv6"
    assert hosts(store) == ["2001:db8::1"]


async def test_type_follows_the_node_port_option(server: Server) -> None:
    await server.reconcile(node_port=30100)
    with_port = server.service["spec"]
    await server.reconcile()
    without = server.service["spec"]

    assert (with_port["type"], with_port["ports"][0]["nodePort"]) == ("NodePort", 30100)
    assert with_port["externalTrafficPolicy"] == "Cluster"
    assert (without["type"], "nodePort" in without["ports"][0]) == ("ClusterIP", False)
    assert "externalTrafficPolicy" not in without


async def test_changed_ports_are_repaired_and_other_fields_retained(server: Server) -> None:
    await server.reconcile()
    before = server.store.read(ENDPOINTS, KEY), server.store.read(SLICES, KEY)
    server.change(SERVICES, lambda found: found["spec"].update(ports=[{"port": 1}], sessionAffinity="ClientIP"))

    await server.reconcile()

    assert server.service["spec"]["ports"][0]["port"] == 443
    assert server.service["spec"]["sessionAffinity"] == "ClientIP"
    assert (server.store.read(ENDPOINTS, KEY), server.store.read(SLICES, KEY)) == before


async def test_unchanged_service_is_not_written(server: Server) -> None:
    await server.reconcile()
    before = server.service["metadata"]["resourceVersion"]
    await server.reconcile()
    assert server.service["metadata"]["resourceVersion"] == before


async def test_no_endpoints_are_written_without_a_reconciler(server: Server) -> None:
    await server.reconcile(reconciler="none")
    await server.controller(reconciler="none").withdraw()
    assert server.service is not None
    assert [server.store.read(name, KEY) for name in (ENDPOINTS, SLICES)] == [None, None]


async def test_endpoints_are_the_servers_with_a_lease(store: MeteredStore, caplog: pytest.LogCaptureFixture) -> None:
    server, other = Server(store), Server(store, address="192.0.2.0:6443")
    await server.reconcile()
    quiet = list(caplog.messages)
    await other.reconcile()
    await server.reconcile()
    both = hosts(store)
    await server.controller().withdraw()
    remaining = hosts(store), store.read(LEASES, "192.0.2.1")
    await server.controller().withdraw()
    await other.controller().withdraw()

    assert both == ["192.0.2.0", "192.0.2.1"]
    assert remaining == (["192.0.2.0"], None)
    assert "subsets" not in store.read(ENDPOINTS, KEY)
    assert hosts(store) == []
    assert quiet == []
    assert 'Resetting endpoints for master service "kubernetes" to 192.0.2.0, 192.0.2.1' in caplog.messages


@pytest.mark.parametrize("collection", [LEASES, ENDPOINTS])
async def test_server_withdraws_although_its_objects_have_expired(
    server: Server, caplog: pytest.LogCaptureFixture, collection: str
) -> None:
    await server.reconcile()
    key = "192.0.2.1" if collection == LEASES else KEY

    def expire(name: str, _key: str) -> None:
        if name == collection and server.store.read(collection, key) is not None:
            server.store.remove(collection, key)

    server.store.before_update = expire
    await server.controller().withdraw()

    assert server.store.read(LEASES, "192.0.2.1") is None
    assert not server.store.read(SLICES, KEY)["endpoints"]
    assert not caplog.records


async def test_failure_to_withdraw_is_logged(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    await server.reconcile()

    def fail(name: str, key: str) -> None:
        raise StoreUnavailable("disk full")

    server.store.before_update = fail
    await server.controller().withdraw()

    assert caplog.messages == ["Unable to remove endpoints from kubernetes service: disk full"]


async def test_master_count_has_one_endpoint_without_lease(store: MeteredStore) -> None:
    await Server(store, address="192.0.2.9:6443").reconcile()
    await Server(store).reconcile(reconciler="master-count")
    assert hosts(store) == ["192.0.2.1"]
    assert store.read(LEASES, "192.0.2.1") is None


async def test_slice_of_another_server_with_omitted_lists_is_completed(server: Server) -> None:
    await server.reconcile()

    def clear(found: Any) -> None:
        del found["endpoints"], found["ports"]

    server.change(SLICES, clear)
    await server.reconcile()
    assert hosts(server.store) == ["192.0.2.1"]
    assert server.store.read(SLICES, KEY)["ports"][0]["port"] == 6443
    assert server.store.read(SLICES, KEY)["metadata"]["generation"] == 3


async def test_terminating_server_does_not_return_to_the_endpoints(server: Server) -> None:
    await server.reconcile()
    await server.controller().withdraw()
    server.lifecycle.terminating = True
    await server.reconcile()
    assert hosts(server.store) == []


async def test_endpoints_that_a_client_deletes_are_created_again(server: Server) -> None:
    await server.reconcile()
    server.store.remove(ENDPOINTS, KEY)
    server.store.remove(SLICES, KEY)
    await server.controller().withdraw()
    deleted = server.store.read(ENDPOINTS, KEY)
    await server.reconcile()
    assert deleted is None
    assert hosts(server.store) == ["192.0.2.1"]


async def test_kinds_that_are_not_served_are_not_written(store: MeteredStore) -> None:
    server = Server(store, Registry([]))
    await server.controller().reconcile()
    assert [store.read(name, KEY) for name in (SERVICES, SLICES)] == [None, None]
    assert store.read(ENDPOINTS, KEY)["subsets"]


async def test_address_in_use_is_reported_and_endpoints_are_written(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    await server.reconcile()
    server.store.remove(SERVICES, KEY)
    await server.controller().reconcile()

    assert server.service is None
    assert caplog.messages == ["Failed to allocate address or port of kubernetes Service"]
    assert hosts(server.store) == ["192.0.2.1"]


async def test_reservation_is_released_if_the_service_changes_concurrently(server: Server) -> None:
    await repair_service_ranges(server.store, REGISTRY, 3600)  # type: ignore[arg-type]
    attempts: list[str] = []

    def interrupt(name: str, key: str) -> None:
        """Store another Service between the plan and the write."""
        if name == SERVICES:
            attempts.append(key)
            if len(attempts) == 2:
                odd = {"metadata": {"name": "kubernetes", "namespace": "default"}, "spec": {"type": "ClusterIP"}}
                server.store.put(SERVICES, odd)

    server.store.before_update = interrupt
    await server.controller().reconcile()
    assert len(attempts) > 2
    assert server.service["spec"]["ports"][0]["port"] == 443


async def test_reconciliation_is_repeated_until_the_server_terminates(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes_service, "_RENEW_SECONDS", 0)
    await server.reconcile()
    server.store.remove(ENDPOINTS, KEY)
    task = asyncio.ensure_future(server.controller().run())
    await turns()
    assert server.store.read(ENDPOINTS, KEY) is not None
    assert not task.done()
    server.lifecycle.terminating = True
    await turns()
    assert task.done()


async def turns() -> None:
    for _ in range(50):
        await asyncio.sleep(0)
