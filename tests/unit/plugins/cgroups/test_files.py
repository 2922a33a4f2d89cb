"""Tests for the cgroup file system."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from nodeagent_plugins.cgroups.files import CgroupBusy, CgroupError, CgroupFiles
from nodeagent_plugins.cgroups.hierarchy import Hierarchy, find_hierarchy
from nodeagent_plugins.cgroups.limits import UNLIMITED, CgroupLimits

V1 = """\
31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
36 31 0:33 / /sys/fs/cgroup/devices rw - cgroup cgroup rw,devices
40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
V2 = "30 23 0:27 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def test_mounted_controllers_select_version_1():
    found = find_hierarchy(V1)
    assert found is not None and not found.unified
    assert [str(root) for root in found.roots] == [
        "/sys/fs/cgroup/memory",
        "/sys/fs/cgroup/cpu,cpuacct",
        "/sys/fs/cgroup/systemd",
    ]
    assert [str(root) for root in found.others] == ["/sys/fs/cgroup/devices", "/sys/fs/cgroup/unified"]


def test_single_mount_selects_version_2():
    assert find_hierarchy(V2) == Hierarchy(True, {"": Path("/sys/fs/cgroup")})


def test_no_mount_returns_none():
    assert find_hierarchy("23 1 0:1 / / rw - ext4 /dev/vda rw\n") is None


def read(kernel, name, *files):
    return [kernel.read(name, file) for file in files]


def opened(kernel):
    return CgroupFiles(find_hierarchy(kernel.mountinfo.read_text()), "owner")


LIMITS = CgroupLimits(cpu_shares=1024, cpu_quota=5000, cpu_period=10000, memory_bytes=99, pids=7, hugepages={"2MB": 3})


def test_limits_on_version_2(kernel_v2):
    opened(kernel_v2).make(("a", "pod1"), LIMITS)

    files = ("cpu.weight", "cpu.max", "memory.max", "pids.max", "hugetlb.2MB.max")
    assert read(kernel_v2, "/a/pod1", *files) == ["39", "5000 10000", "99", "7", "3"]
    assert set(kernel_v2.read("/a", "cgroup.controllers").split()) == {"cpu", "cpuset", "memory", "pids", "hugetlb"}


def test_limits_on_version_1(kernel_v1):
    opened(kernel_v1).make(("a", "pod1"), LIMITS)

    cpu = read(kernel_v1, "/a/pod1", "cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us")
    assert cpu == ["1024", "5000", "10000"]
    others = ("memory.limit_in_bytes", "pids.max", "hugetlb.2MB.limit_in_bytes", "cpuset.cpus", "cpuset.mems")
    assert read(kernel_v1, "/a/pod1", *others) == ["99", "7", "3", "0-3", "0"]


def test_limits_are_lifted(kernel):
    files = opened(kernel)
    files.make(("a",), LIMITS)
    files.limit(("a",), CgroupLimits(cpu_quota=UNLIMITED, memory_bytes=UNLIMITED, pids=UNLIMITED))

    if kernel.version == 1:
        assert read(kernel, "/a", "cpu.cfs_quota_us", "memory.limit_in_bytes", "pids.max") == ["-1", "-1", "max"]
        assert kernel.read("/a", "cpu.shares") == "1024"
    else:
        assert read(kernel, "/a", "cpu.max", "memory.max", "pids.max") == ["max 100000", "max", "max"]
        assert kernel.read("/a", "cpu.weight") == "39"


def test_missing_controllers_are_enabled_on_existing_parents(kernel_v2):
    kernel_v2.make("/system.slice/a")
    opened(kernel_v2).make(("system.slice", "a"))
    assert "memory" in kernel_v2.read("/system.slice", "cgroup.subtree_control")


def test_limiting_a_missing_cgroup_fails(kernel):
    with pytest.raises(CgroupError, match="failed to set limits of cgroup /gone"):
        opened(kernel).limit(("gone",), LIMITS)


def test_read_only_file_system_error_has_advice(tmp_path, monkeypatch):
    def fail(self, *args, **kwargs):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", fail)
    files = CgroupFiles(Hierarchy(False, {"memory": tmp_path}), "owner")
    with pytest.raises(CgroupError, match="set cgroupsPerQOS to false") as caught:
        files.make(("kubepods",))
    assert "/kubepods" in str(caught.value)


def test_kill_below_affects_one_container_only(kernel, monkeypatch):
    ended = []
    monkeypatch.setattr(os, "kill", lambda pid, _signal: ended.append(pid))
    files = opened(kernel)
    for name, pid in (("cri-containerd-abc.scope", 4001), ("cri-containerd-def.scope", 4002)):
        files.make(("a", "pod1", name))
        for path in kernel.directories(f"/a/pod1/{name}"):
            (path / "cgroup.procs").write_text(str(pid))

    files.kill_below(("a", "pod1"), "abc")
    files.kill_below(("a", "pod2"), "abc")

    assert set(ended) == {4001}


def test_version_2_rejects_a_memory_limit_below_the_usage(kernel_v2):
    files = opened(kernel_v2)
    files.make(("a",), LIMITS)
    kernel_v2.file("/a", "memory.current").write_text("1000")
    with pytest.raises(CgroupBusy, match="1000 bytes of memory are in use"):
        files.limit(("a",), CgroupLimits(memory_bytes=500))
    assert kernel_v2.read("/a", "memory.max") == "99"

    kernel_v2.file("/a", "memory.stat").write_text("anon 400\ninactive_file 600\n")
    files.limit(("a",), CgroupLimits(memory_bytes=500))
    assert kernel_v2.read("/a", "memory.max") == "500"


def test_cgroups_in_other_hierarchies_are_removed(kernel_v1, tmp_path):
    devices = tmp_path / "devices"
    (devices / "a/below").mkdir(parents=True)
    with kernel_v1.mountinfo.open("a") as mountinfo:
        mountinfo.write(f"1 1 0:1 / {devices} rw - cgroup cgroup rw,devices\n")
    files = opened(kernel_v1)
    files.make(("a",))
    files.remove(("a",))
    assert not kernel_v1.exists("/a")
    assert devices.is_dir() and not (devices / "a").exists()


@pytest.mark.parametrize("line", ["30 23 0:27 / - cgroup2 cgroup2 rw", "30 23 0:27 / /sys/fs/cgroup rw"])
def test_incomplete_mount_is_ignored(line):
    assert find_hierarchy(f"{line}\n{V2}") == find_hierarchy(V2)
    assert find_hierarchy(line) is None


@pytest.mark.parametrize("accounted", [True, False])
def test_swap_is_limited_where_the_kernel_accounts_it(tmp_path, accounted):
    memory = Hierarchy(False, {"memory": tmp_path}, ())
    if accounted:
        (tmp_path / "memory.memsw.limit_in_bytes").touch()

    assert memory.limits_swap() is accounted
    assert not Hierarchy(False, {"cpu": tmp_path}, ()).limits_swap()
