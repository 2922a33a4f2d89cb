"""Tests for reading the topology."""

from __future__ import annotations

import pytest

from nodeagent.errors import NodeAgentError
from nodeagent_plugins.resource_managers.topology import CpuLocation, NumaNode, format_cpu_list, read_topology

from .conftest import GI, put, write_host


def test_threads_cores_nodes_and_sockets_are_distinguished(topology):
    assert topology.cpus[13] == CpuLocation(core=5, socket=1, node=2, cache=4)
    assert topology.within("core", [5]) == {5, 13}
    assert topology.within("node", [2]) == {4, 5, 12, 13}
    assert topology.within("socket", [1]) == {4, 5, 6, 7, 12, 13, 14, 15}
    assert topology.cpus_per_core == 2
    assert topology.ids("socket", [0, 1]) == {0}


def test_memory_huge_pages_and_distances_belong_to_nodes(tmp_path):
    topology = read_topology(write_host(tmp_path, huge_2mi=512))
    assert topology.nodes[3] == NumaNode(4 * GI, {"hugepages-2Mi": GI}, {0: 15, 1: 20, 2: 20, 3: 10})


def test_kernel_without_numa_has_one_node(tmp_path):
    topology = read_topology(write_host(tmp_path, sockets=1, cores=2, threads=1, numa=False))
    assert dict(topology.nodes) == {0: NumaNode(4 * GI)}
    assert topology.within("node", [0]) == {0, 1}


def test_offline_cpus_are_ignored(machine):
    put(machine / "sys/devices/system/cpu/online", "0-11")
    assert read_topology(machine).all == frozenset(range(12))


def test_host_without_cpu_list_is_rejected(tmp_path):
    with pytest.raises(NodeAgentError, match="lists no CPUs"):
        read_topology(tmp_path)


def test_lists_have_the_kernel_format():
    assert format_cpu_list([8, 2, 0, 1, 3]) == "0-3,8"
    assert format_cpu_list([]) == ""


@pytest.mark.parametrize(
    ("nodes", "caches", "expected"),
    [(2, 4, {0, 2, 4, 6}), (2, 2, {0, 4}), (2, 0, {0, 4}), (4, 2, {0, 4})],
)
def test_caches_divide_the_cpus_of_a_socket(tmp_path, nodes, caches, expected):
    topology = read_topology(write_host(tmp_path, nodes=nodes, caches=caches))
    assert topology.ids("cache") == expected


@pytest.mark.parametrize(("level", "caches"), [(2, {0, 4}), (3, {0, 2, 4, 6})])
def test_only_caches_of_level_3_divide_a_socket(tmp_path, level, caches):
    host = write_host(tmp_path, nodes=2)
    for cpu in range(16):
        core = cpu % 8
        first = core // 2 * 2
        unit = host / f"sys/devices/system/cpu/cpu{cpu}/cache/index2"
        put(unit / "level", level)
        put(unit / "shared_cpu_list", format_cpu_list([first, first + 1, first + 8, first + 9]))
    assert {location.cache for location in read_topology(host).cpus.values()} == caches
