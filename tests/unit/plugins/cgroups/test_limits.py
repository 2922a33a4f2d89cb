"""Limits of containers and pods follow from requests, limits and QoS class."""

from __future__ import annotations

import pytest
from nodeagent_plugins import cgroups
from nodeagent_plugins.cgroups.formulas import cfs_quota, cpu_shares, cpu_weight
from nodeagent_plugins.cgroups.resources import Policy, container_resources, page_size_name, pod_resources

from nodeagent.base.duration import Duration
from nodeagent.contracts.runtime import LinuxResources
from nodeagent.testing import load_plugin, make_config, make_container, make_context, make_pod

MI = 1024**2


def container(name="main", requests=None, limits=None):
    return make_container(name, resources={"requests": requests or {}, "limits": limits or {}})


@pytest.mark.parametrize(("milli", "shares"), [(0, 2), (1, 2), (2, 2), (100, 102), (1000, 1024), (10**6, 262144)])
def test_shares(milli, shares):
    assert cpu_shares(milli) == shares


@pytest.mark.parametrize(("shares", "weight"), [(0, 1), (2, 1), (1024, 39), (262143, 9999), (262144, 10000)])
def test_weight(shares, weight):
    assert cpu_weight(shares) == weight


@pytest.mark.parametrize(
    ("milli", "period", "quota"),
    [(0, 100_000, 0), (1, 100_000, 1000), (500, 100_000, 50_000), (2500, 100_000, 250_000), (500, 10_000, 5000)],
)
def test_quota(milli, period, quota):
    assert cfs_quota(milli, period) == quota


def test_a_container_is_limited_in_what_it_names():
    one = container(requests={"cpu": "250m", "memory": "32Mi"}, limits={"cpu": "500m", "memory": "64Mi"})
    result = container_resources(make_pod(containers=[one]), one, Policy(memory_capacity_bytes=320 * MI))
    assert result == LinuxResources(
        cpu_shares=256, cpu_period=100_000, cpu_quota=50_000, memory_limit_bytes=64 * MI, oom_score_adj=900
    )


def test_a_cpu_limit_counts_as_the_request_where_there_is_none():
    one = container(limits={"cpu": "1"})
    assert container_resources(make_pod(containers=[one]), one, Policy()).cpu_shares == 1024


def test_a_container_without_any_has_the_least_weight_and_no_limit():
    one = container()
    assert container_resources(make_pod(containers=[one]), one, Policy()) == LinuxResources(
        cpu_shares=2, oom_score_adj=1000
    )


def test_huge_pages_not_asked_for_are_limited_to_none():
    limits = {"hugepages-2Mi": "4Mi", "cpu": 1, "memory": "1Mi"}
    one = container(requests=limits, limits=limits)
    policy = Policy(page_sizes=(2 * MI, 1024 * MI))
    expected = {"2MB": 4 * MI, "1GB": 0}
    assert container_resources(make_pod(containers=[one]), one, policy).hugepage_limits == expected
    assert pod_resources(make_pod(containers=[one]), policy).hugepage_limits == expected
    assert page_size_name(64 * 1024) == "64KB"


FULL = {"cpu": "1", "memory": "64Mi"}


def test_a_guaranteed_pod_has_the_sums():
    pod = make_pod(containers=[container("a", FULL, FULL), container("b", FULL, FULL)])
    assert pod_resources(pod, Policy()) == LinuxResources(
        cpu_shares=2048, cpu_period=100_000, cpu_quota=200_000, memory_limit_bytes=128 * MI
    )


def test_a_burstable_pod_is_limited_where_all_its_containers_are():
    pod = make_pod(containers=[container("a", {"cpu": "100m"}, FULL), container("b", {}, {"memory": "1Mi"})])
    assert pod_resources(pod, Policy()) == LinuxResources(cpu_shares=102, memory_limit_bytes=65 * MI)


def test_a_best_effort_pod_has_the_least_weight():
    assert pod_resources(make_pod(), Policy()) == LinuxResources(cpu_shares=2)


def resources_under(tmp_path, **config):
    context = make_context(tmp_path, config=make_config(cgroups_per_qos=False, **config))
    manager = load_plugin(cgroups).provide("nodeagent_provide_cgroups", context=context)
    pod = make_pod(containers=[container("a", FULL, FULL)])
    return manager.container_resources(pod, pod.spec.containers[0]), manager.pod_resources(pod)


@pytest.mark.row("config.cpuCFSQuota")
def test_quota_can_be_switched_off(tmp_path):
    assert [r.cpu_quota for r in resources_under(tmp_path)] == [100_000, 100_000]
    for result in resources_under(tmp_path, cpu_cfs_quota=False):
        assert (result.cpu_quota, result.cpu_period) == (0, 0)
        assert (result.cpu_shares, result.memory_limit_bytes) == (1024, 64 * MI)


@pytest.mark.row("config.cpuCFSQuotaPeriod")
def test_quota_follows_the_period(tmp_path):
    for result in resources_under(tmp_path, cpu_cfs_quota_period=Duration.of(milliseconds=10)):
        assert (result.cpu_period, result.cpu_quota) == (10_000, 10_000)
