"""Tests for the CSI kind: names, attachment, expansion, figures, and its contract."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent.base.plugin_rpc import connect
from nodeagent.contracts.api import VOLUME_ATTACHMENTS
from nodeagent.contracts.persistent_volumes import (
    AttachableVolumeKind,
    BlockVolumeKind,
    DeviceVolumeKind,
    ExpandableVolumeKind,
    MeasuredVolumeKind,
    NodeAttachedVolumeKind,
    VolumeFigures,
    VolumeSpec,
)
from nodeagent.errors import ApiError, ApiUnavailable, TransientVolumeError, UncertainVolumeError, VolumeError
from nodeagent.model.pod import Volume
from nodeagent.testing.context import make_config
from nodeagent.testing.contracts import PersistentVolumeKindContract
from nodeagent.testing.pods import make_pod
from nodeagent_plugins.csi import driver_objects, drivers
from nodeagent_plugins.csi.attachments import MANAGED_BY, MANAGER
from nodeagent_plugins.csi.driver_objects import DriverObjects, check_lifecycle
from nodeagent_plugins.csi.names import attachment_name, inline_handle
from nodeagent_plugins.csi.selinux import needs_relabel
from nodeagent_plugins.csi.sources import pod_information
from tests.csi_driver.service import CONDITION, EXPAND, STAGE, STATS


class TestCsiVolumes(PersistentVolumeKindContract):
    @pytest.fixture
    async def kind(self, make_harness):
        self.harness = await make_harness(capabilities=())
        return self.harness.kind

    @pytest.fixture
    def spec(self, kind):
        return self.harness.spec()


async def test_kind_implements_each_protocol(harness):
    protocols = DeviceVolumeKind, AttachableVolumeKind, BlockVolumeKind, ExpandableVolumeKind, MeasuredVolumeKind
    for protocol in (*protocols, NodeAttachedVolumeKind):
        assert isinstance(harness.kind, protocol)
    assert harness.kind.plugin_name(harness.spec()) == "kubernetes.io/csi:test.csi.example"
    assert not harness.kind.supports(VolumeSpec("data", Volume(name="data")))


# --- attachment ---------------------------------------------------------------------------------------------------


async def test_attachment_follows_the_driver_object(harness):
    assert not await harness.kind.attachable(harness.spec())
    assert await harness.kind.wait_for_attach(harness.spec(), "") == ""
    harness.put_driver(attachRequired=True)
    await harness.context.clock.settle()
    assert await harness.kind.attachable(harness.spec())


async def test_driver_without_object_requires_attachment(harness):
    harness.api.remove(_drivers(), "test.csi.example")
    await harness.context.clock.settle()
    assert await harness.kind.attachable(harness.spec())


@pytest.mark.parametrize(
    ("status", "metadata", "message"),
    [
        ({"attached": False}, {}, "volume volume-1 is not attached for volume attachment {name}"),
        ({"attached": False, "attachError": {"message": "no free slot"}}, {}, "no free slot"),
        ({"attached": True}, {"deletionTimestamp": "2024-01-01T00:00:00Z"}, "volume attachment is being deleted"),
    ],
)
async def test_unattached_volume_is_reported(harness, status, metadata, message):
    harness.put_driver(attachRequired=True)
    await harness.context.clock.settle()
    name = attachment_name("volume-1", "test.csi.example", "node-1")
    harness.api.put(VOLUME_ATTACHMENTS, {"metadata": {"name": name, **metadata}, "status": status})

    with pytest.raises(TransientVolumeError) as raised:
        await harness.kind.wait_for_attach(harness.spec(), "")

    assert str(raised.value) == message.format(name=name)


async def test_attached_volume_has_the_name_of_its_attachment(harness):
    harness.put_driver(attachRequired=True)
    await harness.context.clock.settle()
    with pytest.raises(VolumeError, match="volume volume-1 has GET error for volume attachment csi-"):
        await harness.kind.wait_for_attach(harness.spec(), "")

    assert harness.attach() == await harness.kind.wait_for_attach(harness.spec(), "")


async def attaching(harness):
    """Make the node request attachments itself."""
    harness.put_driver(attachRequired=True)
    await harness.context.clock.settle()
    harness.context.config = make_config(enable_controller_attach_detach=False)


@pytest.mark.row("config.enableControllerAttachDetach")
async def test_node_requests_and_deletes_the_attachment_without_a_controller(harness):
    await attaching(harness)
    with pytest.raises(TransientVolumeError, match="volume volume-1 is not attached for volume attachment csi-"):
        await harness.kind.wait_for_attach(harness.spec(), "")

    (created,) = harness.api.all(VOLUME_ATTACHMENTS)
    assert created["metadata"]["name"] == attachment_name("volume-1", "test.csi.example", "node-1")
    source = {"persistentVolumeName": "pv-1"}
    assert created["spec"] == {"attacher": "test.csi.example", "nodeName": "node-1", "source": source}
    name = harness.kind.unique_name(harness.spec())
    assert await harness.kind.attachments() == [name]
    harness.api.put(VOLUME_ATTACHMENTS, {**created, "status": {"attached": True}})
    assert await harness.kind.wait_for_attach(harness.spec(), "") == created["metadata"]["name"]
    for _ in range(2):
        await harness.kind.detach(name)
    assert harness.api.all(VOLUME_ATTACHMENTS) == []
    assert len(harness.api.made("delete")) == 1


async def test_attachments_of_others_are_not_adopted(harness):
    await attaching(harness)
    harness.attach()
    foreign = {"name": "csi-other", "labels": {MANAGED_BY: MANAGER}}
    foreign["annotations"] = {"csi.volume.kubernetes.io/volume-handle": "volume-1"}
    harness.api.put(
        VOLUME_ATTACHMENTS, {"metadata": foreign, "spec": {"attacher": "test.csi.example", "nodeName": "node-2"}}
    )
    assert await harness.kind.attachments() == []


@pytest.mark.parametrize(
    ("verb", "call"),
    [
        ("create", lambda kind, spec: kind.wait_for_attach(spec, "")),
        ("list", lambda kind, spec: kind.attachments()),
        ("delete", lambda kind, spec: kind.detach(kind.unique_name(spec))),
    ],
)
async def test_missing_permission_is_named(harness, verb, call):
    await attaching(harness)
    if verb == "delete":
        harness.attach()
    harness.api.fail(verb, ApiError("forbidden", code=403))

    with pytest.raises(VolumeError, match=f"failed to {verb} volume attachment.*: forbidden; with enableController"):
        await call(harness.kind, harness.spec())


async def test_unreadable_attachment_is_not_requested(harness):
    await attaching(harness)
    harness.api.fail("get", ApiUnavailable("unavailable"), times=2)
    with pytest.raises(TransientVolumeError, match="has GET error for volume attachment"):
        await harness.kind.wait_for_attach(harness.spec(), "")
    with pytest.raises(VolumeError, match="failed to read volume attachment"):
        await harness.kind.detach(harness.kind.unique_name(harness.spec()))
    assert harness.api.all(VOLUME_ATTACHMENTS) == []


async def test_republish_follows_the_driver_object(harness):
    assert not await harness.kind.needs_refresh(harness.spec())
    harness.put_driver(requiresRepublish=True)
    await harness.context.clock.settle()
    assert await harness.kind.needs_refresh(harness.spec())


# --- expansion ----------------------------------------------------------------------------------------------------


async def mounted(harness, spec=None):
    request = harness.request(spec)
    await harness.kind.mount_device(request)
    await harness.kind.mount(request)
    return harness.on_disk(request)


async def test_volume_is_expanded_at_its_target_path(make_harness):
    harness = await make_harness(capabilities=[STAGE, EXPAND])
    spec = harness.spec(fs_type="xfs")
    volume = await mounted(harness, spec)

    assert await harness.kind.expand(volume, spec, 5 << 20)

    call = harness.call("NodeExpandVolume")
    assert call["capacity_range"] == {"required_bytes": str(5 << 20)}
    assert call["volume_path"] == str(volume.directory / "mount")
    assert call["staging_target_path"].endswith("/globalmount")
    assert harness.storage.size("volume-1") == 5 << 20


async def test_driver_without_expansion_returns_false(harness):
    assert not await harness.kind.expand(await mounted(harness), harness.spec(), 1)


@pytest.mark.parametrize(
    ("code", "release", "kind", "reason"),
    [
        ("FAILED_PRECONDITION", (1, 29), VolumeError, "InUse"),
        ("INVALID_ARGUMENT", (1, 32), VolumeError, "Infeasible"),
        ("OUT_OF_RANGE", (1, 32), VolumeError, "Infeasible"),
        ("NOT_FOUND", (1, 32), VolumeError, "Infeasible"),
        ("INVALID_ARGUMENT", (1, 29), VolumeError, "FailedMount"),
        ("INTERNAL", (1, 32), VolumeError, "FailedMount"),
        ("UNAVAILABLE", (1, 32), UncertainVolumeError, "FailedMount"),
    ],
)
async def test_failed_expansion_has_a_reason(make_harness, code, release, kind, reason):
    harness = await make_harness(capabilities=[STAGE, EXPAND], release=release)
    volume = await mounted(harness)
    harness.faults.set("NodeExpandVolume", code=code)

    with pytest.raises(VolumeError, match=r"Expander\.NodeExpand failed to expand the volume") as raised:
        await harness.kind.expand(volume, harness.spec(), 1)

    assert type(raised.value) is kind and raised.value.reason == reason


# --- figures ------------------------------------------------------------------------------------------------------


async def test_figures_of_the_driver_are_returned(make_harness):
    harness = await make_harness(capabilities=[STAGE, STATS, CONDITION])
    harness.service.condition = (True, "disk is failing")
    volume = await mounted(harness)

    figures = await harness.kind.measure(volume, harness.spec())

    assert figures == VolumeFigures(available=60, capacity=100, used=40, inodes=10, inodes_free=6, inodes_used=4)
    assert harness.call("NodeGetVolumeStats")["volume_path"] == str(volume.directory / "mount")
    harness.service.usage = harness.service.usage[:1]
    figures = await harness.kind.measure(volume, harness.spec())
    assert figures.inodes == figures.inodes_free == 0


async def test_concurrent_measurements_share_a_connection(make_harness, monkeypatch):
    harness = await make_harness(capabilities=[STAGE, STATS])
    volume, opened = await mounted(harness), []
    monkeypatch.setattr(drivers, "connect", lambda *args: opened.append(args) or connect(*args))

    figures = await asyncio.gather(*(harness.kind.measure(volume, harness.spec()) for _ in range(5)))
    assert [each.used for each in figures] == [40] * 5 and len(opened) == 1
    await harness.kind.measure(volume, harness.spec())
    assert len(opened) == 2


async def test_inline_volume_is_measured_by_its_handle(make_harness):
    harness = await make_harness(capabilities=[STATS])
    harness.put_driver(attachRequired=False, fsGroupPolicy="None", volumeLifecycleModes=["Ephemeral"])
    await harness.context.clock.settle()
    request = harness.request(harness.inline())
    await harness.kind.mount(request)

    await harness.kind.measure(harness.on_disk(request), harness.inline())

    assert harness.call("NodeGetVolumeStats")["volume_id"] == inline_handle(request.pod.uid, "data")


async def test_health_is_returned_if_the_gate_is_enabled(make_harness):
    harness = await make_harness(capabilities=[STAGE, STATS, CONDITION], release=(1, 32))
    harness.context.gates = make_gates(CSIVolumeHealth=True)
    harness.service.condition, harness.service.usage = (True, "disk is failing"), []

    figures = await harness.kind.measure(await mounted(harness), harness.spec())

    assert figures.abnormal and figures.message == "disk is failing"


async def test_driver_without_figures_is_not_measured(make_harness):
    harness = await make_harness()
    volume = await mounted(harness)
    assert await harness.kind.measure(volume, harness.spec()) is None
    harness.drivers.find("test.csi.example").capabilities = None
    harness.service.capabilities, harness.service.usage = [STATS], []
    with pytest.raises(VolumeError, match=r"^failed to get usage from response\. usage is nil$"):
        await harness.kind.measure(volume, harness.spec())


async def test_capabilities_are_queried_once_per_registration(harness):
    await mounted(harness)
    assert len(harness.storage.calls("NodeGetCapabilities")) == 1
    harness.register()
    await harness.kind.mount(harness.request())
    assert len(harness.storage.calls("NodeGetCapabilities")) == 2


def test_relabel_is_required_for_mounts_with_labels(tmp_path):
    enabled, table = tmp_path / "enforce", tmp_path / "mountinfo"
    lines = "30 1 0:1 / {path} rw shared:1 - ext4 /dev/sda rw,{options}\n"
    table.write_text(lines.format(path=tmp_path, options="seclabel"))
    assert not needs_relabel(tmp_path, enabled=enabled, table=table)
    enabled.touch()
    assert needs_relabel(tmp_path, enabled=enabled, table=table)
    table.write_text(lines.format(path=tmp_path, options="context=x"))
    assert not needs_relabel(tmp_path, enabled=enabled, table=table)


def make_gates(**gates):
    from nodeagent.config.features import build_gates

    return build_gates(make_config(feature_gates=gates).feature_gates)


def _drivers():
    from nodeagent.contracts.api import CSI_DRIVERS

    return CSI_DRIVERS


@pytest.mark.parametrize("label", [True, False, None])
async def test_mounts_with_a_label_follow_the_driver_object(harness, label):
    harness.put_driver(seLinuxMount=label)
    await harness.context.clock.settle()

    assert await harness.kind.supports_label(harness.spec()) is (label is True)
    assert not await harness.kind.supports_label(harness.inline())
    harness.api.remove(_drivers(), "test.csi.example")
    await harness.context.clock.settle()
    assert not await harness.kind.supports_label(harness.spec())


async def test_inline_volume_needs_a_driver_object():
    check_lifecycle(None, "d", "Persistent")

    with pytest.raises(TransientVolumeError, match=r'"Ephemeral" not supported by driver d \(no CSIDriver object\)$'):
        check_lifecycle(None, "d", "Ephemeral")


async def test_driver_objects_are_awaited_until_they_are_listed(harness, monkeypatch):
    monkeypatch.setattr(driver_objects, "_SYNC_SECONDS", 0.001)
    clock = harness.context.clock

    assert await DriverObjects(None, clock).find("d") is None
    with pytest.raises(TransientVolumeError, match="have not been listed yet"):
        await DriverObjects(harness.api, clock).find("d")


@pytest.mark.parametrize(("capabilities", "release"), [([STAGE, STATS], (1, 32)), ([STAGE, STATS, CONDITION], (1, 31))])
async def test_usage_is_required_of_a_volume_that_is_not_known_to_be_healthy(make_harness, capabilities, release):
    harness = await make_harness(capabilities=capabilities, release=release)
    harness.context.gates = make_gates(CSIVolumeHealth=True)
    harness.service.usage = []

    with pytest.raises(VolumeError, match="usage is nil"):
        await harness.kind.measure(await mounted(harness), harness.spec())


@pytest.mark.parametrize(
    ("spec", "account"),
    [({"service_account_name": "new", "service_account": "old"}, "new"), ({"service_account": "old"}, "old"), ({}, "")],
)
def test_driver_gets_the_service_account_of_the_pod(spec, account):
    pod = make_pod(**spec)

    assert pod_information(pod, ephemeral=False)["csi.storage.k8s.io/serviceAccount.name"] == account


async def test_attachment_of_another_volume_is_not_adopted(harness):
    await attaching(harness)
    name, spec = attachment_name("volume-1", "test.csi.example", "node-1"), {"attacher": "test.csi.example"}
    found = {
        name: ({}, "volume-1", "node-1"),
        "csi-other": ({}, "volume-2", "node-1"),
    }
    for each, (_, handle, node) in found.items():
        metadata = {"name": each, "labels": {MANAGED_BY: MANAGER}}
        metadata["annotations"] = {"csi.volume.kubernetes.io/volume-handle": handle}
        harness.api.put(VOLUME_ATTACHMENTS, {"metadata": metadata, "spec": {**spec, "nodeName": node}})

    assert await harness.kind.attachments() == [harness.kind.unique_name(harness.spec())]
