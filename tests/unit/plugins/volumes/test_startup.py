"""Tests for volumes of an earlier process: nothing is unmounted too early, and all are found."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from nodeagent.contracts.api import NODES
from nodeagent.errors import VolumeError
from nodeagent.testing import FakeApi, FakeClock
from nodeagent.testing.context import make_config
from nodeagent_plugins.volumes import startup
from nodeagent_plugins.volumes.kinds import Kinds
from nodeagent_plugins.volumes.manager import Manager
from nodeagent_plugins.volumes.metrics import FORCE_CLEANED, FORCE_CLEANED_ERRORS, RECONSTRUCTED, RECONSTRUCTION_ERRORS
from nodeagent_plugins.volumes.reconstruction import FoundVolumes, find_volumes
from nodeagent_plugins.volumes.startup import CHECK_SECONDS

from .conftest import pod_with
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


async def test_failure_without_a_message_is_reported_with_its_class(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    await host.begin(claim_pod())
    await host.kill()

    def fail(*arguments: object) -> None:
        raise KeyError

    monkeypatch.setattr(host.kind, "reconstruct", fail)
    monkeypatch.setattr(host.kind, "devices_on_disk", fail)
    host.start()
    await host.clock.advance(0)
    assert [(state.name, state.error) for state in host.manager.states() if state.error] == [
        ("kubernetes.io~fake", "KeyError"),
        ("pv-data", "KeyError"),
    ]


async def test_unidentified_volume_stays_in_use_until_its_directory_is_removed(attached: Host) -> None:
    host, pod = attached, claim_pod()
    await host.begin(pod)
    host.report()
    await host.clock.advance(0)
    await host.kill()
    (directory,) = host.kind.published()
    content = (directory / "handle").read_text()
    (directory / "handle").rename(directory / "precious")
    host.kind.requested.clear()
    host.running.clear()
    cleaned = FORCE_CLEANED.value(), FORCE_CLEANED_ERRORS.value()
    found = RECONSTRUCTED.value(), RECONSTRUCTION_ERRORS.value()
    host.start()
    await host.clock.advance(0)
    assert host.manager.volumes_in_use() == [NAME]
    assert (RECONSTRUCTED.value(), RECONSTRUCTION_ERRORS.value()) == (found[0] + 1, found[1] + 1)
    await host.manager.release(pod.uid)
    assert host.manager.volumes_in_use() == [NAME] and len(host.manager.states(pod.uid)) == 1
    assert (FORCE_CLEANED.value(), FORCE_CLEANED_ERRORS.value()) == (cleaned[0] + 1, cleaned[1] + 1)
    (directory / "precious").unlink()
    directory.rmdir()
    await host.manager.release(pod.uid)
    assert content == "data" and host.manager.states(pod.uid) == []
    assert (RECONSTRUCTED.value(), RECONSTRUCTION_ERRORS.value()) == (found[0] + 1, found[1] + 1)
    assert (FORCE_CLEANED.value(), FORCE_CLEANED_ERRORS.value()) == (cleaned[0] + 2, cleaned[1] + 1)


async def test_plugin_of_a_volume_found_on_disk_is_that_of_its_source(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    await host.begin(claim_pod())
    await host.kill()
    reconstruct, spec = host.kind.reconstruct, host.claims.specs["data"]
    monkeypatch.setattr(host.kind, "reconstruct", lambda *found: replace(reconstruct(*found), spec=spec))

    host.start()
    await host.clock.advance(0)

    assert [state.plugin for state in host.manager.states()] == ["kubernetes.io/fake:fake.example"]


async def test_directory_of_an_unknown_kind_is_not_counted(host: Host) -> None:
    pod = claim_pod()
    await host.kill()
    (host.context.pod_dir(pod.uid) / "volumes/example.com~gone/data").mkdir(parents=True)
    found = RECONSTRUCTED.value(), RECONSTRUCTION_ERRORS.value()
    host.start()
    await host.clock.advance(0)
    await host.manager.release(pod.uid)

    assert (RECONSTRUCTED.value(), RECONSTRUCTION_ERRORS.value()) == found


async def test_volume_that_is_identified_later_is_released(host: Host) -> None:
    pod = claim_pod()
    await host.begin(pod)
    await host.kill()
    (directory,) = host.kind.published()
    (directory / "handle").rename(directory / "precious")
    host.start()
    await host.clock.advance(0)
    assert [state.error != "" for state in host.manager.states(pod.uid)] == [True]
    (directory / "precious").rename(directory / "handle")
    host.running.clear()
    await host.manager.release(pod.uid)
    await host.clock.advance(0)
    assert host.manager.states() == [] and host.methods[-1] == "unmount"


@pytest.mark.parametrize(
    ("status", "in_use"),
    [
        ({}, []),
        ({"volumesInUse": None, "volumesAttached": None}, []),
        ({"volumesInUse": [NAME]}, [NAME]),
        ({"volumesAttached": [{"name": NAME, "devicePath": "/dev/x"}]}, [NAME]),
        ({"volumesInUse": ["other"], "volumesAttached": [{"name": "other"}]}, []),
    ],
)
async def test_volume_found_on_disk_is_in_use_if_it_was_reported_or_is_attached(
    attached: Host, status: dict[str, object], in_use: list[str]
) -> None:
    host = attached
    await host.begin(claim_pod())
    host.report()
    await host.clock.advance(0)
    await host.kill()
    assert host.api is not None
    host.api.put(NODES, {"metadata": {"name": "node-1"}, "status": status})
    host.start()
    await host.clock.advance(0)
    assert host.manager.volumes_in_use() == in_use


async def test_volumes_without_attachment_need_no_node_status(host: Host) -> None:
    await host.begin(claim_pod())
    await host.kill()
    host.start()
    await host.clock.advance(0)
    assert host.manager.volumes_in_use() == []


async def test_change_of_the_node_leaves_mounted_volumes_unchanged(attached: Host) -> None:
    host = attached
    await host.begin(claim_pod())
    host.report()
    await host.clock.advance(0)
    assert host.methods == ["mount_device", "mount"]
    host.kind.refreshes = True
    await host.begin(claim_pod())
    for listener in host.listeners:
        listener()
    await host.clock.advance(0)
    assert host.methods == ["mount_device", "mount", "refresh"]


async def test_found_volumes_are_checked_every_minute(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = claim_pod()
    host.kind.fail("unmount", VolumeError("busy"))
    await host.begin(pod)
    with pytest.raises(VolumeError, match="busy"):
        await host.end(pod)
    await host.clock.advance(CHECK_SECONDS)
    assert host.manager.states() == []


async def test_unreadable_pod_directory_fails_pods_until_it_can_be_read(
    tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, problems = Host(tmp_path, clock, None), [OSError(5, "Input/output error")]
    host.claims.add("data")

    def find(pods: Path, kinds: Kinds) -> FoundVolumes:
        if problems:
            raise problems.pop()
        return find_volumes(pods, kinds)

    monkeypatch.setattr(startup, "find_volumes", find)
    manager = new_manager(host)
    with pytest.raises(VolumeError, match=r"failed to find the volumes of an earlier process: .*Input/output error"):
        await manager.prepare(claim_pod())
    host.running.add("uid-web")
    mounted = await manager.prepare(claim_pod())
    assert mounted["v"].volume_name == "pv-data"
    await host.context.tasks.close()


def new_manager(host: Host) -> Manager:
    """Return a manager whose loop does not run."""
    manager = host.start()
    host.tasks.pop().cancel()
    return manager
