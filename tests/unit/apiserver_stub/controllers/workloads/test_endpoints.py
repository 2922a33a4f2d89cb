"""Tests for the controllers of Endpoints and EndpointSlices."""

from __future__ import annotations

from typing import Any

from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, store
from tests.unit.apiserver_stub.controllers.workloads.harness import PODS, Cluster, Object, cluster

__all__ = ["store"]
ENDPOINTS, SLICES, SERVICES = "core/endpoints", "discovery.k8s.io/endpointslices", "core/services"
NAMES = ("endpoint-controller", "endpointslice-controller")


def put_service(found: Cluster, name: str = "web", **spec: Any) -> None:
    ports = [{"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"}]
    values = {"selector": {"app": "web"}, "ports": ports, "ipFamilies": ["IPv4"], **spec}
    metadata = {"name": name, "namespace": "default", "uid": f"service-{name}"}
    found.store.put(SERVICES, {"kind": "Service", "apiVersion": "v1", "metadata": metadata, "spec": values})


def put_pod(found: Cluster, number: int, *, ready: bool = True, **metadata: Any) -> None:
    container = {"name": "c", "ports": [{"name": "web", "containerPort": 8080}]}
    pod: Object = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": f"p{number:03}",
            "namespace": "default",
            "uid": f"u{number}",
            "labels": {"app": "web"},
            **metadata,
        },
        "spec": {"nodeName": "a", "containers": [container]},
        "status": {
            "phase": "Running",
            "podIP": f"10.0.{number // 250}.{number % 250 + 1}",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }
    found.store.put(PODS, pod)


def slices(found: Cluster) -> list[Object]:
    return found.list(SLICES)


async def test_ready_and_other_pods_are_published_separately(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), *NAMES) as found:
        put_service(found)
        put_pod(found, 1)
        put_pod(found, 2, ready=False)
        await found.rest()
        (subset,) = found.read(ENDPOINTS, "default/web")["subsets"]
        (item,) = slices(found)
    assert [address["ip"] for address in subset["addresses"]] == ["10.0.0.2"]
    assert [address["ip"] for address in subset["notReadyAddresses"]] == ["10.0.0.3"]
    assert subset["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    assert sorted(item["endpoints"], key=lambda each: each["addresses"])[1]["conditions"] == {
        "ready": False,
        "serving": False,
        "terminating": False,
    }
    assert item["metadata"]["labels"]["kubernetes.io/service-name"] == "web"
    assert item["metadata"]["ownerReferences"][0]["uid"] == "service-web"


async def test_terminating_pod_stays_only_in_slices(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), *NAMES) as found:
        put_service(found)
        put_pod(found, 1, deletionTimestamp="2024-01-01T00:00:00Z")
        await found.rest()
        endpoints = found.read(ENDPOINTS, "default/web")
        (endpoint,) = slices(found)[0]["endpoints"]
    assert "subsets" not in endpoints
    assert endpoint["conditions"] == {"ready": False, "serving": True, "terminating": True}


async def test_slices_contain_at_most_100_endpoints(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), *NAMES) as found:
        put_service(found)
        for number in range(230):
            put_pod(found, number)
        await found.rest()
        before = sorted(len(item["endpoints"]) for item in slices(found))
        writes = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in slices(found)}
        await found.delete(PODS, "default/p000")
        after = {item["metadata"]["name"]: item["metadata"]["resourceVersion"] for item in slices(found)}
    assert sum(before) == 230
    assert max(before) == 100
    assert sum(writes[name] != after[name] for name in writes) == 1


async def test_objects_of_a_deleted_service_and_without_selector(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), *NAMES) as found:
        put_service(found)
        put_service(found, "manual", selector=None)
        await found.rest()
        names = [item["metadata"]["name"] for item in found.list(ENDPOINTS)]
        await found.delete(SERVICES, "default/web")
        assert found.list(ENDPOINTS) == []
    assert names == ["web"]
