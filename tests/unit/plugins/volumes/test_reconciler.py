"""Tests for the reconciler of volumes: order of operations, waits of pod syncs, and attachment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nodeagent.contracts.api import NODES
from nodeagent.contracts.storage_operations import OPERATIONS
from nodeagent.errors import TransientVolumeError, VolumeError
from nodeagent.testing import FakeApi, FakeClock, make_container, make_pod
from nodeagent.testing.context import make_config

from .conftest import pod_with
from .host import Host, claim_pod, running

NAME, PLUGIN = "kubernetes.io/fake/fake.example^data", "kubernetes.io/fake:fake.example"
VOLUME_MOUNT = {"name": "v", "mountPath": "/v"}


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


async def test_volume_is_staged_once_and_unstaged_after_its_last_pod(host: Host) -> None:
    first, second = claim_pod("a"), claim_pod("b")
    task = await host.begin(first)
    assert task.done()
    mounted = task.result()
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


async def test_two_volumes_of_one_claim_are_mounted_once(host: Host) -> None:
    pod = pod_with(*({"name": name, "persistentVolumeClaim": {"claimName": "data"}} for name in ("x", "y")))
    mounted = await (await host.begin(pod))
    assert [mounted[name].name for name in ("x", "y")] == ["x", "y"]
    assert host.methods == ["mount_device", "mount"]


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


async def test_two_syncs_of_a_pod_wait_for_one_operation(host: Host) -> None:
    host.kind.hang("mount")
    first, second, third = [await host.begin(claim_pod()) for _ in range(3)]
    first.cancel()
    await asyncio.wait({first})
    host.kind.recover("mount")
    await host.clock.advance(0)

    assert second.done() and third.done() and second.result() == third.result()
    assert host.methods == ["mount_device", "mount"]
    assert host.context.pods.triggered == []  # type: ignore[attr-defined]


async def test_operation_may_end_while_its_pod_sync_is_cancelled(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    host.kind.hang("mount")
    first, second = [await host.begin(claim_pod()) for _ in range(2)]
    host.kind.recover("mount")
    first.cancel()
    await host.clock.advance(0)

    assert second.done() and first.cancelled() and caplog.messages == []


@pytest.mark.parametrize("method", ["mount", "mount_device"])
async def test_waiting_pod_sync_fails_when_the_agent_stops(host: Host, method: str) -> None:
    host.kind.hang(method)
    tasks = [await host.begin(claim_pod()) for _ in range(2)]
    await host.context.tasks.close()
    await asyncio.wait(tasks, timeout=5)

    for task in tasks:
        with pytest.raises(VolumeError, match="operations on volumes were cancelled, because the agent stops"):
            task.result()


async def test_failed_operation_without_a_waiting_sync_does_not_start_one(host: Host) -> None:
    host.kind.hang("mount")
    host.kind.fail("mount", VolumeError("rejected"))
    task = await host.begin(claim_pod())
    task.cancel()
    await asyncio.wait({task})
    host.kind._hangs.pop("mount").set()
    await host.clock.advance(0)
    assert len(host.recorder.of("FailedMount")) == 1
    assert host.context.pods.triggered == []  # type: ignore[attr-defined]
    await host.clock.advance(0.5)
    assert host.methods == ["mount_device", "mount"]
    assert host.context.pods.triggered == ["uid-web"]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "status",
    [
        None,
        {"volumesAttached": [{"name": NAME}]},
        {"volumesInUse": [NAME]},
        {"volumesInUse": [NAME], "volumesAttached": [{"name": "other"}]},
        {"volumesInUse": ["other"], "volumesAttached": [{"name": NAME}]},
    ],
)
async def test_node_is_read_only_after_its_cached_status_lists_the_volume(
    attached: Host, status: dict[str, object] | None
) -> None:
    await attached.begin(claim_pod())
    assert attached.api is not None
    read = len(attached.api.made("get", NODES))
    attached.node["status"] = status
    for listener in attached.listeners:
        listener()
    await attached.clock.advance(120)

    assert len(attached.api.made("get", NODES)) == read
    assert attached.recorder.events == [] and attached.manager.states()[0].error == ""


async def test_volume_of_a_terminated_pod_stays_until_another_pod_has_ended(host: Host) -> None:
    first, second = claim_pod("a"), claim_pod("b")
    host.kind.hang("mount")
    tasks = [await host.begin(pod) for pod in (first, second)]
    tasks[0].cancel()
    await asyncio.wait({tasks[0]})
    ending = asyncio.create_task(host.end(first))
    host.kind.recover("mount")
    await host.clock.advance(0)
    await ending

    assert tasks[1].done() and host.methods.count("unmount_device") == 0
    assert [state.pod_uid for state in host.manager.states()] == [second.uid]


@pytest.mark.parametrize(("attach", "reports"), [(True, 1), (False, 0)])
async def test_node_status_is_reported_when_an_attachable_volume_is_removed(
    tmp_path: Path, clock: FakeClock, attach: bool, reports: int
) -> None:
    pod = claim_pod()
    async with running(tmp_path, clock, FakeApi(clock), attach=attach) as host:
        await host.begin(pod)
        host.report()
        await clock.advance(0)
        before = host.statuses
        await host.end(pod)
        await clock.advance(0)
        assert host.methods[-1] == "unmount_device" and host.statuses == before + reports


async def test_volume_that_was_detached_is_not_detached_again(attaching: Host) -> None:
    pod = claim_pod()
    for _ in range(2):
        await attaching.begin(pod)
        await attaching.end(pod)
        await attaching.clock.advance(60)

    assert attaching.methods == ["mount_device", "mount", "unmount", "unmount_device", "detach"] * 2


async def test_controller_detaches_volumes_if_it_attaches_them(attached: Host) -> None:
    pod = claim_pod()
    await attached.begin(pod)
    attached.report()
    await attached.clock.advance(0)
    await attached.end(pod)
    await attached.clock.advance(60)
    assert attached.methods == ["mount_device", "mount", "unmount", "unmount_device"]


@pytest.mark.parametrize(
    ("block", "names"),
    [
        (False, ("volume_mount", "volume_unmount", "unmount_device")),
        (True, ("map_volume", "unmap_volume", "unmap_device")),
    ],
)
async def test_operations_of_blocks_have_their_own_names_in_metrics(
    host: Host, block: bool, names: tuple[str, ...]
) -> None:
    host.claims.add("data", block=block)
    uses = {"volume_devices": [{"name": "v", "devicePath": "/dev/v"}]} if block else {"volume_mounts": [VOLUME_MOUNT]}
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    pod = make_pod("web", containers=[make_container("main", **uses)], volumes=volumes)
    before = [OPERATIONS.count(PLUGIN, name, "success", "false") for name in names]
    await host.begin(pod)
    await host.end(pod)
    await host.clock.advance(0)
    after = [OPERATIONS.count(PLUGIN, name, "success", "false") for name in names]

    assert [now - was for now, was in zip(after, before, strict=True)] == [1, 1, 1]
