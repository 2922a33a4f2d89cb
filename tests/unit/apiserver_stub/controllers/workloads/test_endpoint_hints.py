"""Tests for the hints of endpoint slices."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from apiserver_stub.controllers.workloads import topology_hints
from nodeagent.base.release import Release
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, store
from tests.unit.apiserver_stub.controllers.workloads.harness import PODS, Cluster, Object, cluster

__all__ = ["store"]
NODES, SERVICES, SLICES = "core/nodes", "core/services", "discovery.k8s.io/endpointslices"
CONTROLLER = "endpointslice-controller"
AUTO = {"service.kubernetes.io/topology-mode": "Auto"}


def put_node(found: Cluster, name: str, zone: str, cpu: str = "4", *, ready: bool = True, **labels: str) -> None:
    metadata = {"name": name, "uid": name, "labels": {"topology.kubernetes.io/zone": zone, **labels}}
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    status = {"conditions": conditions, "allocatable": {"cpu": cpu}}
    found.store.put(NODES, {"kind": "Node", "apiVersion": "v1", "metadata": metadata, "status": status})


def put_service(found: Cluster, annotations: dict[str, str] | None = None, **spec: Any) -> None:
    ports = [{"port": 80, "targetPort": 80, "protocol": "TCP"}]
    values = {"selector": {"app": "web"}, "ports": ports, "ipFamilies": ["IPv4"], **spec}
    metadata = {"name": "web", "namespace": "default", "uid": "service", "annotations": annotations or {}}
    found.store.put(SERVICES, {"kind": "Service", "apiVersion": "v1", "metadata": metadata, "spec": values})


def put_pods(found: Cluster, *nodes: str, ready: bool = True) -> None:
    for number, node in enumerate(nodes):
        metadata = {"name": f"p{number}", "namespace": "default", "uid": f"u{number}", "labels": {"app": "web"}}
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        status = {"phase": "Running", "podIP": f"10.0.0.{number + 1}", "conditions": conditions}
        spec = {"nodeName": node, "containers": [{"name": "c"}]}
        pod = {"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": status}
        found.store.put(PODS, pod)


def endpoints(found: Cluster) -> list[dict[str, Any]]:
    return [endpoint for item in found.list(SLICES) for endpoint in item["endpoints"] or ()]


def zones(found: Cluster) -> Counter[str]:
    return Counter(zone["name"] for item in endpoints(found) for zone in item.get("hints", {}).get("forZones", ()))


@pytest.mark.row("gate.TopologyAwareHints")
async def test_zones_have_endpoints_in_proportion_to_their_cpus(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), CONTROLLER) as found:
        put_node(found, "a", "east", "6")
        put_node(found, "b", "west", "2")
        put_service(found, AUTO)
        put_pods(found, "a", "a", "b", "b", "b", "b", "b", "b")
        await found.rest()
        hints = zones(found)
        own = sum(item["zone"] == item["hints"]["forZones"][0]["name"] for item in endpoints(found))
        notes = found.notes()
    assert hints == {"east": 6, "west": 2}
    assert own == 4
    assert notes == ["Topology Aware Hints has been enabled, addressType: IPv4"]


@pytest.mark.row("gate.TopologyAwareHints")
async def test_disabled_gate_leaves_hints_out(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), CONTROLLER, TopologyAwareHints=False) as found:
        put_node(found, "a", "east")
        put_node(found, "b", "west")
        put_service(found, AUTO)
        put_pods(found, "a", "b")
        await found.rest()
        assert zones(found) == {}


async def test_hints_follow_the_cpus_of_zones_and_the_annotation(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), CONTROLLER) as found:
        put_node(found, "a", "east")
        put_node(found, "b", "west")
        put_service(found, AUTO)
        put_pods(found, "a", "a", "b", "b")
        await found.rest()
        before = zones(found)
        put_node(found, "b", "west", "12")
        await found.rest()
        changed = zones(found)
        put_node(found, "b", "west", ready=False)
        await found.rest()
        single = zones(found)
        put_node(found, "b", "west")
        await found.rest()
        put_service(found)
        await found.rest()
        after, notes = zones(found), found.notes()
    assert (before, changed) == ({"east": 2, "west": 2}, {"east": 1, "west": 3})
    assert (single, after) == ({}, {})
    assert "Nodes only ready in one zone, addressType: IPv4" in notes
    assert "Topology Aware Hints has been disabled, addressType: IPv4" in notes


@pytest.mark.parametrize(
    ("pods", "cpu", "labels", "reason"),
    [
        ("a", "4", {}, "Insufficient number of endpoints (1 endpoints, 2 zones)"),
        ("ab", "0", {}, "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"),
        ("aabbcc", "4", {}, "One or more endpoints do not have a zone specified"),
        ("ab", "4", {"node-role.kubernetes.io/control-plane": ""}, "Nodes only ready in one zone"),
        (
            "ab",
            "16",
            {},
            "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold "
            "(2 endpoints, 2 zones)",
        ),
    ],
)
async def test_reason_why_there_are_no_hints(
    store: MeteredStore, pods: str, cpu: str, labels: dict[str, str], reason: str
) -> None:
    async with cluster(store, FakeClock(), CONTROLLER) as found:
        put_node(found, "a", "east")
        put_node(found, "b", "west", cpu, **labels)
        put_service(found, AUTO)
        put_pods(found, *pods)
        await found.rest()
        hints, notes = zones(found), found.notes()
    assert hints == {}
    assert f"{reason}, addressType: IPv4" in notes


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [
        ("PreferClose", {"forZones": [{"name": "east"}]}),
        ("PreferSameZone", {"forZones": [{"name": "east"}]}),
        (None, None),
    ],
)
async def test_distribution_within_a_zone(store: MeteredStore, distribution: str | None, expected: Any) -> None:
    async with cluster(store, FakeClock(), CONTROLLER, release=Release.parse("1.36")) as found:
        put_node(found, "a", "east")
        put_service(found, trafficDistribution=distribution)
        put_pods(found, "a")
        await found.rest()
        (ready,) = endpoints(found)
        put_pods(found, "a", ready=False)
        await found.rest()
        (unready,) = endpoints(found)
    assert ready.get("hints") == expected
    assert "hints" not in unready


def test_distribution_within_a_node_falls_back_to_the_zone() -> None:
    ready: Object = {"nodeName": "a", "zone": "east", "conditions": {"ready": True}}
    without_zone: Object = {"nodeName": "b", "conditions": {}}
    topology_hints.set_close("PreferSameNode", [ready, without_zone])
    assert ready["hints"] == {"forZones": [{"name": "east"}], "forNodes": [{"name": "a"}]}
    assert without_zone["hints"] == {"forNodes": [{"name": "b"}]}


@pytest.mark.parametrize("weights", [(1, 1, 18), (1, 1), (3, 2, 2, 1), (1, 5, 7)])
def test_every_zone_has_at_least_its_minimum(weights: tuple[int, ...]) -> None:
    shares = {f"z{number}": weight / sum(weights) for number, weight in enumerate(weights)}
    generator = random.Random(7)
    for count in range(len(weights), 60):
        items: list[Object] = [{"zone": f"z{generator.randrange(4)}", "conditions": {}} for _ in range(count)]
        try:
            topology_hints.set_proportional(shares, items)
        except topology_hints.UnavailableError:
            continue
        found = Counter(item["hints"]["forZones"][0]["name"] for item in items)
        assert found.keys() <= shares.keys()
        assert all(share * count / found[zone] <= 1.2 + 1e-9 for zone, share in shares.items())
