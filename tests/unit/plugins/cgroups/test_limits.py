"""Tests for the limits of containers and pods."""

from __future__ import annotations

import pytest

from nodeagent.base.duration import Duration
from nodeagent.base.release import Release, SelectedRelease
from nodeagent.contracts.configuration import MemorySwapConfiguration
from nodeagent.contracts.runtime import LinuxResources
from nodeagent.testing import load_plugin, make_config, make_container, make_context, make_pod
from nodeagent_plugins import cgroups
from nodeagent_plugins.cgroups.formulas import cfs_quota, cpu_shares, cpu_weight
from nodeagent_plugins.cgroups.resources import (
    Policy,
    Swap,
    container_resources,
    page_size_name,
    pod_cgroup_limits,
    pod_resources,
)

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


def test_container_limits_follow_its_requests_and_limits():
    one = container(requests={"cpu": "250m", "memory": "32Mi"}, limits={"cpu": "500m", "memory": "64Mi"})
    result = container_resources(make_pod(containers=[one]), one, Policy(memory_capacity_bytes=320 * MI))
    assert result == LinuxResources(
        cpu_shares=256, cpu_period=100_000, cpu_quota=50_000, memory_limit_bytes=64 * MI, oom_score_adj=900
    )


def test_cpu_limit_replaces_a_missing_cpu_request():
    one = container(limits={"cpu": "1"})
    assert container_resources(make_pod(containers=[one]), one, Policy()).cpu_shares == 1024


def test_container_without_requests_has_the_minimum_weight_and_no_limit():
    one = container()
    assert container_resources(make_pod(containers=[one]), one, Policy()) == LinuxResources(
        cpu_shares=2, oom_score_adj=1000
    )


def test_huge_pages_that_are_not_requested_are_limited_to_zero():
    limits = {"hugepages-2Mi": "4Mi", "cpu": 1, "memory": "1Mi"}
    one = container(requests=limits, limits=limits)
    policy = Policy(page_sizes=(2 * MI, 1024 * MI))
    expected = {"2MB": 4 * MI, "1GB": 0}
    assert container_resources(make_pod(containers=[one]), one, policy).hugepage_limits == expected
    assert pod_resources(make_pod(containers=[one]), policy).hugepage_limits == expected
    assert page_size_name(64 * 1024) == "64KB"


FULL = {"cpu": "1", "memory": "64Mi"}


def test_guaranteed_pod_has_the_totals():
    pod = make_pod(containers=[container("a", FULL, FULL), container("b", FULL, FULL)])
    assert pod_resources(pod, Policy()) == LinuxResources(
        cpu_shares=2048, cpu_period=100_000, cpu_quota=200_000, memory_limit_bytes=128 * MI
    )


def test_burstable_pod_is_limited_where_all_containers_are():
    pod = make_pod(containers=[container("a", {"cpu": "100m"}, FULL), container("b", {}, {"memory": "1Mi"})])
    assert pod_resources(pod, Policy()) == LinuxResources(cpu_shares=102, memory_limit_bytes=65 * MI)


def test_best_effort_pod_has_the_minimum_weight():
    assert pod_resources(make_pod(), Policy()) == LinuxResources(cpu_shares=2)


def resources_under(tmp_path, **config):
    context = make_context(tmp_path, config=make_config(cgroups_per_qos=False, **config))
    manager = load_plugin(cgroups).provide("nodeagent_provide_cgroups", context=context)
    pod = make_pod(containers=[container("a", FULL, FULL)])
    return manager.container_resources(pod, pod.spec.containers[0]), manager.pod_resources(pod)


@pytest.mark.row("config.cpuCFSQuota")
def test_quota_can_be_disabled(tmp_path):
    assert [r.cpu_quota for r in resources_under(tmp_path)] == [100_000, 100_000]
    for result in resources_under(tmp_path, cpu_cfs_quota=False):
        assert (result.cpu_quota, result.cpu_period) == (0, 0)
        assert (result.cpu_shares, result.memory_limit_bytes) == (1024, 64 * MI)


@pytest.mark.row("config.cpuCFSQuotaPeriod")
def test_quota_follows_the_period(tmp_path):
    for result in resources_under(tmp_path, cpu_cfs_quota_period=Duration.of(milliseconds=10)):
        assert (result.cpu_period, result.cpu_quota) == (10_000, 10_000)


GATED = {"NodeSwap": True}
HALF = {"memory": "2Gi"}


def of_container(agent, requests=None, limits=None, **config):
    one = container(requests=requests, limits=limits)
    _, manager = agent(**config)
    return manager.container_resources(make_pod(containers=[one]), one)


def swap_v2(agent, behavior, requests=None, limits=None):
    config = {"feature_gates": GATED, "memory_swap": MemorySwapConfiguration(swap_behavior=behavior)}
    return of_container(agent, requests, limits, **config).unified.get("memory.swap.max")


@pytest.fixture
def swap_files(kernel_v2):
    kernel_v2.make("/system.slice")
    (kernel_v2.file("/system.slice", "memory.swap.max")).write_text("max")


@pytest.mark.row("config.memorySwap", "type.MemorySwapConfiguration.swapBehavior")
@pytest.mark.usefixtures("swap_files")
@pytest.mark.parametrize("behavior", ["", "LimitedSwap"])
def test_limited_swap_on_version_2(agent, behavior):
    assert swap_v2(agent, behavior, HALF, {"memory": "4Gi"}) == "0"  # both together stay within the limit
    assert swap_v2(agent, behavior, HALF) == str(1024**3)  # a quarter of the memory, a quarter of the swap
    assert swap_v2(agent, behavior) == "0"
    assert swap_v2(agent, behavior, FULL, FULL) == "0"


REVISED = SelectedRelease(Release(1, 30))


@pytest.mark.usefixtures("swap_files")
@pytest.mark.parametrize(
    ("requests", "limits", "share"),
    [
        (HALF, None, 1024**3),
        (HALF, {"memory": "4Gi"}, 1024**3),
        (HALF, HALF, 0),
        ({"memory": "1Ti"}, None, 0),
        (None, {"memory": "4Gi"}, 0),
        (None, None, 0),
        (FULL, FULL, 0),
    ],
)
def test_limited_swap_since_1_30_is_in_addition_to_the_limit(agent, requests, limits, share):
    limited = MemorySwapConfiguration(swap_behavior="LimitedSwap")
    found = of_container(agent, requests, limits, memory_swap=limited, release=REVISED)
    assert found.unified["memory.swap.max"] == str(share)


@pytest.mark.usefixtures("swap_files")
def test_critical_pod_has_no_swap_since_1_30(agent):
    _, manager = agent(memory_swap=MemorySwapConfiguration(swap_behavior="LimitedSwap"), release=REVISED)
    one = container(requests=HALF)
    pod = make_pod(containers=[one], priority=2_000_000_000)
    assert manager.container_resources(pod, one).unified["memory.swap.max"] == "0"


@pytest.mark.usefixtures("kernel_v1")
def test_limited_swap_on_version_1_includes_the_memory_limit(agent):
    limited = MemorySwapConfiguration(swap_behavior="LimitedSwap")
    found = of_container(agent, HALF, {"memory": "4Gi"}, memory_swap=limited, release=REVISED)
    assert (found.memory_swap_limit_bytes, found.unified) == (4 * 1024**3, {})


@pytest.mark.row("config.memorySwap", "type.MemorySwapConfiguration.swapBehavior")
@pytest.mark.usefixtures("swap_files")
def test_unlimited_swap_on_version_2(agent):
    assert swap_v2(agent, "UnlimitedSwap", HALF, {"memory": "4Gi"}) == "max"


@pytest.mark.usefixtures("swap_files")
def test_version_2_without_the_gate_has_no_swap(agent):
    assert of_container(agent, HALF).unified["memory.swap.max"] == "0"


@pytest.mark.usefixtures("kernel_v2")
def test_swap_is_unchanged_without_a_controller(agent):
    assert swap_v2(agent, "LimitedSwap", HALF) is None


@pytest.mark.row("config.memorySwap", "type.MemorySwapConfiguration.swapBehavior")
@pytest.mark.usefixtures("kernel_v1")
@pytest.mark.parametrize(("behavior", "limit"), [("", 64 * MI), ("LimitedSwap", 64 * MI), ("UnlimitedSwap", -1)])
def test_swap_on_version_1(agent, behavior, limit):
    config = {"feature_gates": GATED, "memory_swap": MemorySwapConfiguration(swap_behavior=behavior)}
    found = of_container(agent, FULL, FULL, **config)
    assert (found.memory_swap_limit_bytes, found.unified) == (limit, {})


QOS_GATE = {"MemoryQoS": True}


@pytest.mark.row("config.memoryThrottlingFactor")
@pytest.mark.usefixtures("kernel_v2")
def test_memory_is_throttled_between_request_and_limit(agent):
    requests, limits = {"memory": "100Mi"}, {"memory": "200Mi"}

    usual = of_container(agent, requests, limits, feature_gates=QOS_GATE).unified
    half = of_container(agent, requests, limits, feature_gates=QOS_GATE, memory_throttling_factor=0.5).unified

    assert usual == {"memory.oom.group": "1", "memory.min": str(100 * MI), "memory.high": str(190 * MI)}
    assert half["memory.high"] == str(150 * MI)


@pytest.mark.parametrize(
    ("policy", "release", "burstable", "guaranteed"),
    [
        ("None", "1.35", {"memory.min": 32}, {"memory.min": 64}),
        ("None", "1.36", {"memory.min": 0, "memory.low": 0}, {"memory.min": 0, "memory.low": 0}),
        ("TieredReservation", "1.36", {"memory.min": 0, "memory.low": 32}, {"memory.min": 64, "memory.low": 0}),
        ("TieredReservation", "1.29", {"memory.min": 0, "memory.low": 32}, {"memory.min": 64, "memory.low": 0}),
    ],
)
@pytest.mark.usefixtures("kernel_v2")
def test_memory_reservation_depends_on_policy_and_release(agent, policy, release, burstable, guaranteed):
    def protection(requests, limits):
        selected = SelectedRelease(Release.parse(release))
        config = {"feature_gates": QOS_GATE, "memory_reservation_policy": policy, "release": selected}
        found = of_container(agent, requests, limits, **config).unified
        return {file: int(value) // MI for file, value in found.items() if file in ("memory.min", "memory.low")}

    assert protection({"memory": "32Mi"}, FULL) == burstable
    assert protection(FULL, FULL) == guaranteed


@pytest.mark.row("config.memoryThrottlingFactor")
@pytest.mark.usefixtures("kernel_v2")
def test_allocatable_memory_replaces_a_missing_limit_for_throttling(agent):
    config = {"feature_gates": QOS_GATE, "memory_throttling_factor": 0.5, "system_reserved": {"memory": "1Gi"}}
    found = of_container(agent, {"memory": "1Gi"}, **config).unified
    assert found["memory.high"] == str(4 * 1024 * MI)


@pytest.mark.usefixtures("kernel_v2")
def test_memory_with_equal_request_and_limit_is_not_throttled(agent):
    found = of_container(agent, FULL, FULL, feature_gates=QOS_GATE).unified
    assert "memory.high" not in found and found["memory.min"] == str(64 * MI)
    assert "memory.high" not in of_container(agent, feature_gates=QOS_GATE).unified


def test_memory_is_not_throttled_without_the_gate_or_on_version_1(agent, kernel):
    gates = {} if kernel.version == 2 else QOS_GATE
    found = of_container(agent, HALF, feature_gates=gates).unified
    assert "memory.high" not in found and "memory.min" not in found


@pytest.mark.usefixtures("kernel_v2")
def test_single_process_is_killed_on_request(agent):
    assert "memory.oom.group" not in of_container(agent, single_process_oom_kill=True).unified
    assert of_container(agent, single_process_oom_kill=False).unified["memory.oom.group"] == "1"


@pytest.mark.row("config.memorySwap")
@pytest.mark.usefixtures("swap_files")
@pytest.mark.parametrize(
    ("minor", "behavior", "expected"),
    [(29, "", "0"), (30, "", "0"), (36, "", "0"), (36, "NoSwap", "0"), (36, "LimitedSwap", str(1024**3))],
)
def test_default_swap_depends_on_the_release(agent, minor, behavior, expected):
    release = SelectedRelease(Release(1, minor))
    swap = MemorySwapConfiguration(swap_behavior=behavior)

    limits = of_container(agent, HALF, release=release, memory_swap=swap)

    assert limits.unified["memory.swap.max"] == expected


# --- pod-level resources ----------------------------------------------------------------------------------------------


def test_pod_cgroup_has_the_limits_of_the_pod():
    pod = make_pod(
        containers=[container()],
        resources={"requests": {"cpu": "500m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "128Mi"}},
    )

    result = pod_resources(pod, Policy())

    assert (result.cpu_shares, result.cpu_quota, result.memory_limit_bytes) == (512, 100_000, 128 * MI)


def test_container_without_limits_has_those_of_the_pod():
    one, other = container("a", limits={"memory": "32Mi"}), container("b", requests={"cpu": "100m"})
    limits = {"cpu": "1", "memory": "128Mi", "hugepages-2Mi": "4Mi"}
    pod = make_pod(containers=[one, other], resources={"limits": limits, "requests": {"cpu": "500m"}})
    policy = Policy(page_sizes=(2 * MI,))

    first, second = (container_resources(pod, each, policy) for each in (one, other))

    assert (first.memory_limit_bytes, second.memory_limit_bytes) == (32 * MI, 128 * MI)
    assert (first.cpu_quota, second.cpu_quota) == (100_000, 100_000)
    assert (first.cpu_shares, second.cpu_shares) == (1024, 102)
    assert first.hugepage_limits == second.hugepage_limits == {"2MB": 4 * MI}


def test_limit_of_the_pod_does_not_prevent_swap():
    one = container(requests={"memory": "64Mi"})
    pod = make_pod(containers=[one], resources={"limits": {"memory": "128Mi"}, "requests": {"memory": "64Mi"}})
    policy = Policy(unified=True, swap=Swap.LIMITED, memory_capacity_bytes=640 * MI, swap_capacity_bytes=100 * MI)

    assert container_resources(pod, one, policy).unified["memory.swap.max"] == str(10 * MI)


@pytest.mark.parametrize(("limit", "pids"), [(-1, -1), (0, -1), (1, 1)])
def test_number_of_processes_is_limited_on_request(limit, pids):
    assert pod_cgroup_limits(make_pod(containers=["main"]), Policy(pids_limit=limit)).pids == pids


@pytest.mark.parametrize(("unified", "files"), [(True, {"memory.min": str(32 * MI)}), (False, {})])
def test_memory_of_a_pod_is_reserved_on_version_2(unified, files):
    pod = make_pod(containers=[container(requests={"memory": "32Mi"}, limits={"memory": "64Mi"})])

    assert pod_cgroup_limits(pod, Policy(unified=unified, memory_factor=0.9)).unified == files
    assert pod_cgroup_limits(pod, Policy(unified=unified)).unified == {}


@pytest.mark.parametrize(("factor", "throttled"), [(0.0, False), (0.5, True)])
def test_memory_is_not_throttled_at_the_request(factor, throttled):
    one = container(requests={"memory": "32Mi"}, limits={"memory": "64Mi"})

    found = container_resources(make_pod(containers=[one]), one, Policy(unified=True, memory_factor=factor))

    assert ("memory.high" in found.unified) is throttled


@pytest.mark.parametrize(("capacity", "share"), [(64 * MI, 32 * MI), (63 * MI, 0)])
def test_container_that_requests_more_than_the_host_has_no_swap(capacity, share):
    one = container(requests={"memory": "64Mi"})
    policy = Policy(
        unified=True,
        swap=Swap.LIMITED,
        swap_with_limit=True,
        memory_capacity_bytes=capacity,
        swap_capacity_bytes=32 * MI,
    )

    found = container_resources(make_pod(containers=[one]), one, policy)

    assert found.unified["memory.swap.max"] == str(share)
