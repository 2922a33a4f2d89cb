"""Tests for reservations and the pod limit."""

from __future__ import annotations

import pytest

from nodeagent.contracts.reservations import pod_capacity
from nodeagent.testing.context import make_config


@pytest.mark.row("config.maxPods", "config.podsPerCore")
@pytest.mark.parametrize(
    ("most", "per_core", "cores", "expected"), [(110, 0, 4, 110), (110, 10, 4, 40), (30, 10, 4, 30), (0, 0, 4, 0)]
)
def test_lower_pod_limit_applies(most: int, per_core: int, cores: int, expected: int) -> None:
    assert pod_capacity(make_config(max_pods=most, pods_per_core=per_core), cores) == expected
