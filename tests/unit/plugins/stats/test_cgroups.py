"""Tests for the cgroup statistics of v1, hybrid and v2."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nodeagent_plugins.stats.cgroups import CgroupReader, CgroupStats, container_paths, path_of

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
