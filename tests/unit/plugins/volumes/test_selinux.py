"""Tests for SELinux labels of volumes, on a node that seems to use SELinux."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.base.metrics import Counter
from nodeagent.base.release import Release
from nodeagent.config.features import build_gates
from nodeagent.errors import VolumeError
from nodeagent.model.pod import Pod
from nodeagent.testing import FakeClock, make_container, make_pod
from nodeagent_plugins.volumes import selinux
from nodeagent_plugins.volumes.selinux import container_labels

from .host import Host

LABEL, OTHER = "system_u:object_r:container_file_t:s0:c1,c2", "system_u:object_r:container_file_t:s0:c3,c4"
CONFLICT = f'conflicting SELinux labels of volume pv-data: "{LABEL}" and "{OTHER}"'
RELEASE = Release(1, 34)
GATES = {"SELinuxMountReadWriteOncePod": True}


def labeled_pod(name: str, *levels: str | None, policy: str | None = None) -> Pod:
    """Return a pod with a container for each level, which all mount the volume."""
    containers = [
        make_container(
            f"c{index}",
            volume_mounts=[{"name": "v", "mountPath": "/v"}],
            security_context={"seLinuxOptions": {"level": level}} if level else None,
        )
        for index, level in enumerate(levels)
    ]
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    security = {"seLinuxChangePolicy": policy} if policy else None
    return make_pod(name, containers=containers, volumes=volumes, security_context=security)


@pytest.fixture(autouse=True)
def enforcing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "enforce"
    file.touch()
    monkeypatch.setattr(selinux, "ENFORCE", file)
    return file


@pytest.fixture
async def host(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Host]:
    host = Host(tmp_path / "root", clock, None, gates=build_gates(GATES))
    host.start()
    yield host
    host.kind.recover()
    await host.kill()


def label_of(host: Host) -> list[str]:
    return [desired.selinux_label for v in host.manager._reconciler.volumes.values() for desired in v.desired.values()]


@pytest.mark.parametrize(
    ("levels", "change_policy", "policy", "labels"),
    [
        (["s0:c1,c2", "s0:c1,c2"], None, True, [LABEL]),
        (["s0:c1,c2", "s0:c3,c4"], None, True, [LABEL, OTHER]),
        (["s0:c1,c2", None], None, True, [LABEL, ""]),
        (["s0:c1,c2"], "Recursive", True, [""]),
        (["s0:c1,c2"], "Recursive", False, [LABEL]),
        ([None], None, True, [""]),
    ],
)
def test_labels_of_containers(
    levels: Sequence[str | None], change_policy: str | None, policy: bool, labels: list[str]
) -> None:
    assert container_labels(labeled_pod("a", *levels, policy=change_policy), "v", policy=policy) == labels


async def test_single_pod_volume_is_mounted_with_the_label(host: Host) -> None:
    host.claims.add("data", access_modes=["ReadWriteOncePod"])
    before = selinux.ADMITTED.value("RWOP")
    mounted = await (await host.begin(labeled_pod("a", "s0:c1,c2")))
    assert mounted["v"].selinux_label == LABEL and selinux.ADMITTED.value("RWOP") == before + 1
    await host.manager.prepare(labeled_pod("a", "s0:c1,c2"))
    assert selinux.ADMITTED.value("RWOP") == before + 1


@pytest.mark.parametrize(
    ("mode", "mounted"), [("ReadWriteOncePod", True), ("ReadWriteOnce", False)], ids=["mounted", "relabeled"]
)
async def test_containers_with_different_labels(host: Host, mode: str, mounted: bool) -> None:
    host.claims.add("data", access_modes=[mode])
    counter = selinux.POD_ERRORS if mounted else selinux.POD_WARNINGS
    before = total(counter)
    task = await host.begin(labeled_pod("a", "s0:c1,c2", "s0:c3,c4"))
    assert total(counter) == before + 1
    if mounted:
        with pytest.raises(VolumeError) as raised:
            await task
        assert CONFLICT in str(raised.value)
    else:
        assert (await task)["v"].selinux_label == "" and label_of(host) == [""]


async def test_shared_volume_has_one_label_with_the_gate_for_all_modes(tmp_path: Path, clock: FakeClock) -> None:
    host = Host(tmp_path / "root", clock, None, gates=build_gates({**GATES, "SELinuxMount": True}, RELEASE))
    host.start()
    host.claims.add("data", access_modes=["ReadWriteMany"])
    await (await host.begin(labeled_pod("a", "s0:c1,c2")))
    assert label_of(host) == [LABEL]
    before = total(selinux.VOLUME_ERRORS)
    with pytest.raises(VolumeError) as raised:
        await (await host.begin(labeled_pod("b", "s0:c3,c4")))
    assert CONFLICT in str(raised.value) and total(selinux.VOLUME_ERRORS) == before + 1
    await (await host.begin(labeled_pod("c", "s0:c1,c2")))
    await host.kill()


async def test_other_labels_of_relabeled_volumes_are_only_counted(host: Host) -> None:
    host.claims.add("data")
    before = total(selinux.VOLUME_WARNINGS)
    for name, level in (("a", "s0:c1,c2"), ("b", "s0:c3,c4")):
        assert (await (await host.begin(labeled_pod(name, level))))["v"].selinux_label == ""
    assert total(selinux.VOLUME_WARNINGS) == before + 1


async def test_pod_waits_until_a_mount_with_another_label_is_released(host: Host) -> None:
    host.claims.add("data", access_modes=["ReadWriteOncePod"])
    first, second = labeled_pod("a", "s0:c1,c2"), labeled_pod("b", "s0:c3,c4")
    await (await host.begin(first))
    host.kind.fail("unmount", VolumeError("busy"))
    with pytest.raises(VolumeError, match="busy"):
        await host.end(first)
    task = await host.begin(second)
    with pytest.raises(VolumeError, match="waiting for unmount of volume pv-data, because it is already mounted to a"):
        await task
    await host.clock.advance(1)
    assert (await (await host.begin(second)))["v"].selinux_label == OTHER
    assert host.methods == ["mount_device", "mount", "unmount", "unmount_device", "mount_device", "mount"]


@pytest.mark.parametrize(("mode", "level"), [("ReadWriteOnce", "s0:c1,c2"), ("ReadWriteOncePod", None)])
async def test_volume_that_is_not_mounted_with_a_label_is_not_counted(host: Host, mode: str, level: str | None) -> None:
    host.claims.add("data", access_modes=[mode])
    before = total(selinux.ADMITTED)

    await (await host.begin(labeled_pod("a", level)))

    assert total(selinux.ADMITTED) == before


async def test_label_of_a_volume_found_on_disk_is_used_again(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.claims.add("data", access_modes=["ReadWriteOncePod"])
    pod = labeled_pod("a", "s0:c1,c2")
    await (await host.begin(pod))
    await host.kill()
    reconstruct, devices = host.kind.reconstruct, host.kind.devices_on_disk
    monkeypatch.setattr(host.kind, "reconstruct", lambda *found: replace(reconstruct(*found), selinux_label=LABEL))
    monkeypatch.setattr(
        host.kind, "devices_on_disk", lambda: [replace(device, selinux_label=LABEL) for device in devices()]
    )
    host.kind.calls.clear()

    host.start()
    await host.clock.advance(0)
    labels = [volume.selinux_label for volume in host.manager._reconciler.volumes.values()]
    mounted = await (await host.begin(pod))

    assert mounted["v"].selinux_label == LABEL and labels == [LABEL]
    assert "unmount" not in host.methods


@pytest.mark.parametrize("on_device", [True, False])
async def test_label_of_a_found_volume_may_be_that_of_its_device_only(
    host: Host, monkeypatch: pytest.MonkeyPatch, on_device: bool
) -> None:
    host.claims.add("data", access_modes=["ReadWriteOncePod"])
    await (await host.begin(labeled_pod("a", "s0:c1,c2")))
    await host.kill()
    reconstruct, devices = host.kind.reconstruct, host.kind.devices_on_disk
    if on_device:
        monkeypatch.setattr(
            host.kind, "devices_on_disk", lambda: [replace(device, selinux_label=LABEL) for device in devices()]
        )
    else:
        monkeypatch.setattr(host.kind, "reconstruct", lambda *found: replace(reconstruct(*found), selinux_label=LABEL))

    host.start()
    await host.clock.advance(0)

    assert [volume.selinux_label for volume in host.manager._reconciler.volumes.values()] == [LABEL]


async def test_host_without_selinux_needs_no_labels(host: Host, enforcing: Path) -> None:
    enforcing.unlink()
    host.claims.add("data", access_modes=["ReadWriteOncePod"])
    assert (await (await host.begin(labeled_pod("a", "s0:c1,c2", "s0:c3,c4"))))["v"].selinux_label == ""


def total(counter: Counter) -> float:
    return sum(counter.value(mode) for mode in ("RWO", "RWX", "RWOP"))
