"""Tests for the desired volumes of pods: modes, claims that are read again, and volumes without a kind."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from nodeagent.config.features import build_gates
from nodeagent.contracts.api import NODES
from nodeagent.contracts.persistent_volumes import MountRequest, VolumeMode, VolumeOnDisk, VolumeSpec
from nodeagent.contracts.volumes import MountedVolume
from nodeagent.errors import VolumeError
from nodeagent.model.pod import Volume
from nodeagent.testing import FakeApi, FakeClock, FakeVolumeKind, make_container, make_context, make_pod
from nodeagent_plugins.volumes import population, selinux
from nodeagent_plugins.volumes.actual_state import NodeVolumes
from nodeagent_plugins.volumes.empty_dir import EmptyDir
from nodeagent_plugins.volumes.kinds import Kinds
from nodeagent_plugins.volumes.population import READ_AGAIN_SECONDS, Populator, check_mode, used_volumes

from .conftest import FakeMounter, pod_with
from .host import Host, claim_pod, running

FILESYSTEM, BLOCK = VolumeMode.FILESYSTEM, VolumeMode.BLOCK


@pytest.fixture
async def host(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Host]:
    async with running(tmp_path, clock) as host:
        yield host


def test_volumes_are_used_in_the_modes_of_all_containers() -> None:
    mounts = [{"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/b"}]
    devices = [{"name": "b", "devicePath": "/dev/b"}, {"name": "c", "devicePath": "/dev/c"}]
    init = make_container("init", volume_devices=devices)
    pod = make_pod(containers=[make_container("main", volume_mounts=mounts), "other"], init_containers=[init])

    assert used_volumes(pod) == {"a": {FILESYSTEM}, "b": {FILESYSTEM, BLOCK}, "c": {BLOCK}}


def test_mode_of_a_volume_has_to_match_its_use(host: Host) -> None:
    class WithoutBlock:
        name = "kubernetes.io~plain"

        def plugin_name(self, spec: VolumeSpec) -> str:
            return "kubernetes.io/plain"

    plain: Any = WithoutBlock()
    for mode, modes, kind, error in [
        (FILESYSTEM, {FILESYSTEM}, plain, ""),
        (BLOCK, {BLOCK}, host.kind, ""),
        (FILESYSTEM, {BLOCK}, host.kind, "volume v has volumeMode Filesystem, but is specified in volumeDevices"),
        (FILESYSTEM, {FILESYSTEM, BLOCK}, host.kind, "specified in volumeDevices"),
        (BLOCK, {FILESYSTEM, BLOCK}, host.kind, "volume v has volumeMode Block, but is specified in volumeMounts"),
        (BLOCK, {BLOCK}, plain, 'volume "pv": volumes of kubernetes.io/plain cannot be used as block devices'),
    ]:
        spec = VolumeSpec("pv", Volume(name="v"), mode=mode)
        if not error:
            check_mode(spec, modes, kind)
            continue
        with pytest.raises(VolumeError, match=error):
            check_mode(spec, modes, kind)
    host.kind.supports_block = False
    with pytest.raises(VolumeError, match="cannot be used as block devices"):
        check_mode(VolumeSpec("pv", Volume(name="v"), mode=BLOCK), {BLOCK}, host.kind)


async def test_persistent_volume_is_read_again_after_an_interval(host: Host) -> None:
    pod = claim_pod()
    await (await host.begin(pod))
    for seconds, read in [(0, False), (READ_AGAIN_SECONDS - 1, False), (1, True), (1, False)]:
        await host.clock.advance(seconds)
        await host.manager.prepare(pod)
        assert (host.claims.known[-1] is None) is read, seconds


async def test_claims_of_many_volumes_are_read_less_often(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.claims.add("other")
    pods = [claim_pod("a"), claim_pod("b", "other")]
    for pod in pods:
        await (await host.begin(pod))

    async def is_read(seconds: float = 0) -> bool:
        await host.clock.advance(seconds)
        before = len(host.claims.known)
        await host.manager.prepare(pods[0])
        return len(host.claims.known) > before

    monkeypatch.setattr(population, "CLAIMS_OF_EACH_SYNC", 2)
    assert [await is_read(), await is_read()] == [True, True]
    monkeypatch.setattr(population, "CLAIMS_OF_EACH_SYNC", 1)
    assert [await is_read(), await is_read(1), await is_read(1), await is_read()] == [False, False, True, False]
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}}
    pods[0] = pod_with(volume, name="a")
    assert await is_read(), "the volume of the pod has changed"


async def test_volume_with_two_names_is_listed_once(host: Host) -> None:
    pod = pod_with(*({"name": name, "persistentVolumeClaim": {"claimName": "data"}} for name in ("x", "y")))
    for _ in range(2):
        await (await host.begin(pod))

    assert [state.volume for state in host.manager.states()] == ["x y"]


async def test_volume_without_a_kind_is_an_event_only_if_the_pod_contains_it(host: Host) -> None:
    host.claims.add("odd", csi=None, nfs={"server": "s", "path": "/"})
    inline = pod_with({"name": "v", "nfs": {"server": "s", "path": "/"}}, name="inline")
    for pod, events in [(claim_pod("odd", "odd"), 0), (inline, 1)]:
        with pytest.raises(VolumeError):
            await host.manager.prepare(pod)
        found = [event.note for event in host.recorder.of("FailedMount") if "MountVolume.SetUp failed" in event.note]
        assert len(found) == events, pod.name


async def test_volume_of_a_returning_pod_stays_mounted(host: Host) -> None:
    pod = claim_pod()
    await (await host.begin(pod))
    host.kind.fail("unmount", VolumeError("busy"))
    with pytest.raises(VolumeError):
        await host.end(pod)
    await (await host.begin(pod))
    await host.clock.advance(60)

    assert host.methods == ["mount_device", "mount", "mount"]
    assert [state.phase for state in host.manager.states()] == ["Mounted"]


async def test_node_without_an_api_attaches_nothing(host: Host) -> None:
    host.kind.needs_attach = True
    await (await host.begin(claim_pod()))

    assert host.methods == ["mount_device", "mount"]
    assert (host.statuses, host.manager.volumes_in_use()) == (0, [])


async def test_node_status_is_reported_when_a_volume_has_to_be_attached(tmp_path: Path, clock: FakeClock) -> None:
    api = FakeApi(clock)
    host = Host(tmp_path, clock, api)
    api.put(NODES, host.node)
    for claim in ("data", "local"):
        host.claims.add(claim)
    host.start()
    await clock.advance(0)
    before = host.statuses
    await host.begin(claim_pod("a", "local"))
    assert host.statuses == before
    host.kind.needs_attach = True
    await host.begin(claim_pod("b"))

    assert host.statuses == before + 1
    assert host.manager.volumes_in_use() == ["kubernetes.io/fake/fake.example^data"]
    await host.kill()


async def test_mode_of_the_volume_has_to_match(host: Host) -> None:
    host.claims.add("data", block=True)
    with pytest.raises(VolumeError, match="volume v has volumeMode Block, but is specified in volumeMounts"):
        await host.manager.prepare(claim_pod())


async def test_changed_persistent_volume_restarts_the_interval(host: Host) -> None:
    pod = claim_pod()
    await (await host.begin(pod))
    await host.clock.advance(READ_AGAIN_SECONDS - 100)
    host.claims.add("data", size="2Gi")
    await host.manager.prepare(pod)
    for seconds, read in [(100, False), (READ_AGAIN_SECONDS - 101, False), (1, True)]:
        await host.clock.advance(seconds)
        await host.manager.prepare(pod)
        assert (host.claims.known[-1] is None) is read, seconds


async def test_unidentified_directories_belong_to_the_volumes_of_their_path(host: Host) -> None:
    host.claims.add("other")
    pod = pod_with(*({"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("data", "other")))
    await (await host.begin(pod))
    await host.kill()
    for directory in host.kind.published():
        (directory / "handle").unlink()
    host.start()
    await host.clock.advance(0)
    assert [state.phase for state in host.manager.states(pod.uid)] == ["Unmounting"] * 2
    await host.begin(pod)

    states = {state.volume: (state.phase, Path(state.path).name) for state in host.manager.states(pod.uid)}
    assert states == {"data": ("Mounted", "pv-data"), "other": ("Mounted", "pv-other")}
    await host.end(pod)
    await host.clock.advance(0)
    assert host.manager.states() == [] and sorted(host.methods[-4:]) == ["unmount"] * 2 + ["unmount_device"] * 2


async def test_only_persistent_volumes_are_mounted_with_a_label(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "enforce").touch()
    monkeypatch.setattr(selinux, "ENFORCE", tmp_path / "enforce")
    options = {"seLinuxOptions": {"level": "s0:c1,c2"}}
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("v", "scratch")]
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "scratch", "emptyDir": {}}]
    container = make_container("main", volume_mounts=mounts, security_context=options)
    pod = make_pod("web", containers=[container], volumes=volumes)
    async with running(tmp_path, clock, gates=build_gates({"SELinuxMountReadWriteOncePod": True})) as host:
        host.claims.add("data", access_modes=["ReadWriteOncePod"])
        host.manager.replace_kinds([], [FakeVolumeKind()])
        mounted = await (await host.begin(pod))
        labels = [request.selinux_label for request in host.kind.requests]

    assert mounted["scratch"].selinux_label == ""
    assert mounted["v"].selinux_label.endswith(":s0:c1,c2") and set(labels) == {mounted["v"].selinux_label}


class PlainKind:
    """A kind of persistent volumes that neither expands nor refreshes nor attaches them."""

    name = "kubernetes.io~plain"

    def __init__(self) -> None:
        self.problems: list[VolumeError] = []

    def supports(self, spec: VolumeSpec) -> bool:
        return spec.persistent_volume is not None

    def plugin_name(self, spec: VolumeSpec) -> str:
        return "kubernetes.io/plain"

    async def mount(self, request: MountRequest) -> MountedVolume:
        if self.problems:
            raise self.problems.pop()
        return MountedVolume(request.spec.volume.name, str(request.directory))

    async def unmount(self, volume: VolumeOnDisk) -> None: ...

    def reconstruct(self, pod_uid: str, directory: Path, mode: VolumeMode) -> VolumeOnDisk:
        raise VolumeError("is not kept on disk")


@pytest.fixture
async def plain(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Host]:
    """Return a node with claims of a plain kind."""
    host = Host(tmp_path, clock, None)
    host.kind = PlainKind()  # type: ignore[assignment]
    host.claims.add("data")
    host.start()
    await clock.advance(0)
    yield host
    await host.kill()


async def test_claim_without_effect_on_its_volume_is_read_after_an_interval(plain: Host) -> None:
    pod = claim_pod()
    await (await plain.begin(pod))
    reads = len(plain.claims.known)
    for seconds, expected in [(0, 0), (READ_AGAIN_SECONDS - 1, 0), (1, 1), (READ_AGAIN_SECONDS - 1, 1)]:
        await plain.clock.advance(seconds)
        await plain.manager.prepare(pod)
        assert len(plain.claims.known) - reads == expected, seconds

    changed = pod_with({"name": "v", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}})
    await plain.manager.prepare(changed)
    assert len(plain.claims.known) - reads == 2


async def test_claim_is_read_again_until_its_volume_is_mounted(plain: Host) -> None:
    kind: Any = plain.kind
    kind.problems = [VolumeError("the server is away")]
    pod = claim_pod()
    task = await plain.begin(pod)
    assert not task.done()
    reads = len(plain.claims.known)

    second = await plain.begin(pod)

    assert len(plain.claims.known) == reads + 1
    await plain.clock.advance(1)
    assert (await task).keys() == (await second).keys() == {"v"}


async def test_volume_added_to_a_pod_leaves_the_mounts_of_others(host: Host) -> None:
    host.claims.add("other")
    first, second = ({"name": name, "persistentVolumeClaim": {"claimName": name}} for name in ("data", "other"))
    await (await host.begin(pod_with(first)))

    mounted = await (await host.begin(pod_with(first, second)))

    assert {name: Path(each.host_path).name for name, each in mounted.items()} == {
        "data": "pv-data",
        "other": "pv-other",
    }
    assert host.kind.calls == [(method, claim) for claim in ("data", "other") for method in ("mount_device", "mount")]


async def test_plugin_of_a_volume_found_on_disk_is_known_once_a_pod_needs_it(host: Host) -> None:
    await (await host.begin(claim_pod()))
    await host.kill()
    host.start()
    await host.clock.advance(0)
    assert [state.plugin for state in host.manager.states()] == ["kubernetes.io/fake"]

    await (await host.begin(claim_pod()))

    assert [state.plugin for state in host.manager.states()] == ["kubernetes.io/fake:fake.example"]


async def test_changed_volume_without_a_claim_is_processed_again(tmp_path: Path, clock: FakeClock) -> None:
    context = make_context(tmp_path, clock=clock)
    kinds = Kinds([EmptyDir(context, FakeMounter())], [])
    populator = Populator(context, kinds, None, NodeVolumes())

    async def medium_of(volume: dict[str, Any]) -> object:
        pod = pod_with({"name": "v", "emptyDir": volume})
        processed = await populator.process(pod)
        found = processed.volumes["v"].desired[pod.uid].spec.volume.empty_dir
        assert found is not None
        return found.medium

    assert [await medium_of(volume) for volume in ({}, {}, {"medium": "Memory"})] == ["", "", "Memory"]
