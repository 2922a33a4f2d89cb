"""Tests for volumes of claims: order of operations, uncertain results, attachment and restarts of the agent."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nodeagent.contracts.api import NODES
from nodeagent.contracts.persistent_volumes import MOUNT_OPTIONS
from nodeagent.contracts.storage_operations import OPERATIONS
from nodeagent.errors import TransientVolumeError, VolumeError, VolumesNotReady
from nodeagent.model.persistent_volume import VolumeNodeAffinity
from nodeagent.testing import FakeApi, FakeClock, make_container, make_pod
from nodeagent.testing.context import make_config
from nodeagent.testing.persistent_volumes import uncertain
from nodeagent_plugins.volumes.metrics import UNMAP_DEVICE
from nodeagent_plugins.volumes.mount_operations import check_unused

from .conftest import pod_with
from .host import Host, claim_pod

NAME = "kubernetes.io/fake/fake.example^data"


@pytest.fixture
async def host(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Host]:
    host = Host(tmp_path, clock, None)
    host.claims.add("data")
    host.start()
    yield host
    host.kind.recover()
    await host.kill()
    assert host.kind.violations == []


async def test_volume_is_staged_once_and_unstaged_after_its_last_pod(host: Host) -> None:
    first, second = claim_pod("a"), claim_pod("b")
    mounted = await (await host.begin(first))
    await (await host.begin(second))
    await host.end(first)
    await host.clock.advance(0)
    assert host.methods == ["mount_device", "mount", "mount", "unmount"]
    await host.end(second)
    await host.clock.advance(0)

    assert host.methods[4:] == ["unmount", "unmount_device"]
    assert mounted["v"].name == "v" and mounted["v"].volume_name == "pv-data"
    assert host.manager.states() == [] and host.manager.pods_with_volumes() == []


async def test_prepared_pod_is_not_mounted_again(host: Host) -> None:
    pod = claim_pod()
    first = await (await host.begin(pod))
    assert await host.manager.prepare(pod) == first
    assert host.methods == ["mount_device", "mount"]
    host.kind.refreshes = True
    await host.manager.prepare(pod)
    await host.clock.advance(0)
    assert host.methods[2:] == ["refresh"]


async def test_failed_operation_is_retried_with_a_doubling_delay(host: Host) -> None:
    host.kind.fail("mount_device", VolumeError("rpc error: code = InvalidArgument desc = no"), times=3)
    task = await host.begin(claim_pod())
    times = []
    for _ in range(40):
        times.append(len(host.recorder.of("FailedMount")))
        await host.clock.advance(0.25)

    assert [times.index(n) * 0.25 for n in (1, 2, 3)] == [0, 0.5, 1.5] and task.done()
    assert host.recorder.of("FailedMount")[0].note == (
        'MountVolume.MountDevice failed for volume "pv-data" : rpc error: code = InvalidArgument desc = no'
    )


async def test_cancelled_sync_does_not_cancel_the_operation(host: Host) -> None:
    host.kind.hang("mount")
    task = await host.begin(claim_pod())
    task.cancel()
    await asyncio.wait({task})
    host.kind.recover("mount")
    await host.clock.advance(0)

    assert host.methods == ["mount_device", "mount"]
    assert host.context.pods.triggered == ["uid-web"]  # type: ignore[attr-defined]
    assert host.manager.states()[0].phase == "Mounted"


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


async def test_failed_unmount_keeps_the_volume_staged_and_is_retried(host: Host) -> None:
    pod = claim_pod()
    await (await host.begin(pod))
    host.kind.fail("unmount", VolumeError("busy"), times=5)
    with pytest.raises(VolumeError, match=r"mounted volumes=\[v\]: v: busy"):
        await host.end(pod)
    await host.clock.advance(0.5 + 1 + 2 + 4)
    assert host.methods == ["mount_device", "mount"] and host.manager.pods_with_volumes() == [pod.uid]
    await host.clock.advance(8)
    assert host.methods[2:] == ["unmount", "unmount_device"]
    assert pod.uid in host.context.pods.triggered  # type: ignore[attr-defined]
    await host.manager.release(pod.uid)


async def test_released_pod_waits_for_its_running_mount(host: Host) -> None:
    host.kind.hang("mount_device")
    pod = claim_pod()
    task = await host.begin(pod)
    task.cancel()
    await host.end(pod)
    host.kind.recover("mount_device")
    await host.clock.advance(0)
    assert host.methods == ["mount_device", "unmount_device"]


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


async def test_claim_that_is_not_bound_is_reported(host: Host) -> None:
    with pytest.raises(VolumeError) as raised:
        await host.manager.prepare(claim_pod(claim="nope"))
    assert str(raised.value) == (
        "Unable to attach or mount volumes: unmounted volumes=[v], unattached volumes=[], "
        "failed to process volumes=[v]: error processing PVC default/nope: PVC is not bound"
    )


async def test_mounted_volume_survives_an_unreadable_claim(host: Host) -> None:
    first = await (await host.begin(claim_pod()))
    host.claims.fail("resolve", VolumeError("error processing PVC default/data: failed to fetch PVC"))
    assert await host.manager.prepare(claim_pod()) == first
    await host.clock.advance(200)
    assert host.methods == ["mount_device", "mount"]


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


async def test_mode_of_the_volume_has_to_match(host: Host) -> None:
    host.claims.add("data", block=True)
    with pytest.raises(VolumeError, match="volume v has volumeMode Block, but is specified in volumeMounts"):
        await host.manager.prepare(claim_pod())


async def test_two_volumes_of_one_claim_are_mounted_once(host: Host) -> None:
    pod = pod_with(*({"name": name, "persistentVolumeClaim": {"claimName": "data"}} for name in ("x", "y")))
    mounted = await (await host.begin(pod))
    assert [mounted[name].name for name in ("x", "y")] == ["x", "y"]
    assert host.methods == ["mount_device", "mount"]


async def test_restart_mounts_again_and_unmounts_only_released_pods(host: Host) -> None:
    kept, gone = claim_pod("a"), claim_pod("b")
    for pod in (kept, gone):
        await (await host.begin(pod))
    await host.kill()
    host.kind.calls.clear()
    host.running.discard(gone.uid)
    host.start()
    await host.clock.advance(100)
    assert host.methods == []
    await host.manager.release(gone.uid)
    await (await host.begin(kept))
    assert sorted(host.methods) == ["mount", "mount_device", "unmount"]


async def test_nothing_is_unmounted_before_all_sources_are_ready(host: Host) -> None:
    pod = claim_pod()
    await (await host.begin(pod))
    await host.kill()
    host.kind.calls.clear()
    host.running.clear()
    host.sources_ready = False
    host.start()
    with pytest.raises(VolumeError, match="waiting for all pod sources"):
        await host.manager.release(pod.uid)
    await host.clock.advance(100)
    assert host.methods == []
    host.context.pods.all_sources_ready = True  # type: ignore[misc]
    await host.clock.advance(1)
    assert host.methods == ["unmount", "unmount_device"]


async def test_device_without_a_pod_is_unstaged_after_a_restart(host: Host) -> None:
    pod = claim_pod()
    await (await host.begin(pod))
    host.kind.hang("unmount_device")
    await host.end(pod)
    await host.clock.advance(0)
    await host.kill()
    host.kind.recover()
    host.start()
    await host.clock.advance(1)
    assert host.kind.staged() == [] and host.methods[-2:] == ["unmount", "unmount_device"]


async def test_unidentified_volume_is_left_untouched(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    pod = claim_pod()
    await (await host.begin(pod))
    await host.kill()
    directory = host.kind.published()[0]
    (directory / "handle").unlink()
    (directory / "precious").touch()
    host.running.clear()
    host.start()
    await host.clock.advance(0)
    await host.manager.release(pod.uid)
    assert (directory / "precious").exists()
    assert "Failed to reconstruct volume" in caplog.messages
    assert next(state.error for state in host.manager.states(pod.uid)).startswith("cannot read")


async def test_kind_that_fails_at_the_start_does_not_affect_others(
    host: Host, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    await (await host.begin(claim_pod()))
    await host.kill()

    def fail(*arguments: object) -> None:
        raise KeyError("bug")

    monkeypatch.setattr(host.kind, "reconstruct", fail)
    monkeypatch.setattr(host.kind, "devices_on_disk", fail)
    manager = host.start()
    other = pod_with({"name": "none", "image": {"reference": "x"}}, name="other")
    assert await manager.prepare(other) == {}
    assert "Failed to reconstruct volume" in caplog.messages


# --- attachment -----------------------------------------------------------------------------------------------


@pytest.fixture
async def attached(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Host]:
    api = FakeApi(clock)
    host = Host(tmp_path, clock, api)
    api.put(NODES, host.node)
    host.claims.add("data")
    host.kind.needs_attach = True
    host.start()
    await clock.advance(0)
    yield host
    host.kind.recover()
    await host.kill()
    assert host.kind.violations == []


async def test_mount_waits_until_the_volume_is_reported_and_attached(attached: Host) -> None:
    host = attached
    await host.begin(claim_pod())
    assert host.manager.volumes_in_use() == [NAME] and host.statuses == 1
    host.report(attached=False)
    await host.clock.advance(300)
    assert host.methods == [] and host.manager.states()[0].phase == "Attaching"
    assert host.recorder.of("FailedMount") == []
    host.report()
    await host.clock.advance(0)
    assert host.methods == ["mount_device", "mount"]


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


async def test_name_leaves_the_list_only_after_the_volume_was_unstaged(attached: Host) -> None:
    host, pod = attached, claim_pod()
    await host.begin(pod)
    host.report()
    await host.clock.advance(0)
    host.kind.hang("unmount_device")
    await host.end(pod)
    await host.clock.advance(10)
    assert host.manager.volumes_in_use() == [NAME]
    host.kind.recover()
    await host.clock.advance(0)
    assert host.manager.volumes_in_use() == []


async def test_list_of_the_server_is_kept_until_the_node_was_read(attached: Host) -> None:
    host, pod = attached, claim_pod()
    await host.begin(pod)
    host.report()
    await host.clock.advance(0)
    await host.kill()
    host.running.clear()
    assert host.api is not None
    host.api.outage = True
    host.start()
    await host.clock.advance(0)
    assert host.manager.volumes_in_use() is None
    with pytest.raises(VolumeError, match="waiting for the node status"):
        await host.manager.release(pod.uid)
    await host.clock.advance(60)
    assert host.methods == ["mount_device", "mount"]
    host.api.outage = False
    await host.clock.advance(20)
    assert host.methods[2:] == ["unmount", "unmount_device"] and host.manager.volumes_in_use() == []


async def test_timed_out_wait_records_no_event(attached: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodeagent_plugins.volumes.manager.WAIT_SECONDS", 0.01)
    with pytest.raises(VolumeError) as raised:
        await attached.manager.prepare(claim_pod())
    assert str(raised.value).endswith(
        "unmounted volumes=[v], unattached volumes=[v], failed to process volumes=[]: context deadline exceeded"
    )
    assert attached.recorder.events == []


async def test_pod_is_rejected_at_the_attach_limit(attached: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host = attached
    monkeypatch.setattr("nodeagent_plugins.volumes.manager.WAIT_SECONDS", 0.01)
    with pytest.raises(VolumesNotReady, match="context deadline exceeded"):
        await host.manager.prepare(claim_pod())
    assert host.context.pods.kills == []  # type: ignore[attr-defined]
    host.kind.limit_reached = True
    with pytest.raises(VolumesNotReady, match="context deadline exceeded"):
        await host.manager.prepare(claim_pod())
    (kill,) = host.context.pods.kills  # type: ignore[attr-defined]
    assert (kill.uid, kill.status_reason) == ("uid-web", "VolumeAttachmentLimitExceeded")
    assert kill.message == (
        "Node has reached its volume attachment limit, rejecting pod. unmounted volumes=[v], unattached volumes=[v], "
        "failed to process volumes=[]: context deadline exceeded"
    )
    assert [event.note for event in host.recorder.of("VolumeAttachmentLimitExceeded")] == [kill.message]


async def test_unsupported_mount_options_have_their_own_event_text(host: Host) -> None:
    host.kind.fail("mount", VolumeError("mount options are not supported for this volume type", reason=MOUNT_OPTIONS))
    await host.begin(claim_pod())
    assert host.recorder.of("FailedMount")[0].note == (
        'MountVolume.MountOptionSupport check failed for volume "pv-data" : mount options are not supported for this '
        "volume type"
    )


async def test_devices_of_blocks_are_unmapped(host: Host) -> None:
    host.claims.add("data", block=True)
    devices = [{"name": "v", "devicePath": "/dev/data"}]
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    pod = make_pod("web", containers=[make_container("main", volume_devices=devices)], volumes=volumes)
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


# --- attachment without a controller ------------------------------------------------------------------------------


@pytest.fixture
async def attaching(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Host]:
    """A node that requests attachments itself."""
    api = FakeApi(clock)
    host = Host(tmp_path, clock, api, config=make_config(enable_controller_attach_detach=False))
    api.put(NODES, host.node)
    host.claims.add("data")
    host.kind.needs_attach = True
    host.start()
    await clock.advance(0)
    yield host
    host.kind.recover()
    await host.kill()
    assert host.kind.violations == []


@pytest.mark.row("config.enableControllerAttachDetach")
async def test_node_detaches_a_volume_after_it_was_unstaged(attaching: Host) -> None:
    host, pod = attaching, claim_pod()
    await host.begin(pod)
    assert host.methods == ["mount_device", "mount"] and host.kind.requested == {"data"}
    host.kind.fail("detach", VolumeError("forbidden"))
    await host.end(pod)
    await host.clock.advance(0)
    assert host.methods[2:] == ["unmount", "unmount_device"]
    (state,) = host.manager.states()
    assert (state.phase, state.call, state.error) == ("Detaching", "Detach", "forbidden")
    assert host.manager.volumes_in_use() == [NAME]
    await host.clock.advance(0.5)
    assert host.methods[4:] == ["detach"] and host.manager.states() == []
    assert host.manager.volumes_in_use() == []


async def test_volume_that_is_not_attached_yet_is_detached_with_its_pod(attaching: Host) -> None:
    host, pod = attaching, claim_pod()
    host.kind.requested.add("data")
    host.kind.fail("wait_for_attach", TransientVolumeError("not attached"), times=99)
    await host.begin(pod)
    assert host.manager.states()[0].phase == "Attaching"
    await host.end(pod)
    await host.clock.advance(0)
    assert host.methods == ["detach"]


async def test_attachment_of_an_earlier_process_is_found(attaching: Host) -> None:
    host = attaching
    await host.kill()
    host.kind.requested.add("data")
    host.kind.fail("attachments", VolumeError("not available"))
    host.sources_ready = False
    host.start()
    await host.clock.advance(10)
    assert host.methods == []
    host.context.pods.all_sources_ready = True  # type: ignore[misc]
    await host.clock.advance(2)
    assert host.methods == []
    await host.clock.advance(60)
    assert host.methods == ["detach"]
    await host.begin(claim_pod())
    assert host.methods == ["detach", "mount_device", "mount"]
