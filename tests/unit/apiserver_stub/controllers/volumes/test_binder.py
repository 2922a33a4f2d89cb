"""Tests for the controller of claims and persistent volumes."""

from __future__ import annotations

from typing import Any

import pytest

from apiserver_stub.apimachinery.objects import format_time
from apiserver_stub.controllers.volumes.binder import VolumeBinder
from nodeagent.base.identity import Identity
from nodeagent.testing import FakeClock
from tests.unit.apiserver_stub.controllers.harness import MeteredStore, rest, running, store

from .objects import CLAIMS, CLASSES, PODS, VOLUMES, bound_to, claim, events, phase, reference, storage_class, volume

__all__ = ["store"]

LEASES = "coordination.k8s.io/leases"
COMPLETED, BY_CONTROLLER = "pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"
PROVISIONER, SELECTED = "volume.kubernetes.io/storage-provisioner", "volume.kubernetes.io/selected-node"


async def run(store: MeteredStore, clock: FakeClock) -> None:
    async with running(store, VolumeBinder(store, Identity(), 3600, clock).run()):
        await clock.advance(1)
        await rest(store)


async def test_smallest_sufficient_volume_is_bound(store: MeteredStore, clock: FakeClock) -> None:
    store.put(VOLUMES, volume("large", size="8Gi"))
    store.put(VOLUMES, volume("fits", size="2Gi"))
    store.put(VOLUMES, volume("small", size="512Mi"))
    store.put(CLAIMS, claim())
    await run(store, clock)

    assert bound_to(store) == ("Bound", "fits")
    found, bound = store.read(CLAIMS, "n/c"), store.read(VOLUMES, "fits")
    assert found["metadata"]["annotations"] == {COMPLETED: "yes", BY_CONTROLLER: "yes"}
    assert found["status"]["capacity"] == {"storage": "2Gi"} and found["status"]["accessModes"] == ["ReadWriteOnce"]
    assert bound["spec"]["claimRef"]["uid"] == "uid-c" and bound["metadata"]["annotations"] == {BY_CONTROLLER: "yes"}
    assert [phase(store, name) for name in ("large", "fits", "small")] == ["Available", "Bound", "Available"]


@pytest.mark.parametrize(
    "spec",
    [
        {"storageClassName": "other"},
        {"volumeMode": "Block"},
        {"modes": ("ReadWriteMany",)},
        {"size": "2Gi"},
        {"selector": {"matchLabels": {"disk": "ssd"}}},
    ],
)
async def test_volume_that_does_not_match_is_not_bound(
    store: MeteredStore, clock: FakeClock, spec: dict[str, Any]
) -> None:
    store.put(VOLUMES, volume())
    store.put(CLAIMS, claim(**spec))
    await run(store, clock)

    assert bound_to(store) == ("Pending", None) and phase(store) == "Available"


async def test_two_claims_never_share_a_volume(store: MeteredStore, clock: FakeClock) -> None:
    store.put(VOLUMES, volume())
    store.put(CLAIMS, claim("a"))
    store.put(CLAIMS, claim("b"))
    await run(store, clock)

    assert sorted([bound_to(store, "a")[0], bound_to(store, "b")[0]]) == ["Bound", "Pending"]


async def test_reserved_volume_is_bound_to_its_claim_only(store: MeteredStore, clock: FakeClock) -> None:
    store.put(VOLUMES, volume(claimRef=reference("mine")))
    store.put(CLAIMS, claim("a"))
    store.put(CLAIMS, claim("mine"))
    await run(store, clock)

    assert bound_to(store, "a")[0] == "Pending" and bound_to(store, "mine") == ("Bound", "v")
    assert "annotations" not in store.read(VOLUMES, "v")["metadata"]


async def test_requested_volume_must_satisfy_the_claim(store: MeteredStore, clock: FakeClock) -> None:
    store.put(VOLUMES, volume())
    store.put(CLAIMS, claim("big", size="2Gi", volumeName="v"))
    await run(store, clock)

    assert bound_to(store, "big")[0] == "Pending"
    note = 'Cannot bind to requested volume "v": requested PV is too small'
    assert events(store) == [("big", "VolumeMismatch", note)]


async def test_taken_volume_is_reported_to_the_claim_that_requests_it(store: MeteredStore, clock: FakeClock) -> None:
    store.put(VOLUMES, volume(claimRef=reference("other")))
    store.put(CLAIMS, claim(volumeName="v"))
    await run(store, clock)

    assert events(store) == [("c", "FailedBinding", 'volume "v" already bound to a different claim.')]


async def test_claim_without_class_and_volume_is_reported(store: MeteredStore, clock: FakeClock) -> None:
    store.put(CLAIMS, claim(storageClassName=""))
    await run(store, clock)

    note = "no persistent volumes available for this claim and no storage class is set"
    assert events(store) == [("c", "FailedBinding", note)]


async def test_default_class_is_assigned_to_earlier_claims(store: MeteredStore, clock: FakeClock) -> None:
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    store.put(CLASSES, storage_class("standard", annotations=annotations))
    store.put(CLAIMS, claim())
    await run(store, clock)

    assert store.read(CLAIMS, "n/c")["spec"]["storageClassName"] == "standard"


@pytest.mark.parametrize(
    ("pods", "reason", "note"),
    [
        ([], "WaitForFirstConsumer", "waiting for first consumer to be created before binding"),
        (["web"], "WaitForPodScheduled", "waiting for pod web to be scheduled"),
        (["b", "a"], "WaitForPodScheduled", "waiting for pods a,b to be scheduled"),
    ],
)
async def test_delayed_claim_waits_for_a_pod(
    store: MeteredStore, clock: FakeClock, pods: list[str], reason: str, note: str
) -> None:
    store.put(CLASSES, storage_class("slow"))
    store.put(VOLUMES, volume(storageClassName="slow"))
    for name in pods:
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
        store.put(PODS, {"metadata": {"name": name, "namespace": "n", "uid": name}, "spec": {"volumes": volumes}})
    store.put(CLAIMS, claim(storageClassName="slow"))
    await run(store, clock)

    assert bound_to(store) == ("Pending", None)
    assert (events(store)[-1]) == ("c", reason, note)


async def test_provisioner_is_requested_once_a_node_is_selected(store: MeteredStore, clock: FakeClock) -> None:
    store.put(CLASSES, storage_class("slow"))
    store.put(CLAIMS, claim(storageClassName="slow", annotations={SELECTED: "n1"}))
    await run(store, clock)

    assert store.read(CLAIMS, "n/c")["metadata"]["annotations"][PROVISIONER] == "example.com/p"
    assert events(store)[0][1] == "ExternalProvisioning" and "provisioner 'example.com/p'" in events(store)[0][2]


@pytest.mark.parametrize(
    ("classes", "note"),
    [
        ([], 'storageclass.storage.k8s.io "x" not found'),
        ([storage_class("x", "kubernetes.io/no-provisioner", delayed=False)],
         "no volume plugin matched name: kubernetes.io/no-provisioner"),
    ],
)  # fmt: skip
async def test_class_that_cannot_provision_is_reported(
    store: MeteredStore, clock: FakeClock, classes: list[dict[str, Any]], note: str
) -> None:
    for each in classes:
        store.put(CLASSES, each)
    store.put(CLAIMS, claim(storageClassName="x"))
    await run(store, clock)

    assert events(store) == [("c", "ProvisioningFailed", note)]


async def test_claim_is_lost_with_its_volume(store: MeteredStore, clock: FakeClock) -> None:
    store.put(CLAIMS, claim(volumeName="gone", annotations={COMPLETED: "yes"}))
    await run(store, clock)

    assert bound_to(store)[0] == "Lost"
    note = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
    assert events(store) == [("c", "ClaimLost", note)]


@pytest.mark.parametrize(
    ("policy", "then", "reason"),
    [
        ("Retain", "Released", None),
        ("Delete", "Failed", "VolumeFailedDelete"),
        ("Recycle", "Failed", "VolumeFailedRecycle"),
    ],
)
async def test_volume_of_a_deleted_claim_is_released(
    store: MeteredStore, clock: FakeClock, policy: str, then: str, reason: str | None
) -> None:
    reserved = reference("c", "uid-old")
    store.put(VOLUMES, volume(phase="Bound", claimRef=reserved, persistentVolumeReclaimPolicy=policy))
    store.put(CLAIMS, claim())
    await run(store, clock)

    assert phase(store) == then and bound_to(store)[0] == "Pending"
    assert [item[1] for item in events(store) if item[0] == "v"] == ([reason] if reason else [])
    assert store.read(VOLUMES, "v")["spec"]["claimRef"] == reserved


async def test_claim_of_another_server_is_awaited_before_a_release(
    store: MeteredStore, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def catch_up(name: str, revision: int = 0) -> bool:
        if name == CLAIMS and store.read(CLAIMS, "n/c") is None:
            store.put(CLAIMS, claim(volumeName="v", annotations={COMPLETED: "yes"}))
        return True

    monkeypatch.setattr(store, "catch_up", catch_up)
    store.put(VOLUMES, volume(phase="Bound", claimRef=reference("c", "uid-c")))
    phases = []
    store.before_update = lambda name, key: phases.append(phase(store)) if name == VOLUMES else None
    await run(store, clock)

    assert set(phases) | {phase(store)} == {"Bound"} and bound_to(store) == ("Bound", "v")


async def test_volume_of_a_provisioner_is_left_to_it(store: MeteredStore, clock: FakeClock) -> None:
    metadata = {"annotations": {"pv.kubernetes.io/provisioned-by": "example.com/p"}}
    reserved = reference("c", "uid-c")
    store.put(VOLUMES, volume(metadata=metadata, claimRef=reserved, persistentVolumeReclaimPolicy="Delete"))
    await run(store, clock)

    assert phase(store) == "Released" and events(store) == []


async def test_reservation_is_undone_when_the_claim_is_bound_elsewhere(store: MeteredStore, clock: FakeClock) -> None:
    metadata = {"annotations": {BY_CONTROLLER: "yes"}}
    store.put(VOLUMES, volume("unused", metadata=metadata, claimRef=reference("c", "uid-c")))
    store.put(VOLUMES, volume("v", claimRef=reference("c", "uid-c")))
    store.put(CLAIMS, claim(volumeName="v", annotations={COMPLETED: "yes"}))
    await run(store, clock)

    assert (phase(store, "unused"), phase(store, "v"), bound_to(store)) == ("Available", "Bound", ("Bound", "v"))
    assert "claimRef" not in store.read(VOLUMES, "unused")["spec"]


async def test_controller_manager_replaces_the_controller(store: MeteredStore, clock: FakeClock) -> None:
    spec = {"holderIdentity": "kcm", "renewTime": format_time(clock.wall())}
    metadata = {"name": "kube-controller-manager", "namespace": "kube-system"}
    store.put(LEASES, {"metadata": metadata, "spec": spec})
    store.put(VOLUMES, volume())
    store.put(CLAIMS, claim())
    async with running(store, VolumeBinder(store, Identity(), 3600, clock).run()):
        await clock.advance(30)
        assert bound_to(store) == ("Pending", None)
        await clock.advance(120)
        await rest(store)

    assert bound_to(store) == ("Bound", "v")


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        ({"a": {"at": "2024-01-01T00:00:00Z"}, "b": {"at": "2024-01-02T00:00:00Z"}}, "b"),
        ({"b": {"at": "2024-01-01T00:00:00Z"}, "a": {"at": "2024-01-01T00:00:00Z"}}, "a"),
        ({"a": {"at": "2024-01-01T00:00:00Z"}, "b": {"at": "2024-01-02T00:00:00Z", "default": "false"}}, "a"),
        ({"a": {"at": "2024-01-01T00:00:00Z", "default": "yes"}}, None),
        ({}, None),
    ],
)
async def test_latest_default_class_is_assigned(
    store: MeteredStore, clock: FakeClock, classes: dict[str, dict[str, str]], expected: str | None
) -> None:
    for name, fields in classes.items():
        annotations = {"storageclass.kubernetes.io/is-default-class": fields.get("default", "true")}
        item = storage_class(name, annotations=annotations)
        item["metadata"]["creationTimestamp"] = fields["at"]
        store.put(CLASSES, item)
    store.put(CLAIMS, claim())
    store.put(CLAIMS, claim("without", storageClassName=""))
    store.put(CLAIMS, claim("beta", annotations={"volume.beta.kubernetes.io/storage-class": "x"}))
    await run(store, clock)

    assert store.read(CLAIMS, "n/c")["spec"].get("storageClassName") == expected
    assert store.read(CLAIMS, "n/without")["spec"]["storageClassName"] == ""
    assert "storageClassName" not in store.read(CLAIMS, "n/beta")["spec"]


async def test_later_default_class_is_assigned_to_waiting_claims(store: MeteredStore, clock: FakeClock) -> None:
    async with running(store, VolumeBinder(store, Identity(), 3600, clock).run()):
        store.put(CLAIMS, claim())
        await rest(store)
        annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
        store.put(CLASSES, storage_class("standard", annotations=annotations))
        await rest(store)

    assert store.read(CLAIMS, "n/c")["spec"]["storageClassName"] == "standard"


async def test_deletion_of_one_side_is_seen_by_the_other(store: MeteredStore, clock: FakeClock) -> None:
    async with running(store, VolumeBinder(store, Identity(), 3600, clock).run()):
        for name in ("a", "b"):
            store.put(VOLUMES, volume(f"v-{name}"))
            store.put(CLAIMS, claim(name, volumeName=f"v-{name}"))
        await rest(store)
        before = [bound_to(store, name)[0] for name in ("a", "b")]
        store.remove(VOLUMES, "v-a")
        store.remove(CLAIMS, "n/b")
        await clock.advance(1)
        await rest(store)
        lost, released = bound_to(store, "a")[0], phase(store, "v-b")
        found = events(store)
    assert (before, lost, released) == (["Bound", "Bound"], "Lost", "Released")
    assert ("a", "ClaimLost") in [(name, reason) for name, reason, _ in found]


async def test_deleted_class_is_not_found_by_later_claims(store: MeteredStore, clock: FakeClock) -> None:
    async with running(store, VolumeBinder(store, Identity(), 3600, clock).run()):
        store.put(CLASSES, storage_class("fast", delayed=False))
        await rest(store)
        store.remove(CLASSES, "fast")
        store.put(CLAIMS, claim(storageClassName="fast"))
        await rest(store)
        found = events(store)
    assert ("c", "ProvisioningFailed", 'storageclass.storage.k8s.io "fast" not found') in found


async def test_claim_waits_for_the_pods_that_are_left(store: MeteredStore, clock: FakeClock) -> None:
    def user(name: str, **fields: Any) -> dict[str, Any]:
        volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]
        metadata = {"name": name, "namespace": "n", "uid": name}
        return {"metadata": metadata, "spec": {"volumes": volumes, **fields.pop("spec", {})}, **fields}

    async with running(store, VolumeBinder(store, Identity(), 3600, clock).run()):
        store.put(CLASSES, storage_class("slow"))
        store.put(PODS, user("scheduled", spec={"nodeName": "a"}))
        store.put(PODS, user("finished", status={"phase": "Failed"}))
        for name in ("a", "b"):
            store.put(PODS, user(name))
        store.put(CLAIMS, claim(storageClassName="slow"))
        await rest(store)
        first = events(store)[-1][2]
        store.remove(PODS, "n/a")
        store.put(CLAIMS, claim(storageClassName="slow", annotations={"x": "y"}))
        await rest(store)
        notes = {note for _, _, note in events(store)}
    assert first == "waiting for pods a,b to be scheduled"
    assert "waiting for pod b to be scheduled" in notes


async def test_claim_that_is_bound_to_another_volume_is_not_changed(store: MeteredStore, clock: FakeClock) -> None:
    store.put(VOLUMES, volume(claimRef=reference("c", "uid-c")))
    bound = claim(volumeName="other", annotations={COMPLETED: "yes"})
    bound["status"] = {"phase": "Bound", "capacity": {"storage": "9Gi"}}
    store.put(CLAIMS, bound)
    store.put(VOLUMES, volume("other", claimRef=reference("c", "uid-c"), phase="Bound"))
    await run(store, clock)

    found = store.read(CLAIMS, "n/c")
    assert (found["spec"]["volumeName"], found["status"]["capacity"]) == ("other", {"storage": "9Gi"})


@pytest.mark.parametrize(
    ("provisioner", "expected"),
    [
        ("kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
        ("kubernetes.io/unknown", None),
        ("kubernetes.io/no-provisioner", None),
        ("example.com/p", "example.com/p"),
    ],
)
async def test_provisioner_of_a_former_plugin_is_its_driver(
    store: MeteredStore, clock: FakeClock, provisioner: str, expected: str | None
) -> None:
    store.put(CLASSES, storage_class("fast", provisioner, delayed=False))
    store.put(CLAIMS, claim(storageClassName="fast"))
    await run(store, clock)

    assert store.read(CLAIMS, "n/c")["metadata"]["annotations"].get(PROVISIONER) == expected
    reasons = [reason for _, reason, _ in events(store)]
    assert ("ExternalProvisioning" in reasons) is (expected is not None)


@pytest.mark.parametrize(
    ("provisioned", "policy", "expected"),
    [(True, "Delete", "Released"), (True, "Retain", "Available"), (False, "Delete", "Available")],
)
async def test_volume_of_a_claim_that_is_bound_elsewhere_is_free(
    store: MeteredStore, clock: FakeClock, *, provisioned: bool, policy: str, expected: str
) -> None:
    annotations = {"pv.kubernetes.io/provisioned-by": "example.com/p"} if provisioned else {}
    bound = reference("c", "uid-c")
    metadata = {"annotations": annotations}
    store.put(VOLUMES, volume("v", claimRef=bound, persistentVolumeReclaimPolicy=policy, metadata=metadata))
    store.put(VOLUMES, volume("other", claimRef=bound))
    store.put(CLAIMS, claim(volumeName="other", annotations={COMPLETED: "yes"}))
    await run(store, clock)
    assert phase(store) == expected
    assert "uid" not in store.read(VOLUMES, "v")["spec"].get("claimRef", {}) or expected == "Released"


@pytest.mark.parametrize(("mode", "reported"), [("Block", True), ("Filesystem", False)])
async def test_reserved_volume_of_another_mode_is_reported(
    store: MeteredStore, clock: FakeClock, mode: str, *, reported: bool
) -> None:
    store.put(VOLUMES, volume(claimRef=reference("c", "uid-c"), volumeMode=mode))
    store.put(CLAIMS, claim(size="2Gi"))
    await run(store, clock)
    found = [(name, reason) for name, reason, note in events(store) if note.endswith("incompatible volumeMode.")]
    assert ({("c", "VolumeMismatch"), ("v", "VolumeMismatch")} <= set(found)) is reported
