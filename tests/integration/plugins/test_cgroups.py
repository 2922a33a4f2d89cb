"""Cgroups on the kernel of this machine: made with their limits, listed by owner, emptied and removed."""

from __future__ import annotations

import asyncio
import os
import uuid
from pathlib import Path

import pytest
from nodeagent_plugins import cgroups

from nodeagent.testing import load_plugin, make_config, make_container, make_context, make_pod

FULL = {"limits": {"cpu": "500m", "memory": "64Mi"}}


@pytest.fixture
def root():
    """A cgroup of this test alone."""
    name = f"nodeagent-test-{uuid.uuid4().hex[:8]}"
    yield name
    mount = Path("/sys/fs/cgroup")
    for place in [*mount.glob(f"*/{name}/**/"), *mount.glob(f"{name}/**/")]:
        assert place.name in (name, "kubepods", "burstable", "besteffort"), f"left over: {place}"
    for place in [*mount.glob(f"*/{name}"), *mount.glob(name)]:
        for directory, _, _ in os.walk(place, topdown=False):
            os.rmdir(directory)


def make_manager(tmp_path, root):
    context = make_context(tmp_path, config=make_config(cgroup_root=f"/{root}"))
    return load_plugin(cgroups).provide("nodeagent_provide_cgroups", context=context)


def places(manager, pod):
    return manager._files.hierarchy.places(tuple(manager.parent_of(pod).strip("/").split("/")))


async def test_makes_lists_and_removes_the_cgroup_of_a_pod(tmp_path, root):
    manager = make_manager(tmp_path, root)
    pod = make_pod(uid=str(uuid.uuid4()), containers=[make_container(resources=FULL)])

    await manager.ensure_pod(pod)
    await manager.ensure_pod(pod)

    assert manager.parent_of(pod) == f"/{root}/kubepods/pod{pod.uid}"
    assert all(place.is_dir() for place in places(manager, pod))
    hierarchy = manager._files.hierarchy
    name = (root, "kubepods", f"pod{pod.uid}")
    memory = hierarchy.file("memory", name, "memory.max" if hierarchy.unified else "memory.limit_in_bytes")
    cpu = hierarchy.file("cpu", name, "cpu.max" if hierarchy.unified else "cpu.cfs_quota_us")
    assert int(memory.read_text()) == 64 * 1024**2
    assert cpu.read_text().split()[0] == "50000"
    assert await make_manager(tmp_path, root).pods() == [pod.uid]

    await manager.remove_pod(pod.uid)
    await manager.remove_pod(pod.uid)
    assert await manager.pods() == []
    assert not any(place.exists() for place in places(manager, pod))


async def test_another_agents_pods_are_not_listed(tmp_path, root):
    pod = make_pod(uid="theirs", containers=[make_container(resources=FULL)])
    theirs, ours = make_manager(tmp_path / "theirs", root), make_manager(tmp_path / "ours", root)
    await theirs.ensure_pod(pod)
    assert await ours.pods() == []
    await theirs.remove_pod("theirs")


async def test_kills_what_is_left_before_removing(tmp_path, root):
    manager = make_manager(tmp_path, root)
    pod = make_pod(uid="leftover")
    await manager.ensure_pod(pod)
    below = [place / "container" for place in places(manager, pod)]
    manager._files.make((root, "kubepods", "besteffort", "podleftover", "container"))
    process = await asyncio.create_subprocess_exec("sleep", "1000")
    for place in below:
        (place / "cgroup.procs").write_text(str(process.pid))

    await make_manager(tmp_path, root).remove_pod("leftover")

    assert await asyncio.wait_for(process.wait(), 10) == -9
    assert not any(place.exists() for place in places(manager, pod))
