"""Tests for operations on volumes: events, and the states after certain, transient and uncertain failures."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from nodeagent.contracts.api import NODES, PERSISTENT_VOLUME_CLAIMS
from nodeagent.contracts.persistent_volumes import MOUNT_OPTIONS, MountRequest, VolumeSpec
from nodeagent.contracts.storage_operations import OPERATIONS
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import TransientVolumeError, VolumeError
from nodeagent.model.persistent_volume import VolumeNodeAffinity
from nodeagent.model.pod import Pod, Volume
from nodeagent.testing import FakeApi, FakeClock, FakeVolumeKind, make_container, make_pod
from nodeagent.testing.context import make_config
from nodeagent.testing.persistent_volumes import FakeClaims, uncertain
from nodeagent_plugins.volumes import mount_operations
from nodeagent_plugins.volumes.metrics import MOUNT_SECONDS, UNMAP_DEVICE
from nodeagent_plugins.volumes.mount_operations import GID_ANNOTATION, attached_path, check_unused, supplemental_group

from .host import Host, claim_pod, running

NAME = "kubernetes.io/fake/fake.example^data"


@pytest.fixture
async def host(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Host]:
    async with running(tmp_path, clock) as host:
        yield host


@pytest.fixture
async def attached(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Host]:
    async with running(tmp_path, clock, FakeApi(clock), attach=True) as host:
        yield host


@pytest.fixture
async def attaching(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Host]:
    """Return a node that requests attachments itself."""
    config = make_config(enable_controller_attach_detach=False)
    async with running(tmp_path, clock, FakeApi(clock), attach=True, config=config) as host:
        yield host


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (uncertain(), ["unmount_device"]),
        (VolumeError("rpc error: code = InvalidArgument desc = no"), []),
        (TransientVolumeError("driver name fake.example not found"), []),
    ],
)
async def test_stage_of_a_deleted_pod_is_undone_only_if_uncertain(
    host: Host, error: VolumeError, calls: list[str]
) -> None:
    host.kind.fail("mount_device", error)
    task = await host.begin(claim_pod())
    task.cancel()
    await host.end(claim_pod())
    await host.clock.advance(1)
    assert host.methods == calls and host.manager.states() == []


async def test_uncertain_mount_is_repeated_without_staging_again(host: Host) -> None:
    host.kind.fail("mount.after", uncertain("rpc error: code = Unavailable desc = restart"))
    task = await host.begin(claim_pod())
    assert host.manager.states()[0].phase == "Uncertain"
    await host.clock.advance(0.5)
    assert task.done() and host.methods == ["mount_device", "mount", "mount"]


async def test_single_pod_access_mode_waits_for_the_other_pod(host: Host) -> None:
    host.claims.add("data", access_modes=["ReadWriteOncePod"])
    first, second = claim_pod("a"), claim_pod("b")
    await (await host.begin(first))
    task = await host.begin(second)
    assert host.recorder.of("FailedMount")[0].note == (
        'MountVolume.SetUp failed for volume "pv-data" : volume uses the ReadWriteOncePod access mode and is already '
        "in use by another pod"
    )
    await host.end(first)
    await host.clock.advance(1)
    assert task.done() and host.methods.count("unmount_device") == 0


async def test_pv_with_group_and_affinity(host: Host) -> None:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
    affinity = VolumeNodeAffinity(required={"nodeSelectorTerms": terms})
    host.claims.add("data", annotations={"pv.beta.kubernetes.io/gid": "42"}, node_affinity=affinity)
    task = await host.begin(claim_pod())
    assert host.recorder.of("FailedMount")[0].note == (
        'MountVolume.NodeAffinity check failed for volume "pv-data" : no matching NodeSelectorTerms'
    )
    host.node["metadata"]["labels"] = {"zone": "a"}
    await host.clock.advance(1)
    assert (await task)["v"].supplemental_group == 42


async def test_cached_node_does_not_suffice_for_a_mount(attached: Host) -> None:
    host = attached
    await host.begin(claim_pod())
    host.report()
    assert host.api is not None
    host.api.put(NODES, {"metadata": {"name": "node-1"}, "status": {"volumesInUse": [NAME]}})
    await host.clock.advance(0.4)
    assert host.methods == []
    assert host.manager.states()[0].error == "Volume not attached according to node status"
    host.report()
    await host.clock.advance(0.5)
    assert host.methods == ["mount_device", "mount"]


async def test_unsupported_mount_options_have_their_own_event_text(host: Host) -> None:
    host.kind.fail("mount", VolumeError("mount options are not supported for this volume type", reason=MOUNT_OPTIONS))
    await host.begin(claim_pod())
    assert host.recorder.of("FailedMount")[0].note == (
        'MountVolume.MountOptionSupport check failed for volume "pv-data" : mount options are not supported for this '
        "volume type"
    )


async def test_devices_of_blocks_are_unmapped(host: Host) -> None:
    host.claims.add("data", block=True)
    pod = block_pod()
    await (await host.begin(pod))
    labels = ("kubernetes.io/fake:fake.example", UNMAP_DEVICE, "success", "false")
    before = OPERATIONS.count(*labels)
    await host.end(pod)
    await host.clock.advance(0)
    assert host.methods[-1] == "unmount_device" and OPERATIONS.count(*labels) == before + 1


def test_device_in_use_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def busy(path: str, flags: int) -> int:
        assert flags & os.O_EXCL
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), path)

    for path in ("", "csi-1234", str(tmp_path), str(tmp_path / "missing")):
        check_unused(path)
    monkeypatch.setattr("nodeagent_plugins.volumes.mount_operations.stat.S_ISBLK", lambda mode: True)
    monkeypatch.setattr("nodeagent_plugins.volumes.mount_operations.os.open", busy)
    with pytest.raises(VolumeError, match="the device is in use when it was no longer expected to be in use"):
        check_unused(str(tmp_path))


def block_pod(name: str = "web") -> Pod:
    devices = [{"name": "v", "devicePath": "/dev/data"}]
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    return make_pod(name, containers=[make_container("main", volume_devices=devices)], volumes=volumes)


def needs_zone(host: Host, *, block: bool) -> None:
    """Add an affinity that the node does not satisfy."""
    terms = [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
    host.claims.add("data", block=block, node_affinity=VolumeNodeAffinity(required={"nodeSelectorTerms": terms}))


@pytest.mark.parametrize(
    ("method", "block", "reason", "step"),
    [
        ("wait_for_attach", False, "FailedMount", "MountVolume.WaitForAttach"),
        ("mount_device", False, "FailedMount", "MountVolume.MountDevice"),
        ("mount", False, "FailedMount", "MountVolume.SetUp"),
        ("wait_for_attach", True, "FailedMapVolume", "MapVolume.WaitForAttach"),
        ("mount_device", True, "FailedMapVolume", "MapVolume.SetUpDevice"),
        ("mount", True, "FailedMapVolume", "MapVolume.MapPodDevice"),
    ],
)
async def test_event_of_a_failure_names_the_step(
    attaching: Host, method: str, block: bool, reason: str, step: str
) -> None:
    attaching.claims.add("data", block=block)
    attaching.kind.fail(method, VolumeError("no"))
    await attaching.begin(block_pod() if block else claim_pod())
    (event,) = attaching.recorder.events
    assert (event.reason, event.note) == (reason, f'{step} failed for volume "pv-data" : no')
    assert event.regarding.name == "web"


async def test_event_of_a_failed_expansion_of_a_block_names_the_step(attaching: Host) -> None:
    spec = attaching.claims.add("data", block=True, size="2Gi", claim_size="1Gi")
    assert attaching.api is not None
    attaching.api.put(PERSISTENT_VOLUME_CLAIMS, msgspec.to_builtins(spec.claim))
    attaching.kind.fail("expand", VolumeError("no"))
    await attaching.begin(block_pod())
    assert [event.note for event in attaching.recorder.of("FailedMapVolume")] == [
        'MapVolume.MarkVolumeAsMounted failed while expanding volume for volume "pv-data" : no'
    ]


async def test_unsatisfied_affinity_of_a_block_has_the_reason_of_mounts(host: Host) -> None:
    needs_zone(host, block=True)
    await host.begin(block_pod())
    (event,) = host.recorder.events
    assert event.reason == "FailedMount"
    assert event.note == 'MapVolume.NodeAffinity check failed for volume "pv-data" : no matching NodeSelectorTerms'


@pytest.mark.parametrize(
    "affinity", [None, VolumeNodeAffinity(), VolumeNodeAffinity(required={})], ids=["none", "empty", "no terms"]
)
async def test_volume_without_required_affinity_is_for_all_nodes(
    host: Host, affinity: VolumeNodeAffinity | None
) -> None:
    host.node.clear()
    host.claims.add("data", node_affinity=affinity)
    await host.begin(claim_pod())
    assert host.recorder.events == [] and host.methods == ["mount_device", "mount"]


async def test_required_affinity_without_terms_matches_no_node(host: Host) -> None:
    host.claims.add("data", node_affinity=VolumeNodeAffinity(required={"nodeSelectorTerms": None, "x": 1}))
    await host.begin(claim_pod())
    assert host.recorder.events[0].note.endswith("no matching NodeSelectorTerms") and host.methods == []


@pytest.mark.parametrize("device_path", ["", "/dev/loop7"])
async def test_mapped_block_has_two_events_at_its_first_mount(
    host: Host, monkeypatch: pytest.MonkeyPatch, device_path: str
) -> None:
    mount = host.kind.mount

    async def map_device(request: MountRequest) -> MountedVolume:
        return replace(await mount(request), device_path=device_path)

    monkeypatch.setattr(host.kind, "mount", map_device)
    host.claims.add("data", block=True)
    pod, directory = block_pod(), host.root / "pods/uid-web/volumeDevices/kubernetes.io~fake/pv-data"
    labels = ("kubernetes.io/fake:fake.example", "overall_volume_mount")
    count = MOUNT_SECONDS.count(*labels)
    for refreshes in (False, True):
        host.kind.refreshes = refreshes
        await host.begin(pod)
        await host.clock.advance(0)
        assert [event.note for event in host.recorder.of("SuccessfulMountVolume")] == [
            'MapVolume.MapPodDevice succeeded for volume "pv-data" globalMapPath ""',
            f'MapVolume.MapPodDevice succeeded for volume "pv-data" volumeMapPath "{device_path or directory}"',
        ]
        assert MOUNT_SECONDS.count(*labels) == count + 1
    assert host.methods == ["mount_device", "mount", "refresh"]


async def test_volume_without_a_name_on_the_node_is_not_staged(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host.kind, "unique_name", lambda spec: "")
    pod = claim_pod()
    await host.begin(pod)
    assert host.methods == ["mount"] and host.manager.states()[0].phase == "Mounted"
    host.kind.violations.clear()
    await host.end(pod)
    await host.clock.advance(0)
    assert host.methods == ["mount", "unmount"] and host.manager.states() == []


async def test_mounted_file_system_has_no_event(host: Host) -> None:
    await host.begin(claim_pod())
    assert host.recorder.events == [] and host.manager.states()[0].phase == "Mounted"


async def test_request_states_whether_the_volume_is_mounted_or_was_found_on_disk(host: Host) -> None:
    pod = claim_pod()
    await host.begin(pod)
    await host.kill()
    host.start()
    host.kind.refreshes = True
    for _ in range(2):
        await host.begin(pod)
        await host.clock.advance(0)

    assert [(request.reconstructed, request.remount) for request in host.kind.requests] == [
        *[(False, False)] * 2,
        *[(True, False)] * 2,
        (False, True),
    ]


async def test_volume_is_attached_only_if_its_kind_requires_it(host: Host) -> None:
    await host.begin(claim_pod())
    assert host.kind.requested == set() and [request.device_path for request in host.kind.requests] == ["", ""]


@pytest.mark.parametrize(("device_path", "passed"), [("", "attachment"), ("/dev/sdx", "/dev/sdx")])
async def test_device_path_of_the_attachment_is_passed_to_both_mounts(
    attached: Host, device_path: str, passed: str
) -> None:
    await attached.begin(claim_pod())
    attached.report(device_path=device_path)
    await attached.clock.advance(0)
    assert [request.device_path for request in attached.kind.requests] == [passed] * 2


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (None, "Volume has not been added to the list of VolumesInUse in the node's volume status"),
        (
            {"volumesAttached": [{"name": NAME}]},
            "Volume has not been added to the list of VolumesInUse in the node's volume status",
        ),
        (
            {"volumesInUse": [NAME], "volumesAttached": [{"name": "other"}]},
            "Volume not attached according to node status",
        ),
    ],
)
async def test_volume_has_to_be_in_use_and_attached_in_the_node_as_read(
    attached: Host, status: dict[str, object] | None, error: str
) -> None:
    await attached.begin(claim_pod())
    assert attached.api is not None
    attached.report()
    attached.api.put(NODES, {"metadata": {"name": "node-1"}, "status": status})
    await attached.clock.advance(0)
    assert attached.manager.states()[0].error == error and attached.methods == []


async def test_read_only_volume_is_mounted_read_only_by_all_kinds(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    mount, mounted = host.kind.mount, []
    for kind_result, read_only in ((False, True), (True, False), (False, False)):

        async def change(request: MountRequest, readonly: bool = kind_result) -> MountedVolume:
            return replace(await mount(request), readonly=readonly)

        monkeypatch.setattr(host.kind, "mount", change)
        host.claims.add("data", read_only=read_only)
        pod = claim_pod()
        mounted.append((await (await host.begin(pod)))["v"].readonly)
        await host.end(pod)
        await host.clock.advance(0)
    assert mounted == [True, True, False]


# --- failures of a device -----------------------------------------------------------------------------------------


async def test_uncertain_stage_that_left_no_device_needs_no_unstaging(host: Host) -> None:
    host.kind.fail("mount_device", uncertain())
    pod = claim_pod()
    await host.begin(pod)
    (host.root / "plugins/kubernetes.io/fake/data").rmdir()
    await host.end(pod)
    await host.clock.advance(0)
    assert host.methods == [] and host.manager.states() == []


async def test_uncertain_stage_is_undone_for_its_volume_only(host: Host) -> None:
    host.claims.add("a")
    await (await host.begin(claim_pod("a", "a")))
    host.kind.fail("mount_device.after", uncertain())
    pod = claim_pod()
    await host.begin(pod)
    await host.end(pod)
    await host.clock.advance(0)
    assert host.kind.calls[2:] == [("mount_device", "data"), ("unmount_device", "data")]


@pytest.mark.parametrize("listed", [True, False], ids=["known device", "unknown device"])
async def test_failed_stage_after_a_restart_does_not_make_the_device_unmounted(
    host: Host, monkeypatch: pytest.MonkeyPatch, listed: bool
) -> None:
    pod = claim_pod()
    await host.begin(pod)
    await host.kill()
    devices = host.kind.devices_on_disk
    if not listed:
        monkeypatch.setattr(host.kind, "devices_on_disk", lambda: ())
    host.start()
    await host.clock.advance(0)
    monkeypatch.setattr(host.kind, "devices_on_disk", devices)
    host.kind.fail("mount_device", VolumeError("rejected"))
    await host.begin(pod)
    await host.end(pod)
    await host.clock.advance(0)
    assert host.methods == ["mount_device", "mount", "unmount", "unmount_device"]


async def test_staged_file_system_with_other_mounts_is_not_unstaged(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    references = ["/mnt/a", "/mnt/b"]
    monkeypatch.setattr(mount_operations, "mount_references", lambda path, mounts: list(references))
    pod, path = claim_pod(), host.root / "plugins/kubernetes.io/fake/data"
    await host.begin(pod)
    await host.end(pod)
    await host.clock.advance(0)
    assert host.methods[2:] == ["unmount"]
    assert host.manager.states()[0].error == (
        f'GetDeviceMountRefs check failed: the device mount path "{path}" is still mounted by other references '
        "[/mnt/a /mnt/b]"
    )
    references.clear()
    await host.clock.advance(0.5)
    assert host.methods[2:] == ["unmount", "unmount_device"]


async def test_references_of_a_staged_block_are_not_checked(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mount_operations, "mount_references", lambda path, mounts: ["/mnt/a"])
    host.claims.add("data", block=True)
    await host.begin(block_pod())
    await host.end(block_pod())
    await host.clock.advance(0)
    assert host.methods[2:] == ["unmount", "unmount_device"]


# --- failures of a pod's volume -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("errors", "phase", "unmounted"),
    [
        ([uncertain()], "Uncertain", True),
        ([TransientVolumeError("no driver")], "Mounting", False),
        ([VolumeError("rejected")], "Mounting", False),
        ([uncertain(), TransientVolumeError("no driver")], "Uncertain", True),
        ([uncertain(), VolumeError("rejected")], "Mounting", False),
    ],
)
async def test_failed_mount_is_undone_only_if_it_may_have_succeeded(
    host: Host, errors: list[VolumeError], phase: str, unmounted: bool
) -> None:
    for error in errors:
        host.kind.fail("mount", error)
    pod = claim_pod()
    await host.begin(pod)
    await host.clock.advance(0.5 * (len(errors) - 1))
    assert host.manager.states()[0].phase == phase
    await host.end(pod)
    await host.clock.advance(0)
    assert host.methods == ["mount_device", *["unmount"] * unmounted, "unmount_device"]


async def test_failed_refresh_leaves_the_volume_mounted(host: Host) -> None:
    pod = claim_pod()
    await host.begin(pod)
    host.kind.refreshes = True
    host.kind.fail("mount", VolumeError("rejected"))
    await host.begin(pod)
    assert host.manager.states()[0].phase == "Mounted"
    assert [event.note for event in host.recorder.events] == [
        'MountVolume.SetUp failed for volume "pv-data" : rejected'
    ]


async def test_volume_found_on_disk_is_unmounted_although_its_mount_has_failed(host: Host) -> None:
    pod = claim_pod()
    await host.begin(pod)
    await host.kill()
    host.start()
    host.kind.fail("mount", VolumeError("rejected"))
    await host.begin(pod)
    assert host.manager.states()[0].phase == "Uncertain"
    await host.end(pod)
    await host.clock.advance(0)
    assert host.methods[-2:] == ["unmount", "unmount_device"]


# --- annotations and node status ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("annotations", "group"),
    [
        (None, None),
        ({}, None),
        ({GID_ANNOTATION: "42"}, 42),
        *[({GID_ANNOTATION: text}, None) for text in ("", "-1", "x", "٤٢", "²")],
    ],
)
def test_supplemental_group_is_a_decimal_annotation(annotations: dict[str, str] | None, group: int | None) -> None:
    assert supplemental_group(FakeClaims().add("data", annotations=annotations)) == group
    assert supplemental_group(VolumeSpec("v", Volume(name="v"))) is None


@pytest.mark.parametrize(
    ("attached", "path"),
    [
        (None, None),
        ([], None),
        ([{"name": "other", "devicePath": "/dev/a"}], None),
        ([{"name": "other", "devicePath": "/dev/a"}, {"name": "v", "devicePath": "/dev/b"}], "/dev/b"),
        ([{"name": "v"}], ""),
        ([{"name": "v", "devicePath": None}], ""),
    ],
)
def test_path_of_an_attached_volume(attached: list[dict[str, object]] | None, path: str | None) -> None:
    assert attached_path({"volumesAttached": attached}, "v") == path


async def test_volume_of_a_pod_spec_has_no_name_of_a_persistent_volume(host: Host) -> None:
    host.manager.replace_kinds([], [FakeVolumeKind()])
    pod = make_pod(
        containers=[make_container("main", volume_mounts=[{"name": "scratch", "mountPath": "/s"}])],
        volumes=[{"name": "scratch", "emptyDir": {}}],
    )

    mounted = (await (await host.begin(pod)))["scratch"]

    assert (mounted.volume_name, mounted.supplemental_group) == ("", None)
