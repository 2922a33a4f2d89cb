"""Tests for the files of cgroups to which the built-in OCI runtime writes limits."""

from __future__ import annotations

from typing import Any

import pytest

from nodeagent_plugins.embedded_runtime.helpers.oci_cgroups import USUAL_DEVICES, _limits_v1, _limits_v2

RESOURCES: dict[str, Any] = {
    "cpu": {"shares": 1024, "period": 100000, "quota": 50000, "cpus": "0-1", "mems": "0"},
    "memory": {"limit": 100, "swap": 150},
    "hugepageLimits": [{"pageSize": "2MB", "limit": 5}],
}


def test_limits_of_version_1() -> None:
    assert _limits_v1(RESOURCES) == [
        ("cpu", "cpu.shares", "1024"),
        ("cpu", "cpu.cfs_period_us", "100000"),
        ("cpu", "cpu.cfs_quota_us", "50000"),
        ("cpuset", "cpuset.cpus", "0-1"),
        ("cpuset", "cpuset.mems", "0"),
        ("memory", "memory.limit_in_bytes", "100"),
        ("memory", "memory.memsw.limit_in_bytes", "150"),
        ("hugetlb", "hugetlb.2MB.limit_in_bytes", "5"),
    ]


def test_limits_of_version_2() -> None:
    assert _limits_v2({**RESOURCES, "unified": {"memory.high": "90"}}) == [
        ("", "cpu.weight", "39"),
        ("", "cpu.max", "50000 100000"),
        ("", "cpuset.cpus", "0-1"),
        ("", "cpuset.mems", "0"),
        ("", "memory.max", "100"),
        ("", "memory.swap.max", "50"),
        ("", "hugetlb.2MB.max", "5"),
        ("", "memory.high", "90"),
    ]


@pytest.mark.parametrize(
    ("cpu", "value"),
    [({"quota": -1}, "max 100000"), ({"quota": 1000, "period": 2000}, "1000 2000")],
)
def test_quota_of_version_2_may_be_unlimited(cpu: dict[str, int], value: str) -> None:
    assert _limits_v2({"cpu": cpu}) == [("", "cpu.max", value)]


@pytest.mark.parametrize(("shares", "weight"), [(1, "1"), (2, "1"), (262144, "10000")])
def test_shares_are_converted_to_weights(shares: int, weight: str) -> None:
    assert _limits_v2({"cpu": {"shares": shares}}) == [("", "cpu.weight", weight)]


@pytest.mark.parametrize("limits", [_limits_v1, _limits_v2])
def test_absent_limits_are_not_written(limits: Any) -> None:
    assert limits({}) == limits({"cpu": {"shares": 0}, "memory": {"limit": 0}}) == []


def test_usual_devices_are_allowed_only_after_all_were_denied() -> None:
    null = {"allow": True, "type": "c", "major": 1, "minor": 3, "access": "r"}
    denied = [("devices", "devices.deny", "a"), *(("devices", "devices.allow", usual) for usual in USUAL_DEVICES)]

    assert _limits_v1({"devices": [{"allow": False}, null]}) == [*denied, ("devices", "devices.allow", "c 1:3 r")]
    assert _limits_v1({"devices": [{"allow": True}]}) == [("devices", "devices.allow", "a")]
    assert _limits_v1({"devices": [{"allow": False, "type": "b"}]}) == [("devices", "devices.deny", "b *:* rwm")]
