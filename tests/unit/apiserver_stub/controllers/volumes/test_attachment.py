"""Tests for the attach-detach controller."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.controllers.volumes.attachment import VolumeAttacher
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import REGISTRY, MeteredStore, context, rest, running, store

from .objects import CLAIMS, NODES, PODS, VOLUMES, Object, claim, events, reference, volume

__all__ = ["store"]

ATTACHMENTS, DRIVERS = "storage.k8s.io/volumeattachments", "storage.k8s.io/csidrivers"
MANAGED = {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}
UNIQUE = "kubernetes.io/csi/d.example^h"


def node(name: str = "a", *, in_use: bool = False, managed: bool = True) -> Object:
    status = {"volumesInUse": [UNIQUE]} if in_use else {}
    return {"metadata": {"name": name, "uid": name, "annotations": MANAGED if managed else {}}, "status": status}


def pod(name: str = "web", on: str = "a") -> Object:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
    return {
        "metadata": {"name": name, "namespace": "n", "uid": name},
        "spec": {"nodeName": on, "volumes": volumes},
        "status": {"phase": "Pending"},
    }


def fill(store: MeteredStore, *, modes: tuple[str, ...] = ("ReadWriteOnce",), **source: Any) -> None:
    """Add a bound claim."""
    csi = source or {"csi": {"driver": "d.example", "volumeHandle": "h"}}
    store.put(VOLUMES, volume(modes=modes, claimRef=reference("c", "uid-c"), hostPath=None, **csi))
    bound = claim(volumeName="v")
    store.put(CLAIMS, {**bound, "status": {"phase": "Bound"}})


def attachments(store: MeteredStore) -> list[Any]:
    return [store.read(ATTACHMENTS, record.key) for record in store.collection(ATTACHMENTS).select()]


def attach(store: MeteredStore, **status: Any) -> None:
    """Do what the external attacher does."""
    (found,) = attachments(store)
    store.put(ATTACHMENTS, {**found, "status": {"attached": True, **status}})


def listed(store: MeteredStore, name: str = "a") -> list[str]:
    return [each["name"] for each in store.read(NODES, name)["status"].get("volumesAttached") or ()]


class Controller:
    """The running controller, and the time."""

    def __init__(self, store: MeteredStore, clock: FakeClock) -> None:
        self._store, self._clock = store, clock
        self.running = running(store, VolumeAttacher(context(store), REGISTRY, Identity(), 3600, clock).run())

    async def settle(self) -> None:
        await self._clock.advance(1)
        await rest(self._store)


async def test_volume_is_attached_listed_and_detached_once_unmounted(store: MeteredStore, clock: FakeClock) -> None:
    fill(store)
    store.put(NODES, node())
    store.put(PODS, pod())
    controller = Controller(store, clock)
    async with controller.running:
        await controller.settle()
        (created,) = attachments(store)
        assert created["spec"] == {
            "attacher": "d.example", "nodeName": "a", "source": {"persistentVolumeName": "v"},
        }  # fmt: skip
        assert listed(store) == []
        attach(store)
        await controller.settle()
        assert store.read(NODES, "a")["status"]["volumesAttached"] == [{"name": UNIQUE, "devicePath": ""}]
        assert events(store) == [("web", "SuccessfulAttachVolume", 'AttachVolume.Attach succeeded for volume "v" ')]

        store.put(NODES, {**node(in_use=True), "status": {**node(in_use=True)["status"], "volumesAttached": [
            {"name": UNIQUE, "devicePath": ""}]}})  # fmt: skip
        store.remove(PODS, "n/web")
        await controller.settle()
        assert len(attachments(store)) == 1 and listed(store) == [UNIQUE]
        store.put(NODES, node())
        await controller.settle()
        assert attachments(store) == [] and listed(store) == []


async def test_failed_attachment_is_reported_once(store: MeteredStore, clock: FakeClock) -> None:
    fill(store)
    store.put(NODES, node())
    store.put(PODS, pod())
    controller = Controller(store, clock)
    async with controller.running:
        await controller.settle()
        for _ in range(2):
            attach(store, attached=False, attachError={"message": "rpc error: code = Internal desc = no"})
            await controller.settle()
    note = 'AttachVolume.Attach failed for volume "v" : rpc error: code = Internal desc = no'
    assert events(store) == [("web", "FailedAttachVolume", note)] and listed(store) == []


async def test_exclusive_volume_waits_for_the_other_node(store: MeteredStore, clock: FakeClock) -> None:
    fill(store)
    for name in "ab":
        store.put(NODES, node(name, in_use=name == "a"))
    store.put(PODS, pod())
    controller = Controller(store, clock)
    async with controller.running:
        await controller.settle()
        attach(store)
        await controller.settle()
        store.remove(PODS, "n/web")
        store.put(PODS, pod("next", on="b"))
        await controller.settle()
        assert [each["spec"]["nodeName"] for each in attachments(store)] == ["a"]
        assert events(store)[0][:2] == ("next", "FailedAttachVolume") and "Multi-Attach error" in events(store)[0][2]
        store.put(NODES, node("a"))
        await controller.settle()
        assert [each["spec"]["nodeName"] for each in attachments(store)] == ["b"]


async def test_shared_volume_is_attached_to_both_nodes(store: MeteredStore, clock: FakeClock) -> None:
    fill(store, modes=("ReadWriteMany",))
    for name in "ab":
        store.put(NODES, node(name))
        store.put(PODS, pod(name, on=name))
    controller = Controller(store, clock)
    async with controller.running:
        await controller.settle()
    assert sorted(each["spec"]["nodeName"] for each in attachments(store)) == ["a", "b"]


async def test_nodes_and_drivers_without_attachment_are_left_alone(store: MeteredStore, clock: FakeClock) -> None:
    fill(store)
    store.put(NODES, node(managed=False))
    store.put(PODS, pod())
    controller = Controller(store, clock)
    async with controller.running:
        await controller.settle()
        assert attachments(store) == []
        store.put(DRIVERS, {"metadata": {"name": "d.example"}, "spec": {"attachRequired": False}})
        store.put(NODES, node())
        await controller.settle()
        assert attachments(store) == []


async def test_volume_of_a_deleted_node_is_detached_with_its_last_pod(store: MeteredStore, clock: FakeClock) -> None:
    fill(store)
    store.put(NODES, node(in_use=True))
    store.put(PODS, pod())
    controller = Controller(store, clock)
    async with controller.running:
        await controller.settle()
        attach(store)
        store.remove(NODES, "a")
        await controller.settle()
        assert len(attachments(store)) == 1
        store.remove(PODS, "n/web")
        await controller.settle()
        assert attachments(store) == []


@pytest.mark.parametrize("restarted", [False, True])
async def test_attachment_outlives_a_deleted_volume_until_it_is_unmounted(
    store: MeteredStore, clock: FakeClock, restarted: bool
) -> None:
    fill(store)
    store.put(NODES, node())
    store.put(PODS, pod())
    controller = Controller(store, clock)
    async with controller.running:
        await controller.settle()
        attach(store)
        await controller.settle()
        store.put(NODES, {**node(), "status": {"volumesInUse": [UNIQUE], "volumesAttached": [{"name": UNIQUE}]}})
        await controller.settle()
        if not restarted:
            store.remove(PODS, "n/web")
            store.remove(VOLUMES, "v")
            await controller.settle()
    if restarted:
        store.remove(PODS, "n/web")
        store.remove(VOLUMES, "v")
    controller = Controller(store, clock)
    async with controller.running:
        await controller.settle()
        assert len(attachments(store)) == 1 and listed(store) == [UNIQUE]
        store.put(NODES, {**node(), "status": {"volumesAttached": [{"name": UNIQUE}]}})
        await controller.settle()
        assert attachments(store) == [] and listed(store) == []


async def test_controller_manager_takes_over(store: MeteredStore, clock: FakeClock) -> None:
    fill(store)
    now = clock.wall().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    lease = {"metadata": {"name": "kube-controller-manager", "namespace": "kube-system"}}
    store.put("coordination.k8s.io/leases", {**lease, "spec": {"holderIdentity": "x", "renewTime": now}})
    store.put(NODES, node())
    store.put(PODS, pod())
    controller = Controller(store, clock)
    async with controller.running:
        await controller.settle()
        assert attachments(store) == []
        await clock.advance(61)
        await controller.settle()
        assert len(attachments(store)) == 1


def test_name_of_an_attachment_is_that_of_the_node_agent(store: MeteredStore) -> None:
    from apiserver_stub.controllers.volumes.attachment_state import AttachableVolume
    from nodeagent_plugins.csi.names import attachment_name

    assert AttachableVolume("v", "d.example", "h", shared=False).attachment_name("a") == attachment_name(
        "h", "d.example", "a"
    )


async def test_listed_volumes_of_other_plugins_are_kept(store: MeteredStore, clock: FakeClock) -> None:
    fill(store)
    other = {"name": "kubernetes.io/other/x", "devicePath": "/dev/x"}
    found = node()
    found["status"]["volumesAttached"] = [other, {"name": "kubernetes.io/csi/d.example^gone", "devicePath": ""}]
    store.put(NODES, found)
    store.put(PODS, pod())
    controller = Controller(store, clock)
    async with controller.running:
        await controller.settle()
        attach(store)
        await controller.settle()
        assert listed(store) == [other["name"], UNIQUE]


@pytest.mark.parametrize("late", [VOLUMES, CLAIMS, DRIVERS])
async def test_volume_is_attached_once_all_objects_exist(store: MeteredStore, clock: FakeClock, late: str) -> None:
    fill(store)
    key = {VOLUMES: "v", CLAIMS: "n/c", DRIVERS: "d.example"}[late]
    if late == DRIVERS:
        store.put(DRIVERS, {"metadata": {"name": "d.example"}, "spec": {"attachRequired": False}})
    found = store.read(late, key)
    if late != DRIVERS:
        store.remove(late, key)
    store.put(NODES, node())
    store.put(PODS, pod())
    controller = Controller(store, clock)
    async with controller.running:
        await controller.settle()
        assert attachments(store) == []
        store.put(late, {**found, "spec": {**found["spec"], **({"attachRequired": True} if late == DRIVERS else {})}})
        await controller.settle()
        assert len(attachments(store)) == 1


async def test_volume_is_detached_when_another_pod_replaces_its_pod(store: MeteredStore, clock: FakeClock) -> None:
    fill(store)
    store.put(NODES, node())
    store.put(PODS, pod())
    controller = Controller(store, clock)
    async with controller.running:
        await controller.settle()
        before = len(attachments(store))
        store.put(PODS, {**pod(), "spec": {"nodeName": "a"}})
        await controller.settle()
        assert (before, len(attachments(store))) == (1, 0)


@pytest.mark.parametrize(("reason", "retried"), [("AlreadyExists", False), ("Forbidden", True)])
async def test_rejected_attachment_is_created_again_unless_it_exists(
    store: MeteredStore, clock: FakeClock, reason: str, *, retried: bool
) -> None:
    def reject(collection: str, key: str) -> None:
        if collection == ATTACHMENTS:
            store.before_update = None
            raise ApiError(409, reason, "rejected", {})

    fill(store)
    store.put(NODES, node())
    store.put(PODS, pod())
    store.before_update = reject
    controller = Controller(store, clock)
    async with controller.running:
        await controller.settle()
        await clock.advance(20)
        await rest(store)
        assert (len(attachments(store)) == 1) is retried


@pytest.mark.parametrize("name", ["csi-" + "0" * 64, "other"])
async def test_attachment_of_another_owner_outlives_its_volume(
    store: MeteredStore, clock: FakeClock, name: str
) -> None:
    spec = {"attacher": "d.example", "nodeName": "a", "source": {"persistentVolumeName": "deleted"}}
    store.put(ATTACHMENTS, {"metadata": {"name": name, "uid": name}, "spec": spec})
    store.put(NODES, node())
    controller = Controller(store, clock)
    async with controller.running:
        await controller.settle()

    assert bool(attachments(store)) is (name == "other")
