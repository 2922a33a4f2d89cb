"""Tests for the usage of containers from their cgroups."""

import os
from pathlib import Path

import pytest

from nodeagent_plugins.embedded_runtime import cgroups
from nodeagent_plugins.embedded_runtime.cgroups import Usage, find_groups, memory_ran_out, usage


def write(directory: Path, **files: str) -> str:
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (directory / name.replace("__", ".")).write_text(text)
    return str(directory)


def test_groups_are_found_by_version(tmp_path, monkeypatch):
    monkeypatch.setattr(cgroups, "CGROUPS", tmp_path)
    for controller in ("memory/kubepods/a", "cpu/kubepods/a", "pids/other"):
        (tmp_path / controller).mkdir(parents=True)
    memory, cpu = str(tmp_path / "memory/kubepods/a"), str(tmp_path / "cpu/kubepods/a")
    assert find_groups("/kubepods/a") == {"memory": memory, "cpu": cpu}
    (tmp_path / "cgroup.controllers").touch()
    assert find_groups("/kubepods/a") == {"": str(tmp_path / "kubepods/a")}


def test_usage_of_version_2(tmp_path):
    stat = "anon 10\ninactive_file 300\npgfault 5\npgmajfault 2\nbroken line\n"
    files = {"memory__stat": stat, "memory__current": "1000\n", "memory__swap__current": "7\n"}
    group = write(tmp_path, **files, cpu__stat="usage_usec 9\n", pids__current="3\n")

    assert usage({"": group}, os.getpid()) == Usage(9000, 1000, 700, 10, 5, 2, 7, 3)
    write(tmp_path, memory__current="100", memory__swap__current="max", pids__current="")
    found = usage({"": group}, os.getpid())
    assert (found.working_set_bytes, found.swap_bytes, found.processes) == (0, 0, 0)


def test_usage_of_version_1(tmp_path):
    stat = "total_inactive_file 300\ntotal_rss 10\ntotal_pgfault 5\ntotal_pgmajfault 2\ntotal_swap 7\n"
    memory = write(tmp_path / "memory", memory__stat=stat, memory__usage_in_bytes="1000")
    groups = {
        "memory": memory,
        "cpuacct": write(tmp_path / "cpu", cpuacct__usage="9000"),
        "pids": write(tmp_path / "pids", pids__current="3"),
    }

    assert usage(groups, os.getpid()) == Usage(9000, 1000, 700, 10, 5, 2, 7, 3)
    assert usage({"memory": memory}, 0) == Usage(0, 1000, 700, 10, 5, 2, 7, 0)


def test_usage_without_cgroups_is_that_of_the_process():
    for groups in ({}, {"": ""}):
        found = usage(groups, os.getpid())
        assert found.processes == 1
        assert found.memory_bytes == found.working_set_bytes == found.rss_bytes > 0
        assert found.page_faults > 0
    assert usage({}, 0) == Usage()


@pytest.mark.parametrize(("name", "file"), [("", "memory.events"), ("memory", "memory.oom_control")])
def test_memory_ran_out_if_a_process_was_killed(tmp_path, name, file):
    for text, expected in [("oom_kill 0\n", False), ("oom 3\noom_kill 1\n", True), ("", False)]:
        (tmp_path / file).write_text(text)
        assert memory_ran_out({name: str(tmp_path)}) is expected, text
    assert not memory_ran_out({name: str(tmp_path / "missing")})
    assert not memory_ran_out({})
