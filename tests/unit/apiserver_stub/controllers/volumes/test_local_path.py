"""Tests for the provisioner of local-path volumes, and for their storage class."""

from __future__ import annotations

import json
from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError, not_found
from apiserver_stub.controllers.volume_protection import VolumeProtection
from apiserver_stub.controllers.volumes.binder import VolumeBinder
from apiserver_stub.controllers.volumes.local_directories import LocalDirectories
from apiserver_stub.controllers.volumes.local_path import LocalPathProvisioner
from apiserver_stub.controllers.volumes.local_path_class import ensure_local_path_class
from apiserver_stub.nodes.agents import Unreachable
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import REGISTRY, MeteredStore, context, rest, running, store

from .objects import CLAIMS, CLASSES, VOLUMES, bound_to, claim, events, phase, storage_class

__all__ = ["store"]

NAME = "nodeagent.kubernetes.io/local-path"
SELECTED = "volume.kubernetes.io/selected-node"


class FakeAgents:
    """Agent of the node ``n1``.

    :ivar problem: status and text of all responses; ``None`` if requests succeed, 0 if the node is unreachable.
    """

    def __init__(self) -> None:
        self.directories: dict[str, int] = {}
        self.problem: tuple[int, str] | None = None

    def node(self, name: str, kind: str = "nodes") -> dict[str, Any]:
        if name != "n1":
            raise not_found("", kind, name)
        return {"metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "host-1"}}}

    async def call(self, node_name: str, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        if self.problem is not None:
            if not self.problem[0]:
                raise Unreachable("connection refused")
            return self.problem[0], self.problem[1].encode()
        name = path.removeprefix("/localVolumes/")
        if method == "DELETE":
            self.directories.pop(name, None)
            return 200, b"{}"
        self.directories[name] = json.loads(body)["capacity"]
        return 200, json.dumps({"path": f"/root/local-volumes/{name}"}).encode()


@pytest.fixture
def agents() -> FakeAgents:
    return FakeAgents()


@pytest.fixture
def controllers(store: MeteredStore, clock: FakeClock, agents: FakeAgents) -> Any:
    directories, identity = LocalDirectories(agents, Identity()), Identity()
    store.put(CLASSES, storage_class("local-path", NAME, reclaimPolicy="Delete", allowVolumeExpansion=True))

    def start() -> Any:
        provisioner = LocalPathProvisioner(context(store), REGISTRY, directories, identity, 3600, clock)
        binder = VolumeBinder(store, identity, 3600, clock)
        protection = VolumeProtection(store, identity, clock)
        return running(store, provisioner.run(), binder.run(), protection.run())

    return start


async def settle(store: MeteredStore, clock: FakeClock) -> None:
    for _ in range(3):
        await clock.advance(1)
        await rest(store)


def local_claim(**spec: Any) -> dict[str, Any]:
    return claim(storageClassName="local-path", annotations={SELECTED: "n1"}, **spec)


def request_larger(store: MeteredStore) -> None:
    larger = store.read(CLAIMS, "n/c")
    larger["spec"]["resources"]["requests"]["storage"] = "3Gi"
    store.put(CLAIMS, larger)


async def test_volume_is_created_bound_and_deleted(
    store: MeteredStore, clock: FakeClock, agents: FakeAgents, controllers: Any
) -> None:
    store.put(CLAIMS, local_claim())
    async with controllers():
        await settle(store, clock)
        assert bound_to(store) == ("Bound", "pvc-uid-c") and agents.directories == {"pvc-uid-c": 2**30}
        spec = store.read(VOLUMES, "pvc-uid-c")["spec"]
        assert spec["local"] == {"path": "/root/local-volumes/pvc-uid-c"}
        (term,) = spec["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"] == [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["host-1"]}]
        assert "VolumeResizeSuccessful" not in [reason for _, reason, _ in events(store)]
        store.remove(CLAIMS, "n/c")
        await settle(store, clock)

    assert agents.directories == {} and store.read(VOLUMES, "pvc-uid-c") is None


async def test_retained_volume_keeps_its_directory(
    store: MeteredStore, clock: FakeClock, agents: FakeAgents, controllers: Any
) -> None:
    store.put(CLASSES, storage_class("local-path", NAME, reclaimPolicy="Retain"))
    store.put(CLAIMS, local_claim())
    async with controllers():
        await settle(store, clock)
        store.remove(CLAIMS, "n/c")
        await settle(store, clock)

    assert phase(store, "pvc-uid-c") == "Released" and agents.directories


async def test_directory_of_a_claim_in_use_is_never_deleted(
    store: MeteredStore, clock: FakeClock, agents: FakeAgents, controllers: Any
) -> None:
    store.put(CLAIMS, local_claim())
    async with controllers():
        await settle(store, clock)
        for wrong in ("Released", "Failed"):
            volume = store.read(VOLUMES, "pvc-uid-c")
            store.put(VOLUMES, {**volume, "status": {"phase": wrong}})
            await settle(store, clock)

    assert agents.directories and bound_to(store) == ("Bound", "pvc-uid-c")
    assert phase(store, "pvc-uid-c") == "Bound"


async def test_deletion_is_retried_until_the_node_confirms_it(
    store: MeteredStore, clock: FakeClock, agents: FakeAgents, controllers: Any
) -> None:
    store.put(CLAIMS, local_claim())
    async with controllers():
        await settle(store, clock)
        agents.problem = 0, ""
        store.remove(CLAIMS, "n/c")
        await settle(store, clock)
        assert phase(store, "pvc-uid-c") == "Released"
        note = "node n1: error trying to reach service: connection refused"
        assert ("pvc-uid-c", "VolumeFailedDelete", note) in events(store)
        agents.problem = None
        await clock.advance(60)
        await settle(store, clock)

    assert agents.directories == {} and store.read(VOLUMES, "pvc-uid-c") is None


async def test_rejected_directory_is_reported_and_the_node_released(
    store: MeteredStore, clock: FakeClock, agents: FakeAgents, controllers: Any
) -> None:
    agents.problem = 404, "404: Not Found"
    store.put(CLAIMS, local_claim())
    async with controllers():
        await settle(store, clock)

    note = 'Failed to provision volume with StorageClass "local-path": node n1 does not provide local volumes'
    assert ("c", "ProvisioningFailed", note) in events(store)
    assert SELECTED not in store.read(CLAIMS, "n/c")["metadata"]["annotations"]


@pytest.mark.parametrize(
    "spec",
    [
        {"modes": ("ReadWriteMany",)},
        {"volumeMode": "Block"},
        {"dataSource": {"kind": "PersistentVolumeClaim", "name": "other"}},
        {"dataSourceRef": {"kind": "PersistentVolumeClaim", "name": "other"}},
        {"selector": {"matchLabels": {"disk": "ssd"}}},
    ],
)
async def test_unsupported_claim_is_reported(
    store: MeteredStore, clock: FakeClock, agents: FakeAgents, controllers: Any, spec: dict[str, Any]
) -> None:
    store.put(CLAIMS, local_claim(**spec))
    async with controllers():
        await settle(store, clock)

    assert bound_to(store)[0] == "Pending" and agents.directories == {}
    assert any(reason == "ProvisioningFailed" and "not supported" in note for _, reason, note in events(store))


async def test_larger_request_expands_the_volume(
    store: MeteredStore, clock: FakeClock, agents: FakeAgents, controllers: Any
) -> None:
    store.put(CLAIMS, local_claim())
    async with controllers():
        await settle(store, clock)
        request_larger(store)
        await settle(store, clock)

    assert agents.directories == {"pvc-uid-c": 3 * 2**30}
    assert store.read(CLAIMS, "n/c")["status"]["capacity"] == {"storage": "3Gi"}
    assert store.read(VOLUMES, "pvc-uid-c")["spec"]["capacity"] == {"storage": "3Gi"}


async def test_failed_expansion_is_reported_and_retried(
    store: MeteredStore, clock: FakeClock, agents: FakeAgents, controllers: Any
) -> None:
    store.put(CLAIMS, local_claim())
    async with controllers():
        await settle(store, clock)
        agents.problem = 0, ""
        request_larger(store)
        await settle(store, clock)
        note = "node n1: error trying to reach service: connection refused"
        assert ("c", "VolumeResizeFailed", note) in events(store)
        assert store.read(VOLUMES, "pvc-uid-c")["spec"]["capacity"] == {"storage": "1Gi"}
        agents.problem = None
        await clock.advance(60)
        await settle(store, clock)

    assert agents.directories == {"pvc-uid-c": 3 * 2**30}
    assert store.read(CLAIMS, "n/c")["status"]["capacity"] == {"storage": "3Gi"}


async def test_volume_with_another_finalizer_is_removed_after_it(
    store: MeteredStore, clock: FakeClock, agents: FakeAgents, controllers: Any
) -> None:
    store.put(CLAIMS, local_claim())
    async with controllers():
        await settle(store, clock)
        volume = store.read(VOLUMES, "pvc-uid-c")
        volume["metadata"]["finalizers"].append("example.com/kept")
        store.put(VOLUMES, volume)
        store.remove(CLAIMS, "n/c")
        await settle(store, clock)
        assert agents.directories == {}
        volume = store.read(VOLUMES, "pvc-uid-c")
        assert volume["metadata"]["finalizers"] == ["example.com/kept"]
        volume["metadata"]["finalizers"] = []
        store.put(VOLUMES, volume)
        await settle(store, clock)

    assert store.read(VOLUMES, "pvc-uid-c") is None


async def test_storage_class_is_created_once(store: MeteredStore) -> None:
    store.put("core/namespaces", {"metadata": {"name": "kube-system"}})
    await ensure_local_path_class(store, Identity())  # type: ignore[arg-type]
    created = store.read(CLASSES, "local-path")
    store.remove(CLASSES, "local-path")
    await ensure_local_path_class(store, Identity())  # type: ignore[arg-type]

    assert created["provisioner"] == NAME and created["volumeBindingMode"] == "WaitForFirstConsumer"
    assert created["metadata"]["annotations"] == {"storageclass.kubernetes.io/is-default-class": "true"}
    assert store.read(CLASSES, "local-path") is None


async def test_storage_class_is_not_added_to_others(store: MeteredStore) -> None:
    store.put("core/namespaces", {"metadata": {"name": "kube-system"}})
    store.put(CLASSES, storage_class("fast"))
    await ensure_local_path_class(store, Identity())  # type: ignore[arg-type]

    assert store.read(CLASSES, "local-path") is None


async def test_deleted_claim_gets_no_volume(
    store: MeteredStore, clock: FakeClock, agents: FakeAgents, controllers: Any
) -> None:
    deleted = local_claim()
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    store.put(CLAIMS, deleted)
    async with controllers():
        await settle(store, clock)
    assert agents.directories == {}


@pytest.mark.parametrize(("reason", "reported"), [("AlreadyExists", False), ("Forbidden", True)])
async def test_rejected_volume_is_reported_unless_another_server_created_it(
    store: MeteredStore, clock: FakeClock, controllers: Any, reason: str, *, reported: bool
) -> None:
    def reject(collection: str, key: str) -> None:
        if collection == VOLUMES:
            store.before_update = None
            raise ApiError(409, reason, "rejected", {})

    store.put(CLAIMS, local_claim())
    store.before_update = reject
    async with controllers():
        await settle(store, clock)
    assert ("ProvisioningFailed" in [item[1] for item in events(store)]) is reported


async def test_expansion_retains_other_capacities(store: MeteredStore, clock: FakeClock, controllers: Any) -> None:
    store.put(CLAIMS, local_claim())
    async with controllers():
        await settle(store, clock)
        for collection, key, field in ((VOLUMES, "pvc-uid-c", "spec"), (CLAIMS, "n/c", "status")):
            obj = store.read(collection, key)
            obj[field]["capacity"]["other"] = "1"
            store.put(collection, obj)
        request_larger(store)
        await settle(store, clock)
    assert store.read(VOLUMES, "pvc-uid-c")["spec"]["capacity"] == {"storage": "3Gi", "other": "1"}
    assert store.read(CLAIMS, "n/c")["status"]["capacity"] == {"storage": "3Gi", "other": "1"}


@pytest.mark.parametrize(("bound", "removed"), [(True, False), (False, True)])
async def test_deleted_volume_that_is_retained_is_removed_once_it_is_released(
    store: MeteredStore, clock: FakeClock, agents: FakeAgents, controllers: Any, *, bound: bool, removed: bool
) -> None:
    store.put(CLASSES, storage_class("local-path", NAME, reclaimPolicy="Retain"))
    store.put(CLAIMS, local_claim())
    async with controllers():
        await settle(store, clock)
        if not bound:
            store.remove(CLAIMS, "n/c")
            await settle(store, clock)
        volume = store.read(VOLUMES, "pvc-uid-c")
        volume["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        store.put(VOLUMES, volume)
        await settle(store, clock)
    assert (store.read(VOLUMES, "pvc-uid-c") is None) is removed
    assert agents.directories


@pytest.mark.parametrize("deleted", [True, False])
async def test_volume_of_a_missing_node_is_removed_only_if_a_user_deletes_it(
    store: MeteredStore, clock: FakeClock, controllers: Any, *, deleted: bool
) -> None:
    store.put(CLAIMS, local_claim())
    async with controllers():
        await settle(store, clock)
        volume = store.read(VOLUMES, "pvc-uid-c")
        annotations = volume["metadata"]["annotations"]
        volume["metadata"]["annotations"] = {key: "gone" if at == "n1" else at for key, at in annotations.items()}
        if deleted:
            volume["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        store.put(VOLUMES, volume)
        store.remove(CLAIMS, "n/c")
        await settle(store, clock)
    assert (store.read(VOLUMES, "pvc-uid-c") is None) is deleted
    assert ("VolumeFailedDelete" in [item[1] for item in events(store)]) is not deleted
