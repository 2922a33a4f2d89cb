"""Tests for the selection of CPUs."""

from __future__ import annotations

import pytest

from nodeagent_plugins.resource_managers.cpu_assignment import take_distributed, take_packed
from nodeagent_plugins.resource_managers.errors import AllocationFailed
from nodeagent_plugins.resource_managers.topology import read_topology

from .conftest import put, write_host


@pytest.mark.parametrize(
    ("taken", "count", "expected"),
    [
        (set(), 1, {0}),
        (set(), 2, {0, 8}),
        (set(), 3, {0, 8, 1}),
        (set(), 4, {0, 1, 8, 9}),
        (set(), 8, {0, 1, 2, 3, 8, 9, 10, 11}),
        (set(), 12, {0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 12, 13}),
        ({0}, 1, {8}),
        ({0}, 2, {1, 9}),
        ({0, 8, 4}, 1, {1}),
        ({0, 8}, 4, {2, 3, 10, 11}),
    ],
)
def test_packed_takes_full_units_and_completes_partial_ones(topology, taken, count, expected):
    assert take_packed(topology, topology.all - taken, count) == expected


def test_units_are_ordered_by_numa_node_if_there_is_one_per_socket(tmp_path):
    host = write_host(tmp_path, nodes=2)
    for node, socket_cpus in ((0, "4-7,12-15"), (1, "0-3,8-11")):
        put(host / f"sys/devices/system/node/node{node}/cpulist", socket_cpus)
    topology = read_topology(host)

    assert take_packed(topology, topology.all, 8) == {4, 5, 6, 7, 12, 13, 14, 15}


@pytest.mark.parametrize(
    ("taken", "count", "packed", "by_cache"),
    [
        (set(), 4, {0, 1, 8, 9}, {0, 1, 8, 9}),
        ({0, 8}, 4, {1, 2, 9, 10}, {2, 3, 10, 11}),
        ({0, 8}, 3, {1, 2, 9}, {2, 3, 10}),
        ({0, 8}, 2, {1, 9}, {1, 9}),
        ({0, 8}, 6, {1, 2, 3, 9, 10, 11}, {2, 3, 10, 11, 1, 9}),
        ({0, 2, 4, 6}, 5, {8, 10, 1, 3, 9}, {8, 1, 9, 10, 3}),
    ],
)
@pytest.mark.row("config.cpuManagerPolicyOptions")
def test_selection_by_cache_prefers_one_cache(tmp_path, taken, count, packed, by_cache):
    topology = read_topology(write_host(tmp_path, nodes=2, caches=4))
    for expected, option in ((packed, False), (by_cache, True)):
        selected = take_packed(topology, topology.all - taken, count, by_cache=option)
        assert (len(selected), topology.ids("cache", selected)) == (count, topology.ids("cache", expected))


@pytest.mark.parametrize(
    ("taken", "count", "expected"),
    [(set(), 2, {0, 1}), (set(), 4, {0, 1, 2, 3}), (set(), 8, {0, 1, 2, 3, 8, 9, 10, 11}), ({0, 1}, 2, {2, 3})],
)
@pytest.mark.row("config.cpuManagerPolicyOptions")
def test_selection_across_cores_avoids_full_cores(tmp_path, taken, count, expected):
    topology = read_topology(write_host(tmp_path, nodes=2))
    assert take_packed(topology, topology.all - taken, count, across_cores=True) == expected


def test_packed_returns_nothing_for_zero(topology):
    assert take_packed(topology, topology.all, 0) == frozenset()


def spread(topology, cpus):
    return [len(cpus & topology.within("node", [node])) for node in range(4)]


@pytest.mark.parametrize(
    ("count", "group", "expected"),
    [
        (4, 1, [4, 0, 0, 0]),
        (6, 1, [3, 3, 0, 0]),
        (10, 1, [4, 3, 3, 0]),
        (6, 2, [4, 2, 0, 0]),
        (16, 1, [4, 4, 4, 4]),
    ],
)
def test_distributed_takes_equal_parts_of_few_nodes(topology, count, group, expected):
    assert sorted(spread(topology, take_distributed(topology, topology.all, count, group)), reverse=True) == expected


def test_distributed_takes_full_cores(topology):
    cpus = take_distributed(topology, topology.all, 6, 2)
    assert all(topology.within("core", [core]) <= cpus for core in topology.ids("core", cpus))


def test_distributed_balances_the_remainders(topology):
    available = topology.all - {0}
    cpus = take_distributed(topology, available, 6, 1)
    assert spread(topology, cpus)[0] == 0


def test_distributed_prefers_the_socket_with_the_fewest_free_cpus(topology):
    assert take_distributed(topology, topology.all - {15}, 6, 2) == {4, 5, 12, 13, 0, 8}


def test_both_fail_without_enough_cpus(topology):
    for take in (take_packed, lambda *args: take_distributed(*args, 1)):
        with pytest.raises(AllocationFailed, match="requested=3, available=2"):
            take(topology, frozenset({0, 1}), 3)
