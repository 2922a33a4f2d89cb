"""Tests for the controllers of Endpoints and EndpointSlices."""

from __future__ import annotations

from typing import Any

import pytest

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


async def test_only_selected_pods_with_an_address_are_endpoints(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), *NAMES) as found:
        put_service(found)
        for number in range(3):
            put_pod(found, number, **({"labels": {"app": "db"}} if number == 2 else {}))
        pod = found.read(PODS, "default/p001")
        del pod["status"]["podIP"]
        store.put(PODS, pod)
        await found.rest()
        (subset,) = found.read(ENDPOINTS, "default/web")["subsets"]
        (item,) = slices(found)
    assert [address["targetRef"]["name"] for address in subset["addresses"]] == ["p000"]
    assert [endpoint["targetRef"]["name"] for endpoint in item["endpoints"]] == ["p000"]


@pytest.mark.parametrize(("address", "headless"), [("None", True), ("10.0.0.1", False)])
async def test_endpoints_of_headless_services_have_a_label(
    store: MeteredStore, address: str, *, headless: bool
) -> None:
    async with cluster(store, FakeClock(), *NAMES) as found:
        put_service(found, clusterIP=address)
        await found.rest()
        labels = [found.read(ENDPOINTS, "default/web")["metadata"].get("labels") or {}, labels_of(found)]
    assert ["service.kubernetes.io/headless" in item for item in labels] == [headless] * 2


def labels_of(found: Cluster) -> Object:
    (item,) = slices(found)
    labels: Object = item["metadata"]["labels"]
    return labels


async def test_labels_of_slices_follow_the_service(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), *NAMES) as found:
        put_service(found)
        put_pod(found, 1)
        await found.rest()
        service, before = found.read(SERVICES, "default/web"), slices(found)[0]["metadata"]
        service["metadata"]["labels"] = {"a": "b"}
        store.put(SERVICES, service)
        await found.rest()
        after = slices(found)[0]["metadata"]
        assert found.read(ENDPOINTS, "default/web")["metadata"]["labels"] == {"a": "b"}
    assert after["labels"] == {**before["labels"], "a": "b"}
    assert (after["name"], after.get("generation")) == (before["name"], before.get("generation"))


@pytest.mark.parametrize("families", [["IPv4", "IPv6"], ["IPv6", "IPv4"], None])
async def test_each_family_has_one_slice_while_there_are_no_pods(
    store: MeteredStore, families: list[str] | None
) -> None:
    async with cluster(store, FakeClock(), *NAMES) as found:
        put_service(found, ipFamilies=families)
        await found.rest()
        empty = {item["addressType"]: item["metadata"]["uid"] for item in slices(found)}
        writes = store.writes
        put_service(found, ipFamilies=families, sessionAffinity="ClientIP")
        await found.rest()
        assert store.writes == writes + 1
        put_pod(found, 1)
        await found.rest()
        counts = {item["addressType"]: len(item["endpoints"] or ()) for item in slices(found)}
        await found.delete(PODS, "default/p001")
        last = {item["addressType"]: item.get("endpoints") or [] for item in slices(found)}
    expected = families or ["IPv4"]
    assert sorted(empty) == sorted(expected)
    assert counts == {family: int(family == "IPv4") for family in expected}
    assert last == {family: [] for family in expected}


async def test_slices_without_endpoints_are_deleted_if_others_remain(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), *NAMES) as found:
        put_service(found)
        for number in range(101):
            put_pod(found, number)
        await found.rest()
        small = min(slices(found), key=lambda item: len(item["endpoints"]))
        (name,) = [endpoint["targetRef"]["name"] for endpoint in small["endpoints"]]
        await found.delete(PODS, f"default/{name}")
        assert [len(item["endpoints"]) for item in slices(found)] == [100]


async def test_slices_are_separate_by_ports(store: MeteredStore) -> None:
    async with cluster(store, FakeClock(), *NAMES) as found:
        put_service(found)
        put_pod(found, 1)
        put_pod(found, 2)
        pod = found.read(PODS, "default/p002")
        pod["spec"]["containers"][0]["ports"][0]["containerPort"] = 9090
        store.put(PODS, pod)
        await found.rest()
        ports = {item["ports"][0]["port"]: len(item["endpoints"]) for item in slices(found)}
        await found.delete(PODS, "default/p002")
        assert [item["ports"][0]["port"] for item in slices(found)] == [8080]
    assert ports == {8080: 1, 9090: 1}


async def test_services_of_others_and_deleted_ones_have_no_slices(
    store: MeteredStore, caplog: pytest.LogCaptureFixture
) -> None:
    async with cluster(store, FakeClock(), *NAMES) as found:
        put_service(found, "manual", selector=None)
        put_service(found, "external", type="ExternalName")
        put_service(found, "deleted")
        service = found.read(SERVICES, "default/deleted")
        service["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        store.put(SERVICES, service)
        await found.rest()
        assert slices(found) == []
    assert caplog.messages == []
