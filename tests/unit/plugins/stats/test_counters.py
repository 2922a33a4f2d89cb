"""Tests for the counters and limits of cgroups that only ``/metrics/cadvisor`` contains."""

from __future__ import annotations

import pytest

from nodeagent_plugins.stats.cgroups import UNLIMITED, CgroupReader
from nodeagent_plugins.stats.counters import memory_limits, network_counts


@pytest.mark.parametrize(("soft", "reservation"), [(UNLIMITED, 0), (UNLIMITED - 4096, UNLIMITED - 4096), (1000, 1000)])
def test_unlimited_memory_of_version_1_is_zero(fake, soft, reservation):
    fake.v1()
    fake.put("sys/fs/cgroup/memory/a/memory.soft_limit_in_bytes", f"{soft}\n")

    found = memory_limits(CgroupReader.find(fake.machine), "/a")

    assert (found.reservation, found.swap, found.failures) == (reservation, 0, 0)


@pytest.mark.parametrize(("text", "value"), [("max\n", 0), ("1000\n", 1000)])
def test_unlimited_memory_of_version_2_is_zero(fake, text, value):
    fake.v2()
    for file in ("memory.min", "memory.swap.max"):
        fake.put(f"sys/fs/cgroup/a/{file}", text)

    found = memory_limits(CgroupReader.find(fake.machine), "/a")

    assert (found.reservation, found.swap) == (value, value)


def test_network_counters_are_those_of_external_interfaces(fake):
    fake.interfaces(9, eth0=(7, 8), lo=(1, 1), veth12=(3, 3))
    fake.put("proc/10/net/dev", "Inter-|\n face |\neth0: " + " ".join("1" * 12) + "\neth1: " + " ".join("1" * 11))

    assert list(network_counts(fake.machine, 9)) == ["eth0"]
    assert list(network_counts(fake.machine, 10)) == ["eth0"]
    assert network_counts(fake.machine, 0) == {}
