"""Tests for the storage versions that servers report, and for writes before that."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apiserver_stub.apimachinery.request import RequestInfo
from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.manager import ControllerManager
from apiserver_stub.controllers.storage_version_status import with_entry
from apiserver_stub.controllers.storage_versions import StorageVersions, supported_versions
from apiserver_stub.controllers.workloads.storage_version_gc import StorageVersionGarbageCollector
from apiserver_stub.feature_gates import build_gates
from apiserver_stub.kinds import bundled_resources
from apiserver_stub.options import parse
from apiserver_stub.server.kinds import build_registry, kind_settings
from apiserver_stub.storage import StoreUnavailable
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, context, rest, running, store

__all__ = ["store"]

OPTIONS = parse(["--runtime-config=internal.apiserver.k8s.io/v1alpha1=true"])
REGISTRY, KNOWN = build_registry(OPTIONS), bundled_resources(kind_settings(OPTIONS))
VERSIONS, LEASES = "internal.apiserver.k8s.io/storageversions", "coordination.k8s.io/leases"
GATES = {"StorageVersionAPI": True}


def add_lease(store: MeteredStore, name: str) -> None:
    metadata = {
        "name": name,
        "namespace": "kube-system",
        "labels": {"apiserver.kubernetes.io/identity": "kube-apiserver"},
    }
    store.put(LEASES, {"metadata": metadata, "spec": {}})


def reporter(store: MeteredStore, clock: FakeClock, name: str = "a") -> StorageVersions:
    return StorageVersions(store, Identity(), KNOWN, REGISTRY, name, clock)  # type: ignore[arg-type]


def entry(server: str, encoding: str = "apps/v1") -> dict[str, Any]:
    return {"apiServerID": server, "encodingVersion": encoding, "decodableVersions": [encoding]}


def put_version(store: MeteredStore, *entries: dict[str, Any]) -> None:
    head = {"kind": "StorageVersion", "apiVersion": "internal.apiserver.k8s.io/v1alpha1"}
    metadata = {"name": "apps.deployments", "uid": "u"}
    store.put(VERSIONS, {**head, "metadata": metadata, "spec": {}, "status": {"storageVersions": list(entries)}})


@pytest.mark.row("gate.StorageVersionAPI")
async def test_servers_with_a_lease_report_their_versions(store: MeteredStore, clock: FakeClock) -> None:
    add_lease(store, "b")
    versions = reporter(store, clock, "b"), reporter(store, clock, "a")

    async with running(store, *(item.run() for item in versions)):
        await rest(store)
        before = store.read(VERSIONS, "apps.deployments")["status"]["storageVersions"]
        add_lease(store, "a")
        await clock.advance(1)
        await rest(store)

    status = store.read(VERSIONS, "apps.deployments")["status"]
    assert [item["apiServerID"] for item in before] == ["b"]
    assert status["storageVersions"] == [
        {
            "apiServerID": name,
            "encodingVersion": "apps/v1",
            "decodableVersions": ["apps/v1"],
            "servedVersions": ["apps/v1"],
        }
        for name in ("b", "a")
    ]
    assert status["commonEncodingVersion"] == "apps/v1"
    (condition,) = status["conditions"]
    assert (condition["type"], condition["status"]) == ("AllEncodingVersionsEqual", "True")
    assert (condition["reason"], condition["message"]) == ("CommonEncodingVersionSet", "Common encoding version set")


async def test_unchanged_versions_are_not_written_again(store: MeteredStore, clock: FakeClock) -> None:
    add_lease(store, "a")
    async with running(store, reporter(store, clock).run()):
        await rest(store)
        writes = store.writes
        await clock.advance(601)
        await rest(store)
        assert store.writes == writes
        store.remove(VERSIONS, "core.pods")
        await clock.advance(601)
        await rest(store)

    assert store.read(VERSIONS, "core.pods")["status"]["commonEncodingVersion"] == "v1"


async def test_different_encodings_have_no_common_version(store: MeteredStore, clock: FakeClock) -> None:
    add_lease(store, "a")
    put_version(store, entry("other", "apps/v2"))

    async with running(store, reporter(store, clock).run()):
        await rest(store)

    status = store.read(VERSIONS, "apps.deployments")["status"]
    assert "commonEncodingVersion" not in status
    assert [(item["status"], item["reason"]) for item in status["conditions"]] == [
        ("False", "CommonEncodingVersionUnset")
    ]


@pytest.mark.parametrize(
    ("status", "encoding", "before", "retained"),
    [
        ("True", "apps/v1", "apps/v1", True),
        ("True", "apps/v2", "apps/v1", False),
        ("True", "apps/v1", None, True),
        ("False", "apps/v1", None, False),
    ],
)
async def test_condition_retains_the_time_until_the_common_version_changes(
    store: MeteredStore, clock: FakeClock, status: str, encoding: str, before: str | None, retained: bool
) -> None:
    add_lease(store, "a")
    put_version(store, entry("a", before or encoding))
    found, time = store.read(VERSIONS, "apps.deployments"), "2020-01-01T00:00:00Z"
    common = {} if before is None else {"commonEncodingVersion": before}
    condition = {"type": "AllEncodingVersionsEqual", "status": status, "lastTransitionTime": time}
    found["status"] |= {"conditions": [{"type": "Other"}, condition], **common}

    new = with_entry(found["status"], entry("a", encoding), "2026-01-01T00:00:00Z")

    assert [item["type"] for item in new["conditions"]] == ["Other", "AllEncodingVersionsEqual"]
    assert (new["conditions"][1]["lastTransitionTime"] == time) is retained
    assert new["commonEncodingVersion"] == encoding


def test_versions_include_resources_that_share_objects() -> None:
    found = {item.name: item for item in supported_versions(KNOWN, REGISTRY)}

    events, levels = found["core.events"], found["flowcontrol.apiserver.k8s.io.prioritylevelconfigurations"]
    assert set(events.resources) == {("", "events"), ("events.k8s.io", "events")}
    assert events.encoding == "v1" and set(events.decodable) == {"v1", "events.k8s.io/v1"}
    assert levels.encoding in levels.decodable and len(levels.served) == 2
    assert "authorization.k8s.io.subjectaccessreviews" not in found
    assert "storage.k8s.io.volumeattributesclasses" not in found


async def test_writes_wait_for_the_report_of_their_resource(store: MeteredStore, clock: FakeClock) -> None:
    def fail(collection: str, key: str) -> None:
        if key == "core.pods":
            raise StoreUnavailable("no space")

    pods, nodes = RequestInfo("create", "/", "", "v1", "pods"), RequestInfo("update", "/", "", "v1", "nodes")
    deployments = RequestInfo("deletecollection", "/", "apps", "v1", "deployments")
    versions = reporter(store, clock)
    with pytest.raises(ApiError, match=r"for resource: deployments\.apps, last seen error: <nil>"):
        versions.check(deployments)
    assert await versions.problem() == "not finished"

    store.before_update = fail
    add_lease(store, "a")
    async with running(store, versions.run()):
        await rest(store)
        versions.check(nodes)
        with pytest.raises(ApiError, match=r"for resource: pods, last seen error: .*no space") as raised:
            versions.check(pods)
        store.before_update = None
        await clock.advance(1)
        await rest(store)
        versions.check(pods)

    assert raised.value.code == 503
    assert await versions.problem() == ""


@pytest.mark.parametrize(
    "info",
    [
        RequestInfo("get", "/", "", "v1", "pods"),
        RequestInfo("watch", "/", "", "v1", "pods"),
        RequestInfo("update", "/", "coordination.k8s.io", "v1", "leases", namespace="kube-system"),
        RequestInfo("create", "/", "internal.apiserver.k8s.io", "v1alpha1", "storageversions"),
        RequestInfo("create", "/", "example.com", "v1", "things"),
        RequestInfo("create", "/", "authorization.k8s.io", "v1", "subjectaccessreviews"),
    ],
)
def test_other_requests_do_not_wait(store: MeteredStore, clock: FakeClock, info: RequestInfo) -> None:
    reporter(store, clock).check(info)


@pytest.mark.parametrize(
    "info",
    [
        RequestInfo("update", "/", "coordination.k8s.io", "v1", "leases", namespace="default"),
        RequestInfo("create", "/", "", "v1", "pods", namespace="kube-system"),
    ],
)
def test_writes_of_clients_wait_in_all_namespaces(store: MeteredStore, clock: FakeClock, info: RequestInfo) -> None:
    with pytest.raises(ApiError, match="wait for storage version registration"):
        reporter(store, clock).check(info)


@pytest.mark.parametrize("gates", [{}, {**GATES, "APIServerIdentity": False}])
async def test_versions_remain_without_the_gates(store: MeteredStore, clock: FakeClock, gates: dict[str, bool]) -> None:
    collectors = [StorageVersionGarbageCollector]
    manager = ControllerManager(collectors, context(store), REGISTRY, Identity(), build_gates(gates), clock)
    put_version(store, entry("unknown"))
    task = asyncio.ensure_future(manager.run())
    await rest(store)
    task.cancel()
    assert store.read(VERSIONS, "apps.deployments") is not None


async def test_versions_of_ended_servers_are_removed(store: MeteredStore, clock: FakeClock) -> None:
    manager = ControllerManager(
        [StorageVersionGarbageCollector], context(store), REGISTRY, Identity(), build_gates(GATES), clock
    )
    add_lease(store, "a")
    add_lease(store, "b")
    put_version(store, entry("a"), entry("b", "apps/v2"), entry("unknown", "apps/v3"))

    async with running(store, manager.run()):
        await rest(store)
        both = store.read(VERSIONS, "apps.deployments")["status"]
        add_lease(store, "new")
        store.remove(LEASES, "kube-system/b")
        await rest(store)
        one = store.read(VERSIONS, "apps.deployments")["status"]
        store.remove(LEASES, "kube-system/a")
        await rest(store)

    assert [item["apiServerID"] for item in both["storageVersions"]] == ["a", "b"]
    assert [item["apiServerID"] for item in one["storageVersions"]] == ["a"]
    assert "commonEncodingVersion" not in both and one["commonEncodingVersion"] == "apps/v1"
    assert store.read(VERSIONS, "apps.deployments") is None
