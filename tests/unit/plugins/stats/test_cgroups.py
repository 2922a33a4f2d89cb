"""Accounts of cgroups are read alike on v1, hybrid and v2."""

from __future__ import annotations

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
def test_the_working_set_leaves_out_file_pages_that_were_not_used_lately(fake, version):
    getattr(fake, version)()
    getattr(fake, f"cgroup_{version}")("/a/b", cpu=5_000_000, memory=10_000, limit=20_000)

    assert CgroupReader.find(fake.machine).account("/a/b") == EXPECTED


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_without_a_limit_there_is_none(fake, version):
    getattr(fake, version)()
    getattr(fake, f"cgroup_{version}")("/a", cpu=1000, memory=500)

    account = CgroupReader.find(fake.machine).account("/a")

    assert (account.memory_limit_bytes, account.working_set_bytes) == (None, 0)


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_a_cgroup_that_is_gone_has_no_account(fake, version):
    getattr(fake, version)()

    reader = CgroupReader.find(fake.machine)

    assert (reader.account("/gone"), reader.processes("/gone"), reader.exists("/gone")) == (None, [], False)


def test_the_whole_machine_is_limited_by_its_memory(fake):
    fake.v1()
    fake.cgroup_v1("", cpu=7, memory=10_000)

    root = CgroupReader.find(fake.machine).root()

    assert (root.cpu_nanoseconds, root.working_set_bytes, root.memory_limit_bytes) == (7, 9_000, 1000 * 1024)
    assert root.swap_bytes == 5 * 1024


def test_what_the_topmost_cgroup_of_v2_does_not_tell_comes_from_proc(fake):
    fake.v2()
    fake.put("sys/fs/cgroup/memory.stat", "anon 1\ninactive_file 1000\n")

    root = CgroupReader.find(fake.machine).root()

    assert (root.memory_bytes, root.working_set_bytes) == (600 * 1024, 600 * 1024 - 1000)
    assert root.cpu_nanoseconds == 20 * 10_000_000


@pytest.mark.parametrize(("version", "own"), [("v1", "/agent"), ("v2", "/agent")])
def test_the_cgroup_of_a_process_is_found_by_its_memory(fake, version, own):
    getattr(fake, version)()

    assert CgroupReader.find(fake.machine).own() == own


def test_a_machine_without_cgroups_is_measured_by_proc_alone(fake):
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
def test_a_slice_lies_below_the_slices_of_its_prefixes(parent, path):
    assert path_of(parent) == path


def test_runtimes_name_a_containers_cgroup_in_their_own_ways():
    assert "/kubepods/podu1/c1" in container_paths("/kubepods/podu1", "c1")
    assert "/kubepods.slice/cri-containerd-c1.scope" in container_paths("kubepods.slice", "c1")
    assert "/k8s.io/c1" in container_paths("", "c1")
