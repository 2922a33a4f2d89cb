"""Tests for the volume manager."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.storage_operations import OPERATIONS
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import VolumeError, VolumesNotReady
from nodeagent.model.pod import Pod, Volume
from nodeagent.testing import FakeApi, FakeClock, FakeObjects, FakeRecorder, make_pod
from nodeagent_plugins import volumes
from nodeagent_plugins.volumes import manager as manager_module
from nodeagent_plugins.volumes.manager import Manager
from nodeagent_plugins.volumes.metrics import MOUNT, UNMOUNT, VOLUMES

from .conftest import FakeMounter, new_manager, pod_with
from .host import Host, claim_pod, running


async def test_pod_without_volumes_needs_no_thread(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio, "to_thread", None)

    assert await manager.prepare(make_pod()) == {}


async def test_prepared_pod_needs_no_thread(
    manager: Manager, objects: FakeObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects.config_maps["default", "settings"] = {"data": {"a": "1"}}
    pod = pod_with(
        {"name": "scratch", "emptyDir": {}},
        {"name": "etc", "hostPath": {"path": "/etc", "type": "Directory"}},
        {"name": "cfg", "configMap": {"name": "settings"}},
        {"name": "me", "downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    )
    first = await manager.prepare(pod)
    monkeypatch.setattr(asyncio, "to_thread", None)

    assert await manager.prepare(pod) == first
    assert list(first) == ["scratch", "etc", "cfg", "me"]


async def test_volumes_that_no_container_mounts_are_skipped(manager: Manager) -> None:
    pod = make_pod(volumes=[{"name": "unused", "secret": {"secretName": "missing"}}])

    assert await manager.prepare(pod) == {}


async def test_every_volume_that_is_not_ready_is_named(
    manager: Manager, recorder: FakeRecorder, caplog: pytest.LogCaptureFixture
) -> None:
    pod = pod_with(
        {"name": "fine", "emptyDir": {}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "x"}},
        {"name": "cfg", "configMap": {"name": "nope"}},
    )

    with pytest.raises(VolumeError) as raised:
        await manager.prepare(pod)

    assert str(raised.value) == (
        "Unable to attach or mount volumes: unmounted volumes=[cfg data], unattached volumes=[], "
        "failed to process volumes=[data]: "
        "data: volumes of type persistentVolumeClaim are not supported on this node; "
        'cfg: configmap "nope" not found'
    )
    assert "Unable to attach or mount volumes for pod; skipping pod" in caplog.messages
    assert [event.note for event in recorder.of("FailedMount")] == [
        'MountVolume.SetUp failed for volume "data" : volumes of type persistentVolumeClaim are not supported '
        "on this node",
        'MountVolume.SetUp failed for volume "cfg" : configmap "nope" not found',
    ]


async def test_setup_that_hangs_times_out(
    context: AgentContext, mounter: FakeMounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nodeagent_plugins.volumes.kinds.SETUP_SECONDS", 0.01)
    manager = Manager(context, [Slow()], mounter)

    with pytest.raises(VolumeError, match="v: not ready after 0 s"):
        await manager.prepare(pod_with({"name": "v", "emptyDir": {}}))


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (None, "v: volume plugin slip failed: TypeError('setup returned None, not a MountedVolume')"),
        (KeyError("x"), "v: volume plugin slip failed: KeyError('x')"),
    ],
)
async def test_plugin_bug_is_reported_with_its_name(
    context: AgentContext, mounter: FakeMounter, output: Exception | None, text: str
) -> None:
    class Slips(Slow):
        name = "slip"

        async def setup(self, pod: Pod, volume: Volume, directory: Path) -> MountedVolume:
            if output is not None:
                raise output
            return None  # type: ignore[return-value]

    with pytest.raises(VolumeError, match=re.escape(text)):
        await Manager(context, [Slips()], mounter).prepare(pod_with({"name": "v", "emptyDir": {}}))


class Slow:
    name = "slow"

    def supports(self, volume: Volume) -> bool:
        return True

    async def setup(self, pod: Pod, volume: Volume, directory: Path) -> MountedVolume:
        await asyncio.Event().wait()
        raise AssertionError

    async def teardown(self, pod_uid: str, directory: Path) -> None:
        await asyncio.Event().wait()


async def test_release_removes_everything(manager: Manager, context: AgentContext, mounter: FakeMounter) -> None:
    pod = pod_with(
        {"name": "mem", "emptyDir": {"medium": "Memory"}},
        {"name": "disk", "emptyDir": {}},
        {"name": "me", "downwardAPI": {"items": []}},
        {"name": "etc", "hostPath": {"path": "/etc"}},
    )
    prepared = await manager.prepare(pod)
    Path(prepared["disk"].host_path, "deep/er").mkdir(parents=True)
    assert manager.pods_with_volumes() == [pod.uid]

    await manager.release(pod.uid)
    await manager.release(pod.uid)

    assert manager.pods_with_volumes() == []
    assert mounter.mounts == {}
    assert list(context.pod_dir(pod.uid).iterdir()) == []


async def test_release_removes_volumes_from_before_a_restart(
    manager: Manager, context: AgentContext, mounter: FakeMounter
) -> None:
    pod = pod_with({"name": "mem", "emptyDir": {"medium": "Memory"}}, {"name": "disk", "emptyDir": {}})
    await manager.prepare(pod)
    pod_dir = context.pod_dir(pod.uid)
    for extra in (pod_dir / "volume-subpaths/disk/main/0", pod_dir / "volumes/gone.example~driver/data/mount"):
        extra.mkdir(parents=True)
        mounter.mounts[extra] = ("bind", "")

    unknown = pod_dir / "volumes/gone.example~driver/data/mount"
    with pytest.raises(VolumeError, match=r"still mounted: .*gone.example~driver/data: no volume plugin supports it"):
        await new_manager(context, mounter).release(pod.uid)

    assert list(mounter.mounts) == [unknown]
    assert not (pod_dir / "volume-subpaths").exists()
    assert not (pod_dir / "volumes/kubernetes.io~empty-dir").exists()


async def test_content_of_an_unknown_kind_is_kept(
    manager: Manager, context: AgentContext, caplog: pytest.LogCaptureFixture
) -> None:
    file = context.pod_dir("u") / "volumes/gone.example~driver/data/file"
    file.parent.mkdir(parents=True)
    file.touch()

    await manager.release("u")

    assert file.exists()
    assert "Orphaned volumes found, but no volume plugin supports them" in caplog.messages


async def test_busy_mount_is_reported_and_released_later(
    manager: Manager, context: AgentContext, mounter: FakeMounter
) -> None:
    pod = pod_with({"name": "mem", "emptyDir": {"medium": "Memory"}})
    prepared = await manager.prepare(pod)
    mounter.busy.add(Path(prepared["mem"].host_path))

    with pytest.raises(VolumeError, match="mem: Device or resource busy"):
        await manager.release(pod.uid)
    mounter.busy.clear()
    await manager.release(pod.uid)

    assert manager.pods_with_volumes() == []


async def test_releasing_a_pod_without_volumes_does_nothing(manager: Manager) -> None:
    await manager.release("never-seen")

    assert manager.pods_with_volumes() == []


async def test_plugin_provides_volume_kinds_and_manager(context: AgentContext) -> None:
    kinds = volumes.nodeagent_provide_volume_kinds(context)

    assert [kind.name for kind in kinds] == [
        f"kubernetes.io~{name}"
        for name in ("empty-dir", "host-path", "configmap", "secret", "downward-api", "projected", "flexvolume")
    ]
    assert isinstance(volumes.nodeagent_provide_volume_manager(context, kinds, [], None), Manager)


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ({"nfs": {"server": "x"}}, "nfs"),
        ({"csi": {}}, "csi"),
        ({"cephfs": {}}, "cephfs"),
        ({"novel": {}}, "unknown"),
        ({"gitRepo": {"repository": "/var/lib/nodeagent/pods/other/.git", "directory": "../x"}}, "gitRepo"),
    ],
)
async def test_unsupported_volume_type_is_named(manager: Manager, source: dict[str, Any], shown: str) -> None:
    with pytest.raises(VolumeError, match=f"volumes of type {shown} are not supported"):
        await manager.prepare(pod_with({"name": "v", **source}))


async def test_volumes_and_operations_are_counted(manager: Manager, context: AgentContext) -> None:
    pod = pod_with({"name": "scratch", "emptyDir": {}}, {"name": "cfg", "configMap": {"name": "nope"}})
    context.pods.add(pod)  # type: ignore[attr-defined]
    empty, settings = "kubernetes.io/empty-dir", "kubernetes.io/configmap"

    def counts() -> list[int]:
        return [
            OPERATIONS.count(*labels, "false")
            for labels in ((empty, MOUNT, "success"), (settings, MOUNT, "fail-unknown"), (empty, UNMOUNT, "success"))
        ]

    before = counts()
    with pytest.raises(VolumeError):
        await manager.prepare(pod)
    desired = {(empty, "desired_state_of_world"): 1, (settings, "desired_state_of_world"): 1}
    assert VOLUMES.sample() == desired | {(empty, "actual_state_of_world"): 1}
    await manager.release(pod.uid)

    assert VOLUMES.sample() == {}
    assert [after - was for after, was in zip(counts(), before, strict=True)] == [1, 1, 1]


class ThirdPartyKind:
    """A kind of a third-party plugin, with the methods of the protocol only; content is kept on a server."""

    name = "example.com~remote"

    def __init__(self) -> None:
        self.fails: list[Exception] = []
        self.calls: list[str] = []

    def supports(self, volume: Volume) -> bool:
        return volume.host_path is not None and volume.host_path.path.startswith("/remote/")

    async def setup(self, pod: Pod, volume: Volume, directory: Path) -> MountedVolume:
        self.calls.append("setup")
        if self.fails:
            raise self.fails.pop()
        directory.mkdir(exist_ok=True)
        return MountedVolume(volume.name, str(directory), readonly=True)

    async def teardown(self, pod_uid: str, directory: Path) -> None:
        self.calls.append("teardown")
        if self.fails:
            raise self.fails.pop()
        if directory.exists():
            directory.rmdir()


async def test_third_party_kind_is_used_before_those_of_persistent_volumes(
    context: AgentContext, mounter: FakeMounter
) -> None:
    kind, pod = ThirdPartyKind(), pod_with({"name": "r", "hostPath": {"path": "/remote/a"}})
    manager = Manager(context, [kind], mounter)
    kind.fails = [VolumeError("the server is full"), RuntimeError("a bug")]
    for reason in ("volume plugin example.com~remote failed: RuntimeError", "the server is full"):
        with pytest.raises(VolumeError, match=reason):
            await manager.prepare(pod)
    mounted = (await manager.prepare(pod))["r"]
    assert mounted.readonly and Path(mounted.host_path).is_dir()
    await manager.prepare(pod)  # Content is refreshed at each sync.
    assert kind.calls == ["setup"] * 4
    (state,) = manager.states(pod.uid)
    assert (state.plugin, state.phase, state.path) == ("example.com/remote", "Mounted", mounted.host_path)

    # After a restart of the agent, the volume of a terminated pod is found again, and teardown repeated until success.
    manager = Manager(context, [kind], mounter)
    kind.fails = [VolumeError("still in use")]
    with pytest.raises(VolumeError, match="still in use"):
        await manager.release(pod.uid)
    await manager.release(pod.uid)
    assert kind.calls[4:] == ["teardown"] * 2 and manager.pods_with_volumes() == []


async def test_release_of_another_pod_does_not_start_a_mount_too_early(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (
        pod_with({"name": "scratch", "emptyDir": {}}, {"name": "me", "downwardAPI": {"items": []}}, name=n)
        for n in "ab"
    )
    await manager.prepare(old)
    creating, released, make_all = threading.Event(), threading.Event(), manager_module._make_all

    def make_later(directories: set[Path]) -> None:
        creating.set()
        assert released.wait(30)
        make_all(directories)

    monkeypatch.setattr(manager_module, "_make_all", make_later)
    preparing = asyncio.create_task(manager.prepare(new))
    assert await asyncio.to_thread(creating.wait, 30)

    await manager.release(old.uid)
    released.set()

    assert list(await preparing) == ["scratch", "me"]


class RefreshedKind:
    """A volume kind that counts its setups."""

    name = "example.com~refreshed"

    def __init__(self) -> None:
        self.setups = 0
        self.refresh: bool | Exception = False
        self.fails = False

    def supports(self, volume: Volume) -> bool:
        return volume.empty_dir is not None

    async def setup(self, pod: Pod, volume: Volume, directory: Path) -> MountedVolume:
        self.setups += 1
        if self.fails:
            raise VolumeError("broken")
        return MountedVolume(volume.name, str(directory))

    async def needs_refresh(self, pod: Pod, volume: Volume, directory: Path) -> bool:
        if isinstance(self.refresh, Exception):
            raise self.refresh
        return self.refresh

    async def teardown(self, pod_uid: str, directory: Path) -> None: ...


@pytest.mark.parametrize(("refresh", "setups"), [(False, 1), (True, 2), (VolumeError("away"), 2), (KeyError(), 2)])
async def test_mounted_volume_is_set_up_again_unless_its_kind_excludes_a_change(
    context: AgentContext, mounter: FakeMounter, refresh: bool | Exception, setups: int
) -> None:
    kind, pod = RefreshedKind(), pod_with({"name": "data", "emptyDir": {}})
    manager = Manager(context, [kind], mounter)
    first = await manager.prepare(pod)

    kind.refresh = refresh

    assert await manager.prepare(pod) == first
    assert kind.setups == setups


async def test_volume_is_set_up_again_after_a_failed_refresh(context: AgentContext, mounter: FakeMounter) -> None:
    kind, pod = RefreshedKind(), pod_with({"name": "data", "emptyDir": {}})
    manager = Manager(context, [kind], mounter)
    await manager.prepare(pod)
    kind.refresh, kind.fails = True, True
    await manager.prepare(pod)

    kind.refresh, kind.fails = False, False
    await manager.prepare(pod)

    assert kind.setups == 3


async def test_release_leaves_a_volume_that_another_pod_has_mounted_since(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = claim_pod("a"), claim_pod("b")
    await host.begin(old)
    removed, remove = asyncio.Event(), host.manager._remove_directories

    async def remove_later(*arguments: Any) -> None:
        await removed.wait()
        await remove(*arguments)

    monkeypatch.setattr(host.manager, "_remove_directories", remove_later)
    releasing = asyncio.create_task(host.end(old))
    await host.clock.advance(0)
    assert host.manager.states() == []
    await (await host.begin(new))
    removed.set()
    await releasing

    assert [(state.pod_uid, state.phase) for state in host.manager.states()] == [(new.uid, "Mounted")]
    await host.end(new)
    await host.clock.advance(0)
    assert host.methods == ["mount_device", "mount", "unmount", "unmount_device"] * 2


@pytest.fixture
async def host(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Host]:
    async with running(tmp_path, clock) as host:
        yield host


@pytest.fixture
async def attached(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Host]:
    async with running(tmp_path, clock, FakeApi(clock), attach=True) as host:
        yield host


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


async def test_kind_is_removed_after_its_last_volume(context: AgentContext, mounter: FakeMounter) -> None:
    old, other, pods = ThirdPartyKind(), RefreshedKind(), context.pods
    manager = Manager(context, [old, other], mounter)
    known, unknown = (pod_with({"name": "r", "hostPath": {"path": "/remote/a"}}, name=name) for name in ("a", "b"))
    pods.add(known)  # type: ignore[attr-defined]
    with pytest.raises(VolumeError, match="the volumes on this node have not been found yet, try again"):
        manager.replace_kinds([old], [])
    manager.replace_kinds([], [])
    await manager.prepare(pod_with({"name": "data", "emptyDir": {}}, name="c"))
    for pod in (unknown, known):
        await manager.prepare(pod)
    with pytest.raises(VolumeError, match=r"pods use volumes of kind example\.com~remote: default/a, uid-b"):
        manager.replace_kinds([old], [])
    pods.pods.clear()  # type: ignore[attr-defined]
    for pod in (unknown, known):
        await manager.release(pod.uid)
    manager.replace_kinds([old], [])
    with pytest.raises(VolumeError, match="volumes of type hostPath are not supported"):
        await manager.prepare(known)


async def test_pod_that_has_not_mounted_its_volumes_yet_uses_their_kind(
    context: AgentContext, mounter: FakeMounter
) -> None:
    kind = ThirdPartyKind()
    manager = Manager(context, [kind], mounter)
    await manager.release("unknown")
    context.pods.add(pod_with({"name": "r", "hostPath": {"path": "/remote/a"}}))  # type: ignore[attr-defined]
    with pytest.raises(VolumeError, match=r"pods use volumes of kind example\.com~remote: default/web"):
        manager.replace_kinds([kind], [])


async def test_release_removes_the_empty_files_of_sub_paths(manager: Manager, context: AgentContext) -> None:
    base = context.pod_dir("u") / "volume-subpaths"
    for name in ("cfg/main/0", "cfg/main/1", "cfg/init/0"):
        (base / name).parent.mkdir(parents=True, exist_ok=True)
        (base / name).touch()
    await manager.release("u")
    assert not base.exists()


async def test_release_keeps_content_in_the_directory_of_sub_paths(
    manager: Manager, context: AgentContext, tmp_path: Path
) -> None:
    base, empty = context.pod_dir("u") / "volume-subpaths/cfg", tmp_path / "empty"
    base.mkdir(parents=True)
    empty.touch()
    (base / "file").write_text("content")
    (base / "link").symlink_to(empty)
    (base / "placeholder").touch()
    await manager.release("u")
    assert sorted(path.name for path in base.iterdir()) == ["file", "link"]


async def test_used_volumes_are_measured(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = claim_pod()
    assert await host.manager.measure(pod.uid, "v") is None
    host.kind.hang("mount")
    await host.begin(pod)
    assert await host.manager.measure(pod.uid, "v") is None, "it is not mounted yet"
    host.kind.recover()
    await host.clock.advance(0)
    figures = await host.manager.measure(pod.uid, "v")
    assert figures is not None and (figures.available, figures.capacity, figures.used) == (1, 3, 2)
    assert await host.manager.measure(pod.uid, "other") is None
    host.kind.fail("measure", VolumeError("no"))
    with pytest.raises(VolumeError):
        await host.manager.measure(pod.uid, "v")


async def test_volume_of_a_kind_without_figures_is_not_measured(manager: Manager) -> None:
    pod = pod_with({"name": "scratch", "emptyDir": {}})
    await manager.prepare(pod)
    assert await manager.measure(pod.uid, "scratch") is None


async def test_pods_with_volumes_are_those_with_directories_of_volumes(manager: Manager, context: AgentContext) -> None:
    assert manager.pods_with_volumes() == []
    (context.pod_dir("b") / "volumes/kind/v").mkdir(parents=True)
    (context.pod_dir("a") / "volumeDevices/kind").mkdir(parents=True)
    (context.pod_dir("a") / "volumeDevices/kind/v").touch()
    (context.pod_dir("c") / "volumes/kind").mkdir(parents=True)
    (context.pod_dir("d") / "containers").mkdir(parents=True)
    assert manager.pods_with_volumes() == ["a", "b"]


async def test_unreadable_parent_fails_the_pod(manager: Manager, context: AgentContext) -> None:
    pod = pod_with({"name": "scratch", "emptyDir": {}})
    context.pod_dir(pod.uid).mkdir(parents=True)
    (context.pod_dir(pod.uid) / "volumes").touch()
    with pytest.raises(VolumeError, match=r"failed to create volume directories of pod uid-web: .*volumes"):
        await manager.prepare(pod)


async def test_released_pod_reports_each_volume_that_remains(host: Host) -> None:
    host.claims.add("other")
    pod = pod_with(*({"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("other", "data")))
    await host.begin(pod)
    host.kind.fail("unmount", VolumeError("busy"))
    host.kind.fail("unmount", VolumeError("gone"))
    with pytest.raises(VolumeError) as raised:
        await host.end(pod)
    assert str(raised.value) == "mounted volumes=[data other]: other: busy; data: gone"
    await host.clock.advance(0.5)
    await host.end(pod)
    assert host.manager.states() == []


async def test_release_times_out(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nodeagent_plugins.volumes.manager.WAIT_SECONDS", 0.01)
    pod = claim_pod()
    await host.begin(pod)
    host.kind.hang("unmount")
    with pytest.raises(VolumeError, match=r"mounted volumes=\[v\]: context deadline exceeded"):
        await host.end(pod)
