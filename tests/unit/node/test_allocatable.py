"""Pods get the machine less what is reserved, what eviction keeps free and what huge pages hold."""

from __future__ import annotations

import pytest

from nodeagent.node.allocatable import compute_allocatable, pod_capacity
from nodeagent.testing.context import make_config


@pytest.mark.row("config.maxPods", "config.podsPerCore")
@pytest.mark.parametrize(
    ("most", "per_core", "cores", "expected"), [(110, 0, 4, 110), (110, 10, 4, 40), (30, 10, 4, 30), (0, 0, 4, 0)]
)
def test_takes_the_tighter_limit_of_pods(most: int, per_core: int, cores: int, expected: int) -> None:
    assert pod_capacity(make_config(max_pods=most, pods_per_core=per_core), cores) == expected


def test_subtracts_reservations_and_eviction_thresholds() -> None:
    config = make_config(
        system_reserved={"cpu": "100m", "memory": "1Gi"},
        platform_reserved={"cpu": "400m", "ephemeral-storage": "1Gi"},
        eviction_hard={"memory.available": "5%", "nodefs.available": "10%", "nodefs.inodesFree": "5%"},
    )

    found = compute_allocatable({"cpu": "2", "memory": "20Gi", "ephemeral-storage": "100Gi", "pods": "5"}, config)

    assert found == {"cpu": "1500m", "memory": "18Gi", "ephemeral-storage": "89Gi", "pods": "5"}


def test_huge_pages_are_taken_from_memory() -> None:
    config = make_config(eviction_hard={})

    found = compute_allocatable({"memory": "4Gi", "hugepages-2Mi": "1Gi", "hugepages-1Gi": "2Gi"}, config)

    assert found == {"memory": "1Gi", "hugepages-2Mi": "1Gi", "hugepages-1Gi": "2Gi"}


def test_nothing_goes_below_zero() -> None:
    config = make_config(system_reserved={"memory": "8Gi"}, eviction_hard={})

    assert compute_allocatable({"memory": "4Gi"}, config) == {"memory": "0"}
