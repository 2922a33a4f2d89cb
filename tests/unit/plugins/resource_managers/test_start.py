"""Tests for the validation against the host."""

from __future__ import annotations

import pytest

from nodeagent.base.quantity import Quantity
from nodeagent.contracts.configuration import MemoryReservation
from nodeagent.contracts.topology import Hint
from nodeagent.errors import ConfigError
from nodeagent.testing import make_config
from nodeagent_plugins.resource_managers.start import make_alignment, make_cpus, make_memory
from nodeagent_plugins.resource_managers.topology import read_topology

from .conftest import guaranteed, write_host


@pytest.mark.parametrize(
    ("fields", "reserved"),
    [
        ({"reserved_system_cpus": "3,7"}, {3, 7}),
        ({"system_reserved": {"cpu": "1500m"}}, {0, 8}),
        ({"system_reserved": {"cpu": "500m"}, "platform_reserved": {"cpu": "600m"}}, {0, 8}),
        ({"platform_reserved": {"cpu": "1"}}, {0}),
        ({"reserved_system_cpus": "5", "system_reserved": {"cpu": "4"}}, {5}),
    ],
)
@pytest.mark.row("config.reservedSystemCPUs", "config.systemReserved", "config.platformReserved")
def test_cpus_are_reserved_by_number_or_amount(topology, fields, reserved):
    assert make_cpus(make_config(**fields), topology).reserved == reserved


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "cpuManagerPolicy: static requires reserved CPU"),
        ({"reserved_system_cpus": "15-16"}, "reservedSystemCPUs: '15-16' must be among the online CPUs 0-15"),
        ({"system_reserved": {"cpu": "17"}}, "static requires 17 reserved CPUs, and the host has 16"),
    ],
)
def test_static_policy_requires_reserved_cpus(topology, fields, problem):
    with pytest.raises(ConfigError, match=problem):
        make_cpus(make_config(**fields), topology)


def test_align_by_socket_requires_a_numa_node_per_socket(tmp_path):
    topology = read_topology(write_host(tmp_path, nodes=1))
    config = make_config(reserved_system_cpus="0", cpu_manager_policy_options={"align-by-socket": "true"})
    with pytest.raises(ConfigError, match="this host has 1 and 2"):
        make_cpus(config, topology)


def test_align_by_socket_supports_one_numa_node_per_socket(tmp_path):
    topology = read_topology(write_host(tmp_path, nodes=2))
    config = make_config(reserved_system_cpus="0", cpu_manager_policy_options={"align-by-socket": "true"})
    assert make_cpus(config, topology).reserved == {0}


def test_sockets_without_numa_nodes_are_supported_without_the_option(tmp_path):
    topology = read_topology(write_host(tmp_path, nodes=1))
    assert make_cpus(make_config(reserved_system_cpus="0"), topology).reserved == {0}


def test_topology_policy_supports_at_most_eight_numa_nodes(tmp_path):
    topology = read_topology(write_host(tmp_path, nodes=9, cores=18, threads=1))
    with pytest.raises(ConfigError, match="more than 8 NUMA nodes; this host has 9"):
        make_alignment(make_config(topology_manager_policy="restricted"), topology)
    assert make_alignment(make_config(), topology).policy == "none"
    options = {"max-allowable-numa-nodes": "9"}
    config = make_config(topology_manager_policy="restricted", topology_manager_policy_options=options)
    assert make_alignment(config, topology).policy == "restricted"


@pytest.mark.parametrize(
    ("option", "pool", "given"),
    [
        ("strict-cpu-reservation", 15, {1, 9}),
        ("distribute-cpus-across-cores", 16, {1, 2}),
        ("prefer-align-cpus-by-uncorecache", 16, {1, 9}),
    ],
)
@pytest.mark.row("config.cpuManagerPolicyOptions")
def test_static_policy_has_the_options_of_later_releases(tmp_path, option, pool, given):
    topology = read_topology(write_host(tmp_path, nodes=2, caches=4))
    cpus = make_cpus(make_config(reserved_system_cpus="0", cpu_manager_policy_options={option: "true"}), topology)
    pod = guaranteed(main={"cpu": "2"})
    assert len(cpus.shared) == pool
    cpus.allocate(pod, pod.spec.containers[0], Hint())
    assert cpus.of(pod.uid, "main") == given


def test_closest_numa_nodes_requires_distances(tmp_path):
    topology = read_topology(write_host(tmp_path, sockets=1, numa=False))
    options = {"prefer-closest-numa-nodes": "true"}
    config = make_config(topology_manager_policy="restricted", topology_manager_policy_options=options)
    with pytest.raises(ConfigError, match="the kernel does not report"):
        make_alignment(config, topology)


def keeping(*reservations, **fields):
    reserved = tuple(
        MemoryReservation(node, {resource: Quantity.parse(text) for resource, text in limits.items()})
        for node, limits in reservations
    )
    fields = {"system_reserved": {"memory": "1Gi"}, "eviction_hard": {"memory.available": "1Gi"}, **fields}
    return make_config(reserved_memory=reserved, **fields)


@pytest.mark.row("config.reservedMemory", "type.MemoryReservation.numaNode", "type.MemoryReservation.limits")
def test_memory_is_reserved_per_node(topology):
    memory = make_memory(keeping((0, {"memory": "1.5Gi"}), (2, {"memory": "512Mi"})), topology)
    assert [state.tables["memory"].kept >> 20 for state in memory.nodes.values()] == [1536, 0, 512, 0]


def test_percentage_of_the_memory_is_included(topology):
    assert make_memory(keeping((0, {"memory": "2624Mi"}), eviction_hard={"memory.available": "9.765625%"}), topology)


@pytest.mark.row("config.reservedMemory", "type.MemoryReservation.numaNode", "type.MemoryReservation.limits")
@pytest.mark.parametrize(
    ("config", "problem"),
    [
        (keeping((7, {"memory": "2Gi"})), r"reservedMemory\[0\].numaNode: 7 is not a NUMA node of this host"),
        (keeping((0, {"memory": "5Gi"})), r"reservedMemory\[0\].limits.memory: '5Gi' exceeds the size of NUMA node 0"),
        (keeping((0, {"memory": "1Gi"})), "must add up for memory to systemReserved, .* and evictionHard: 2Gi"),
        (keeping(), "reservedMemory: '0' must add up for memory"),
        (keeping(system_reserved={}, eviction_hard={}), "Static requires reservedMemory"),
    ],
)
def test_invalid_memory_reservation_is_rejected(topology, config, problem):
    with pytest.raises(ConfigError, match=problem):
        make_memory(config, topology)
