"""Tests for resources in units of the CRI."""

from __future__ import annotations

from typing import Any

import pytest

from nodeagent.contracts.runtime_config import LinuxResources


@pytest.mark.parametrize(
    ("limits", "may_swap"),
    [
        ({}, False),
        ({"unified": {"memory.swap.max": "0"}, "memory_swap_limit_bytes": 9}, False),
        ({"unified": {"memory.swap.max": "1"}}, True),
        ({"unified": {"memory.swap.max": "max"}}, True),
        ({"memory_limit_bytes": 4, "memory_swap_limit_bytes": 4}, False),
        ({"memory_limit_bytes": 4, "memory_swap_limit_bytes": 5}, True),
        ({"memory_limit_bytes": 4, "memory_swap_limit_bytes": -1}, True),
        ({"memory_limit_bytes": 4}, False),
    ],
)
def test_swap_depends_on_the_limit_of_the_cgroup_version(limits: dict[str, Any], may_swap: bool) -> None:
    assert LinuxResources(**limits).may_swap == may_swap
