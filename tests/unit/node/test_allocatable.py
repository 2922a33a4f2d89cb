"""Tests for Node Allocatable."""

from __future__ import annotations

import pytest

from nodeagent.errors import ConfigError
from nodeagent.node.allocatable import check_reservations, compute_allocatable
from nodeagent.testing.context import make_config
from tests.unit.node.conftest import MakeNode


@pytest.mark.row("config.systemReserved", "config.platformReserved")
def test_allocatable_subtracts_reservations_and_thresholds() -> None:
    config = make_config(
        system_reserved={"cpu": "100m", "memory": "1Gi", "ephemeral-storage": "2Gi"},
        platform_reserved={"cpu": "400m", "ephemeral-storage": "1Gi"},
        eviction_hard={"memory.available": "5%", "nodefs.available": "10%", "nodefs.inodesFree": "5%"},
    )

    found = compute_allocatable({"cpu": "2", "memory": "20Gi", "ephemeral-storage": "100Gi", "pods": "5"}, config)

    assert found == {"cpu": "1500m", "memory": "18Gi", "ephemeral-storage": "87Gi", "pods": "5"}


def test_huge_pages_are_subtracted_from_memory() -> None:
    config = make_config(eviction_hard={})

    found = compute_allocatable({"memory": "4Gi", "hugepages-2Mi": "1Gi", "hugepages-1Gi": "2Gi"}, config)

    assert found == {"memory": "1Gi", "hugepages-2Mi": "1Gi", "hugepages-1Gi": "2Gi"}


def test_allocatable_is_never_negative() -> None:
    config = make_config(system_reserved={"memory": "8Gi"}, eviction_hard={})

    assert compute_allocatable({"memory": "4Gi"}, config) == {"memory": "0"}


@pytest.mark.row("config.reservedSystemCPUs")
def test_reserved_cpus_replace_both_cpu_reservations() -> None:
    config = make_config(
        system_reserved={"cpu": "100m", "memory": "1Gi"},
        platform_reserved={"cpu": "400m", "memory": "1Gi"},
        reserved_system_cpus="0,2-3",
        eviction_hard={},
    )

    assert compute_allocatable({"cpu": "8", "memory": "4Gi"}, config) == {"cpu": "5", "memory": "2Gi"}


@pytest.mark.row("config.reservedSystemCPUs")
def test_reserved_cpus_must_be_online() -> None:
    config = make_config(reserved_system_cpus="0,4-5")

    (problem,) = check_reservations({"cpu": "4"}, config, range(4))

    assert problem.path == "reservedSystemCPUs"
    assert "offline or missing: 4, 5" in problem.rule
    assert check_reservations({"cpu": "8"}, config, range(8)) == []
    assert check_reservations({"cpu": "3"}, config, {0, 4, 5}) == []


@pytest.mark.row("config.systemReserved", "config.platformReserved")
def test_reservations_above_capacity_are_rejected() -> None:
    config = make_config(
        system_reserved={"memory": "2Gi"},
        platform_reserved={"memory": "1Gi", "ephemeral-storage": "1Gi"},
        eviction_hard={"memory.available": "25%"},
    )

    (problem,) = check_reservations({"memory": "4000Mi", "ephemeral-storage": "2Gi"}, config, range(1))

    assert "is 4072Mi of memory, but the node has 4000Mi" in str(problem)
    assert check_reservations({"memory": "4Gi"}, config, range(1)) == []


async def test_node_does_not_start_with_reservations_above_capacity(make_node: MakeNode) -> None:
    node = make_node(standalone=True, system_reserved={"memory": "1Ti"})

    with pytest.raises(ConfigError, match="invalid Node Allocatable"):
        await node.manager.run_status()
