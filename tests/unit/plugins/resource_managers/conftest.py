"""Fixtures: topologies in the kernel's file format."""

from __future__ import annotations

import pytest

from nodeagent.testing import make_container, make_pod
from nodeagent_plugins.resource_managers.topology import format_cpu_list, read_topology

GI = 1 << 30


def write_host(root, *, sockets=2, nodes=4, cores=8, threads=2, gibibytes=4, huge_2mi=0, numa=True, caches=0):
    """Write the files of a host; the threads of core N are the CPUs N, N + cores and so on.

    :param caches: the number of last-level caches; 0 for hosts that do not report any.
    """
    system = root / "sys/devices/system"
    cpus = range(cores * threads)
    put(system / "cpu/online", format_cpu_list(cpus))
    for cpu in cpus:
        core = cpu % cores
        put(system / f"cpu/cpu{cpu}/topology/physical_package_id", core * sockets // cores)
        put(system / f"cpu/cpu{cpu}/topology/core_id", core % (cores // sockets))
        if caches:
            sharing = format_cpu_list(each for each in cpus if each % cores * caches // cores == core * caches // cores)
            for index, level, shared in ((0, 1, format_cpu_list([core])), (3, 3, sharing)):
                put(system / f"cpu/cpu{cpu}/cache/index{index}/level", level)
                put(system / f"cpu/cpu{cpu}/cache/index{index}/shared_cpu_list", shared)
    if not numa:
        put(root / "proc/meminfo", f"MemTotal:       {gibibytes << 20} kB\nMemFree: 1 kB\n")
        return root
    put(system / "node/online", format_cpu_list(range(nodes)))
    for node in range(nodes):
        unit = system / f"node/node{node}"
        put(unit / "cpulist", format_cpu_list(cpu for cpu in cpus if cpu % cores * nodes // cores == node))
        put(unit / "meminfo", f"Node {node} MemTotal:       {gibibytes << 20} kB\n")
        put(unit / "distance", " ".join(_distance(node, other) for other in range(nodes)))
        put(unit / "hugepages/hugepages-2048kB/nr_hugepages", huge_2mi)
    return root


def put(file, content):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{content}\n")


def _distance(one, other):
    """Nodes 0 and 3 are close to each other, as are 1 and 2."""
    return "10" if one == other else "15" if one + other == 3 else "20"


@pytest.fixture
def machine(tmp_path):
    """Two sockets with two NUMA nodes, four cores and eight threads each: node N has the CPUs 2N, 2N+1, 2N+8, 2N+9."""
    return write_host(tmp_path / "machine")


@pytest.fixture
def topology(machine):
    return read_topology(machine)


@pytest.fixture
def small(tmp_path):
    """One socket, one NUMA node and two cores with one thread each."""
    return write_host(tmp_path / "machine", sockets=1, nodes=1, cores=2, threads=1)


def guaranteed(name="fast", *, init=(), **amounts):
    """Return a guaranteed pod with regular containers from ``name={"cpu": "2", "memory": "1Gi"}``.

    :param init: init containers as (name, requests, sidecar or not).
    """
    return make_pod(
        name,
        containers=[_container(each, amounts) for each, amounts in amounts.items()],
        init_containers=[_container(each, amounts, sidecar=sidecar) for each, amounts, sidecar in init],
    )


def _container(name, amounts, *, sidecar=False):
    amounts = {"cpu": "1", "memory": "1Gi", **amounts}
    fields = {"restart_policy": "Always"} if sidecar else {}
    return make_container(name, resources={"requests": amounts, "limits": amounts}, **fields)
