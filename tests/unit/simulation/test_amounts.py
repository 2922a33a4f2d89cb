"""Tests for the CPU limits of simulated containers."""

from types import SimpleNamespace

import pytest

from nodeagent.contracts.runtime_config import LinuxResources
from nodeagent.simulation.amounts import cpu_limit, linux_resources, quota
from nodeagent.testing import make_container, make_pod


@pytest.mark.parametrize(
    ("resources", "limit"),
    [
        (None, 0),
        ({}, 0),
        ({"limits": None}, 0),
        ({"limits": {"memory": "1Gi"}}, 0),
        ({"limits": {"cpu": "250m"}}, 250),
        ({"limits": {"cpu": "2"}}, 2000),
    ],
)
def test_limit_of_a_container_is_in_thousandths(resources, limit):
    assert cpu_limit({"resources": resources}) == limit
    assert cpu_limit({}) == 0


def test_only_limits_of_containers_are_simulated():
    limited = make_container(resources={"limits": {"cpu": "500m"}})

    assert linux_resources(make_pod(), limited) == LinuxResources(cpu_period=100_000, cpu_quota=50_000, cpu_shares=512)
    assert linux_resources(make_pod(), make_container()) == LinuxResources()
    assert linux_resources(make_pod(containers=[limited]), None) == LinuxResources()


@pytest.mark.parametrize(("cpu_quota", "limit"), [(50_000, 500), (1, 0), (0, 0), (-1, 0)])
def test_quota_of_the_runtime_is_in_thousandths(cpu_quota, limit):
    resources = SimpleNamespace(cpu_quota=cpu_quota, cpu_period=0 if cpu_quota <= 0 else 100_000)
    assert quota(SimpleNamespace(linux=SimpleNamespace(resources=resources))) == limit
