"""Tests for the cgroup statistics of v1, hybrid and v2."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodeagent_plugins.stats.cgroups import UNLIMITED, CgroupReader, CgroupStats, container_paths, path_of

EXPECTED = CgroupStats(
    cpu_nanoseconds=5_000_000,
    memory_bytes=10_000,
    working_set_bytes=9_000,
    rss_bytes=5000,
    cache_bytes=4000,
    mapped_file_bytes=70,
    page_faults=80,
    major_page_faults=9,
    swap_bytes=30,
    memory_limit_bytes=20_000,
)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_working_set_excludes_inactive_file_pages(fake, version):
    getattr(fake, version)()
    getattr(fake, f"cgroup_{version}")("/a/b", cpu=5_000_000, memory=10_000, limit=20_000)

    expected = replace(EXPECTED, swap_limit_bytes=50 if version == "v2" else None)
    assert CgroupReader.find(fake.machine).account("/a/b") == expected


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_missing_limit_is_none(fake, version):
    getattr(fake, version)()
    getattr(fake, f"cgroup_{version}")("/a", cpu=1000, memory=500)

    account = CgroupReader.find(fake.machine).account("/a")

    assert (account.memory_limit_bytes, account.working_set_bytes) == (None, 0)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_removed_cgroup_has_no_statistics(fake, version):
    getattr(fake, version)()

    reader = CgroupReader.find(fake.machine)

    assert (reader.account("/gone"), reader.processes("/gone"), reader.exists("/gone")) == (None, [], False)


def test_root_is_limited_by_the_memory_of_the_host(fake):
    fake.v1()
    fake.cgroup_v1("", cpu=7, memory=10_000)

    root = CgroupReader.find(fake.machine).root()

    assert (root.cpu_nanoseconds, root.working_set_bytes, root.memory_limit_bytes) == (7, 9_000, 1000 * 1024)
    assert root.swap_bytes == 5 * 1024


def test_values_missing_in_the_v2_root_come_from_proc(fake):
    fake.v2()
    fake.put("sys/fs/cgroup/memory.stat", "anon 1\ninactive_file 1000\n")

    root = CgroupReader.find(fake.machine).root()

    assert (root.memory_bytes, root.working_set_bytes) == (600 * 1024, 600 * 1024 - 1000)
    assert root.cpu_nanoseconds == 20 * 10_000_000


@pytest.mark.parametrize(("version", "own"), [("v1", "/agent"), ("v2", "/agent")])
def test_cgroup_of_a_process_is_found_in_the_memory_hierarchy(fake, version, own):
    getattr(fake, version)()

    assert CgroupReader.find(fake.machine).own() == own


def test_host_without_cgroups_is_measured_by_proc(fake):
    fake.put("proc/self/mountinfo", "")
    reader = CgroupReader.find(fake.machine)

    assert (reader.account("/a"), reader.own(), reader.root().memory_bytes) == (None, "/", 600 * 1024)


@pytest.mark.parametrize(
    ("parent", "path"),
    [
        ("/kubepods/burstable/podu1", "/kubepods/burstable/podu1"),
        ("kubepods-burstable-podu1.slice", "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu1.slice"),
        ("kubepods.slice", "/kubepods.slice"),
        ("", ""),
    ],
)
def test_slice_is_below_the_slices_of_its_prefixes(parent, path):
    assert path_of(parent) == path


def test_container_cgroup_depends_on_the_runtime():
    assert "/kubepods/podu1/c1" in container_paths("/kubepods/podu1", "c1")
    assert "/kubepods.slice/cri-containerd-c1.scope" in container_paths("kubepods.slice", "c1")
    assert "/k8s.io/c1" in container_paths("", "c1")


@pytest.mark.parametrize(
    "line",
    [
        "40 24 0:30 /sys/fs/cgroup/short - cgroup2 cgroup2 rw",
        "40 24 0:30 / /sys/fs/cgroup/short rw",
        "40 24 0:30 / /sys/fs/cgroup/short rw - cgroup cgroup",
        "40 24 0:30 / /sys/fs/cgroup/short rw - tmpfs tmpfs rw,memory",
    ],
)
def test_other_mounts_are_no_cgroups(fake, line):
    fake.put("proc/self/mountinfo", f"{line}\n")

    assert CgroupReader.find(fake.machine).path("memory", "/a") is None


@pytest.mark.parametrize("controller", ["memory", "cpuacct"])
def test_cgroup_is_found_with_one_controller(fake, controller):
    fake.put("proc/self/mountinfo", f"30 24 0:26 / /sys/fs/cgroup/{controller} rw - cgroup cgroup rw,{controller}\n")
    fake.cgroup_v1("/a/b", cpu=5, memory=10_000)
    reader = CgroupReader.find(fake.machine)

    assert (reader.exists("/a"), reader.exists("/none"), reader.children("/a")) == (True, False, ["/a/b"])
    assert (reader.created_at("/a") > 0, reader.created_at("/none")) == (True, 0)
    account = reader.account("/a/b")
    assert (account.cpu_nanoseconds, account.memory_bytes) == ((None, 10_000) if controller == "memory" else (5, None))


def test_host_without_cgroups_has_no_children(fake):
    fake.put("proc/self/mountinfo", "")
    reader = CgroupReader.find(fake.machine)

    assert (reader.children("/a"), reader.exists("/a"), reader.created_at("/a")) == ([], False, 0)


@pytest.mark.parametrize(("limit", "reported"), [(UNLIMITED, None), (UNLIMITED - 4096, UNLIMITED - 4096)])
def test_limit_of_version_1_can_be_unlimited(fake, limit, reported):
    fake.v1()
    fake.cgroup_v1("/a", cpu=5, memory=10_000, limit=limit)

    assert CgroupReader.find(fake.machine).account("/a").memory_limit_bytes == reported


def test_containers_of_crio_are_scopes_of_slices():
    assert "/kubepods/crio-c1" in container_paths("/kubepods", "c1")
    assert "/kubepods.slice/crio-c1" not in container_paths("kubepods.slice", "c1")
