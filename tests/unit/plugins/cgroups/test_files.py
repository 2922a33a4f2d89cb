"""The hierarchy is found in the mount table, and limits go to the files of its version."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest
from nodeagent_plugins.cgroups.hierarchy import CgroupError, CgroupFiles, Hierarchy, find_hierarchy
from nodeagent_plugins.cgroups.manager import FileCgroups
from nodeagent_plugins.cgroups.resources import Policy

from nodeagent.contracts.runtime import LinuxResources
from nodeagent.testing import make_container, make_pod

V1 = """\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
36 31 0:33 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices
40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
V2 = "30 23 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def test_controllers_decide_for_version_1():
    found = find_hierarchy(V1)
    assert found is not None and not found.unified
    assert [str(root) for root in found.roots] == [
        "/sys/fs/cgroup/memory",
        "/sys/fs/cgroup/cpu,cpuacct",
        "/sys/fs/cgroup/systemd",
    ]


def test_one_mount_without_others_is_version_2():
    assert find_hierarchy(V2) == Hierarchy(True, {"": Path("/sys/fs/cgroup")})


def test_no_mount_is_no_hierarchy():
    assert find_hierarchy("23 1 0:1 / / rw - ext4 /dev/vda rw\n") is None


def prepared(place, *names):
    place.mkdir(parents=True, exist_ok=True)
    for name in names:
        (place / name).write_text("")


def test_limits_on_version_2(tmp_path):
    prepared(tmp_path, "cgroup.subtree_control")
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu io memory pids")
    place = tmp_path / "pod1"
    files = CgroupFiles(Hierarchy(True, {"": tmp_path}), "owner")
    files.make(("pod1",))
    prepared(place, "cpu.weight", "cpu.max", "memory.max", "pids.max")

    files.make(("pod1",), LinuxResources(cpu_shares=1024, cpu_quota=5000, cpu_period=10000, memory_limit_bytes=99), 7)

    def read(name):
        return (place / name).read_text()

    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu +cpuset +memory +pids"
    assert [read(n) for n in ("cpu.weight", "cpu.max", "memory.max", "pids.max")] == ["39", "5000 10000", "99", "7"]


def test_limits_on_version_1(tmp_path):
    mounts = {"memory": tmp_path / "memory", "cpu": tmp_path / "cpu"}
    for mount in mounts.values():
        mount.mkdir()
    files = CgroupFiles(Hierarchy(False, mounts), "owner")
    files.make(("a", "pod1"))
    cpu, memory = (mounts[name] / "a/pod1" for name in ("cpu", "memory"))
    prepared(cpu, "cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us")
    prepared(memory, "memory.limit_in_bytes")

    files.make(("a", "pod1"), LinuxResources(cpu_shares=1024, cpu_quota=5000, cpu_period=10000), 7)

    assert (cpu / "cpu.shares").read_text() == "1024"
    assert (cpu / "cpu.cfs_quota_us").read_text() == "5000"
    assert (cpu / "cpu.cfs_period_us").read_text() == "10000"
    assert (memory / "memory.limit_in_bytes").read_text() == "-1"


def test_a_read_only_file_system_is_explained(tmp_path, monkeypatch):
    def refuse(self, *args, **kwargs):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refuse)
    files = CgroupFiles(Hierarchy(False, {"memory": tmp_path}), "owner")
    with pytest.raises(CgroupError, match="set cgroupsPerQOS to false") as caught:
        files.make(("kubepods",))
    assert "/kubepods" in str(caught.value)


class FakeFiles:
    """Remembers what would be done to cgroups."""

    def __init__(self):
        self.made, self.shares, self.removed, self.marked = {}, {}, [], []

    def make(self, name, limits=None, pids_limit=0):
        self.made.setdefault(name, []).append((limits, pids_limit))

    def set_shares(self, name, shares):
        self.shares[name] = shares

    def mark(self, name):
        self.marked.append(name)

    def children(self, name):
        return [made[-1] for made in self.made if made[:-1] == name] + (["podold"] if name == ("kubepods",) else [])

    def remove(self, name):
        self.removed.append(name)


def burstable(name, cpu):
    return make_pod(name, containers=[make_container(resources={"requests": {"cpu": cpu}})])


@pytest.fixture
def files():
    return FakeFiles()


@pytest.fixture
def manager(files):
    return FileCgroups(Policy(), (), files, pids_limit=50)


async def test_a_pod_gets_its_cgroup_once_while_nothing_changes(manager, files):
    for _ in range(3):
        await manager.ensure_pod(burstable("a", "100m"))
    assert files.made["kubepods", "burstable", "poduid-a"] == [(LinuxResources(cpu_shares=102), 50)]
    assert files.marked == [("kubepods", "burstable", "poduid-a")]


async def test_classes_weigh_what_their_pods_ask_for(manager, files):
    await manager.ensure_pod(burstable("a", "100m"))
    await manager.ensure_pod(burstable("b", "900m"))
    await manager.ensure_pod(make_pod("c"))
    assert files.shares == {("kubepods", "burstable"): 1024, ("kubepods", "besteffort"): 2}


async def test_removal_goes_to_the_known_class_or_to_all(manager, files):
    await manager.ensure_pod(burstable("a", "100m"))
    await manager.remove_pod("uid-a")
    assert files.removed == [("kubepods", "burstable", "poduid-a")]
    await manager.remove_pod("other")
    assert len(files.removed) == 4


async def test_pods_of_an_earlier_run_are_found(manager, files):
    await manager.ensure_pod(burstable("a", "100m"))
    assert await manager.pods() == ["old", "uid-a"]
