"""Tests for the states of volumes that operators see: phase, call, paths, errors and next attempt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nodeagent.contracts.api import NODES
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.persistent_volumes import VolumeState
from nodeagent.errors import VolumeError
from nodeagent.testing import FakeApi, FakeClock, FakeVolumeKind
from nodeagent.testing.context import make_config
from nodeagent.testing.persistent_volumes import uncertain
from nodeagent_plugins.volumes.manager import Manager

from .conftest import FakeMounter, pod_with
from .host import Host, claim_pod, running

NAME = "kubernetes.io/fake/fake.example^data"


@pytest.fixture
async def host(tmp_path: Path, clock: FakeClock) -> AsyncIterator[Host]:
    async with running(tmp_path, clock) as host:
        yield host


def only(host: Host, pod_uid: str = "") -> VolumeState:
    (state,) = host.manager.states(pod_uid)
    return state


async def test_volume_has_the_phase_and_the_call_of_its_running_operation(host: Host) -> None:
    pod, since = claim_pod(), host.clock.now()
    directory = host.root / "pods/uid-web/volumes/kubernetes.io~fake/pv-data"
    host.kind.hang("mount_device")
    task = await host.begin(pod)
    for method, phase, call in (("mount_device", "Staging", "MountDevice"), ("mount", "Mounting", "SetUp")):
        state = only(host)
        assert (state.phase, state.call, state.running_since) == (phase, call, since), method
        assert (state.pod_uid, state.volume, state.name, state.path) == (pod.uid, "v", "pv-data", str(directory))
        assert (state.claim, state.claim_namespace, state.error, state.next_attempt) == ("data", "default", "", 0.0)
        host.kind.hang("mount")
        host.kind.recover(method)
        await host.clock.advance(0)
    await task
    state = only(host, pod.uid)
    assert (state.phase, state.call, state.running_since) == ("Mounted", "", 0.0)

    host.kind.hang("unmount")
    host.running.discard(pod.uid)
    ending = asyncio.create_task(host.manager.release(pod.uid))
    await host.clock.advance(0)
    state = only(host)
    assert (state.phase, state.call, state.pod_uid, state.volume) == ("Unmounting", "TearDown", pod.uid, "v")
    assert (state.name, state.claim, state.path) == ("pv-data", "data", str(directory))
    host.kind.hang("unmount_device")
    host.kind.recover("unmount")
    await host.clock.advance(0)
    await ending
    state = only(host)
    assert (state.phase, state.call, state.pod_uid, state.volume) == ("Unstaging", "UnmountDevice", "", "")
    assert (state.name, state.path) == ("data", str(host.root / "plugins/kubernetes.io/fake/data"))
    assert (state.kind, state.plugin) == ("kubernetes.io~fake", "kubernetes.io/fake:fake.example")
    assert host.manager.states(pod.uid) == []


async def test_failed_operation_has_its_call_its_error_and_the_next_attempt(host: Host) -> None:
    pod = claim_pod()
    host.kind.fail("mount", uncertain("broken"))
    await host.begin(pod)
    state = only(host)
    assert (state.phase, state.call, state.error) == ("Uncertain", "SetUp", "broken")
    assert (state.running_since, state.next_attempt) == (0.0, host.clock.now() + 0.5)

    host.kind.hang("mount")
    await host.clock.advance(0.5)
    state = only(host)
    assert (state.phase, state.error, state.next_attempt) == ("Mounting", "broken", 0.0)
    assert state.running_since == host.clock.now()
    host.kind.recover("mount")
    await host.clock.advance(0)
    assert (only(host).phase, only(host).error) == ("Mounted", "")

    host.kind.fail("unmount_device", VolumeError("busy"))
    await host.end(pod)
    await host.clock.advance(0)
    state = only(host)
    assert (state.phase, state.call, state.error) == ("Unstaging", "UnmountDevice", "busy")
    assert state.next_attempt > host.clock.now()


async def test_mounted_volume_stays_mounted_while_its_content_is_refreshed(host: Host) -> None:
    pod = claim_pod()
    await (await host.begin(pod))
    host.kind.refreshes = True
    host.kind.hang("mount")

    await host.begin(pod)

    assert (only(host).phase, only(host).call) == ("Mounted", "SetUp")


async def test_states_are_those_of_one_pod_or_of_all_sorted(host: Host) -> None:
    host.claims.add("other")
    pods = [claim_pod("b"), claim_pod("a", "other"), claim_pod("c", "missing")]
    ephemeral = pod_with({"name": "e", "ephemeral": {}}, name="d")
    host.claims.fail("resolve", VolumeError("e: PVC default/d-e was not found"))
    for pod in (ephemeral, *pods):
        await host.begin(pod)

    states = [(s.pod_uid, s.volume, s.claim, s.claim_namespace, s.phase, s.error) for s in host.manager.states()]

    expected = [
        ("uid-a", "v", "other", "default", "Mounted", ""),
        ("uid-b", "v", "data", "default", "Mounted", ""),
        ("uid-c", "v", "missing", "default", "Resolving", "error processing PVC default/missing: PVC is not bound"),
        ("uid-d", "e", "d-e", "default", "Resolving", "PVC default/d-e was not found"),
    ]
    assert states == expected
    for uid, *rest in expected:
        state = only(host, uid)
        assert [state.volume, state.claim, state.claim_namespace, state.phase, state.error] == rest
    assert host.manager.states("unknown") == []


async def test_volume_found_after_a_restart_has_the_name_of_its_directory(host: Host) -> None:
    pod = claim_pod()
    await (await host.begin(pod))
    await host.kill()
    host.start()
    await host.clock.advance(0)

    states = {state.pod_uid: state for state in host.manager.states()}

    assert (states[pod.uid].name, states[pod.uid].phase) == ("pv-data", "Unmounting")
    assert states[pod.uid].path == str(host.root / "pods/uid-web/volumes/kubernetes.io~fake/pv-data")
    assert (states[pod.uid].volume, states[pod.uid].claim) == ("", "")


async def test_directory_that_cannot_be_identified_is_reported_with_its_error(host: Host) -> None:
    pod = claim_pod()
    await (await host.begin(pod))
    await host.kill()
    directory = host.kind.published()[0]
    (directory / "handle").unlink()
    (directory / "precious").touch()
    host.running.clear()
    host.start()
    await host.clock.advance(0)

    (state,) = [state for state in host.manager.states(pod.uid) if state.error]

    assert (state.pod_uid, state.name, state.kind, state.phase) == (
        pod.uid,
        "pv-data",
        "kubernetes.io~fake",
        "Uncertain",
    )
    assert (state.path, state.volume, state.claim) == (str(directory), "", "")
    assert [state for state in host.manager.states("other") if state.error] == []


async def test_pending_volumes_are_those_not_mounted_since_their_request(host: Host) -> None:
    pod = claim_pod()
    host.kind.hang("mount_device")
    assert host.manager.pending(pod.uid) == {}
    started = host.clock.now()
    await host.begin(pod)
    await host.clock.advance(5)
    pending = host.manager.pending(pod.uid)
    host.kind.recover("mount_device")
    await host.clock.advance(0)

    assert pending == {"v": started}
    assert host.manager.pending(pod.uid) == {}


async def test_volume_of_a_terminated_pod_is_detached_last(tmp_path: Path, clock: FakeClock) -> None:
    api = FakeApi(clock)
    host = Host(tmp_path, clock, api, config=make_config(enable_controller_attach_detach=False))
    api.put(NODES, host.node)
    host.claims.add("data")
    host.kind.needs_attach = True
    host.start()
    await clock.advance(0)
    host.kind.hang("wait_for_attach")
    await host.begin(claim_pod())
    assert (only(host).phase, only(host).call) == ("Attaching", "WaitForAttach")
    host.kind.recover("wait_for_attach")
    await clock.advance(0)
    host.kind.hang("detach")
    await host.end(claim_pod())
    await clock.advance(0)

    state = only(host)

    assert (state.phase, state.call, state.pod_uid, state.name) == ("Detaching", "Detach", "", NAME)
    assert state.path == ""
    host.kind.recover()
    await host.kill()


async def test_empty_dir_is_pending_only_while_it_is_set_up(
    context: AgentContext, clock: FakeClock, mounter: FakeMounter
) -> None:
    kind, pod = FakeVolumeKind(), pod_with({"name": "v", "emptyDir": {}})
    manager, started = Manager(context, [kind], mounter), context.clock.now()
    kind.hang("setup")
    task = asyncio.create_task(manager.prepare(pod))
    await clock.advance(0)
    assert manager.pending(pod.uid) == {"v": started}
    kind.fail("setup", VolumeError("broken"))
    kind._hangs.pop("setup").set()
    with pytest.raises(VolumeError, match="broken"):
        await task

    assert manager.pending(pod.uid) == {}
    (state,) = manager.states(pod.uid)
    assert (state.phase, state.call, state.error, state.next_attempt) == ("Mounting", "SetUp", "broken", 0.0)
    await manager.prepare(pod)
    assert manager.states(pod.uid)[0].phase == "Mounted" and manager.pending(pod.uid) == {}


async def test_pending_volume_has_the_earlier_of_request_and_operation(host: Host) -> None:
    host.kind.fail("mount", VolumeError("rejected"), times=2)
    started = host.clock.now()
    await host.begin(claim_pod())
    await host.clock.advance(0.25)
    assert host.manager.pending("uid-web") == {"v": started}
    host.kind.hang("mount")
    await host.clock.advance(1)
    assert host.manager.pending("uid-web") == {"v": started}


@pytest.mark.parametrize(("text", "error"), [("", "no volume plugin supports it"), ("unreadable", "unreadable")])
async def test_volume_that_was_found_without_a_kind_has_an_error(host: Host, text: str, error: str) -> None:
    path = host.root / "pods/u/volumes/example.com~gone/data"
    host.manager._startup.failed[path] = text

    state = only(host, "u")

    assert (state.pod_uid, state.name, state.phase, state.error) == ("u", "data", "Uncertain", error)
    assert list(host.manager.states("other")) == []


async def test_empty_dir_is_pending_since_its_current_attempt(
    context: AgentContext, clock: FakeClock, mounter: FakeMounter
) -> None:
    kind, pod = FakeVolumeKind(), pod_with({"name": "v", "emptyDir": {}})
    manager = Manager(context, [kind], mounter)
    kind.fail("setup", VolumeError("broken"))
    with pytest.raises(VolumeError, match="broken"):
        await manager.prepare(pod)
    await clock.advance(5)
    kind.hang("setup")
    task = asyncio.create_task(manager.prepare(pod))
    await clock.advance(1)

    assert manager.pending(pod.uid) == {"v": clock.now() - 1}
    kind.recover("setup")
    await task
