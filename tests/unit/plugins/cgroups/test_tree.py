"""Tests for the QoS cgroup manager on both versions of cgroups."""

from __future__ import annotations

import asyncio
import errno

import pytest

from nodeagent.base.duration import Duration
from nodeagent.base.release import Release, SelectedRelease
from nodeagent.contracts.cgroups import PodLimit
from nodeagent.errors import ConfigError, RuntimeUnavailable
from nodeagent.testing import make_container, make_pod
from nodeagent_plugins.cgroups import memory_metrics
from nodeagent_plugins.cgroups.files import CgroupFiles
from nodeagent_plugins.cgroups.manager import _DURATIONS, NoopCgroupManager, QosCgroupReconciler
from tests.unit.plugins.cgroups.conftest import GI, MI


def guaranteed(name, memory="64Mi"):
    amounts = {"cpu": "500m", "memory": memory}
    return make_pod(name, containers=[make_container(resources={"limits": amounts, "requests": amounts})])


def burstable(name, cpu="100m", memory="0"):
    return make_pod(name, containers=[make_container(resources={"requests": {"cpu": cpu, "memory": memory}})])


def weight(kernel, name):
    return kernel.read(name, "cpu.shares" if kernel.version == 1 else "cpu.weight")


def memory(kernel, name):
    return kernel.read(name, "memory.limit_in_bytes" if kernel.version == 1 else "memory.max")


def set_usage(kernel, name, amount):
    kernel.file(name, "memory.usage_in_bytes" if kernel.version == 1 else "memory.current").write_text(str(amount))


@pytest.fixture
def strict(monkeypatch):
    """Reject memory limits below the usage, as version 1 does."""
    write = CgroupFiles._write

    def checked(self, controller, name, file, value):
        usage = self.hierarchy.file("memory", name, "memory.usage_in_bytes")
        if file == "memory.limit_in_bytes" and 0 <= int(value) < int(usage.read_text()):
            raise OSError(errno.EBUSY, "Device or resource busy")
        write(self, controller, name, file, value)

    monkeypatch.setattr(CgroupFiles, "_write", checked)


# --- the tree -------------------------------------------------------------------------------------------------


@pytest.mark.row("config.cgroupsPerQOS")
async def test_pods_get_cgroups_by_class(agent, kernel):
    _, manager = agent()
    await manager.start()
    await manager.ensure_pod(guaranteed("a"))
    await manager.ensure_pod(burstable("b"))
    await manager.ensure_pod(make_pod("c"))

    assert kernel.exists("/kubepods/poduid-a")
    assert kernel.exists("/kubepods/burstable/poduid-b")
    assert kernel.exists("/kubepods/besteffort/poduid-c")
    assert memory(kernel, "/kubepods/poduid-a") == str(64 * MI)


async def test_driver_in_effect_is_that_of_the_runtime(agent, kernel):
    context, manager = agent(cgroup_driver="systemd", feature_gates={"NodeAgentCgroupDriverFromCRI": True})
    context.runtime.driver = "cgroupfs"
    assert manager.driver == "systemd"
    await manager.start()
    assert manager.driver == "cgroupfs"


async def test_single_limit_of_a_pod_can_change(agent, kernel):
    _, manager = agent()
    await manager.start()
    await manager.ensure_pod(guaranteed("a"))
    amounts = {"cpu": "1", "memory": "128Mi"}
    larger = make_pod("a", containers=[make_container(resources={"limits": amounts, "requests": amounts})])
    path, quota = "/kubepods/poduid-a", "cpu.cfs_quota_us" if kernel.version == 1 else "cpu.max"
    small, most = weight(kernel, path), kernel.read(path, quota)

    await manager.limit_pod(larger, PodLimit.MEMORY)

    assert memory(kernel, path) == str(128 * MI)
    assert (weight(kernel, path), kernel.read(path, quota)) == (small, most)
    await manager.limit_pod(larger, PodLimit.CPU)
    assert kernel.read(path, quota).split()[0] == "100000"
    assert weight(kernel, path) == small
    await manager.limit_pod(larger, PodLimit.CPU_SHARES)
    assert weight(kernel, path) == ("1024" if kernel.version == 1 else "39")
    await manager.ensure_pod(guaranteed("a"))
    assert (memory(kernel, path), weight(kernel, path), kernel.read(path, quota)) == (str(64 * MI), small, most)


async def test_pod_with_exclusive_cpus_has_no_quota(agent, kernel):
    _, manager = agent()
    await manager.start()
    manager.exempt_from_quota(lambda uid, container: (uid, container) == ("uid-a", "main"))
    for pod in (guaranteed("a"), guaranteed("b")):
        await manager.ensure_pod(pod)
    quota = "cpu.cfs_quota_us" if kernel.version == 1 else "cpu.max"

    assert kernel.read("/kubepods/poduid-a", quota).split()[0] in ("-1", "max")
    assert kernel.read("/kubepods/poduid-b", quota).split()[0] == "50000"
    for name, expected in (("a", 0), ("b", 50_000)):
        pod = guaranteed(name)
        assert manager.container_resources(pod, pod.spec.containers[0]).cpu_quota == expected
        assert manager.pod_resources(pod).cpu_quota == expected


@pytest.mark.row("config.cgroupsPerQOS")
async def test_without_qos_classes_no_cgroup_is_created(agent, kernel):
    _, manager = agent(cgroups_per_qos=False, enforce_node_allocatable=())
    await manager.start()
    await manager.ensure_pod(guaranteed("a"))

    assert not kernel.exists("/kubepods")
    assert manager.parent_of(guaranteed("a")) == ""
    assert await manager.pods() == ()
    await manager.remove_pod("uid-a")


@pytest.mark.row("config.cgroupRoot")
async def test_tree_is_created_below_the_root(agent, kernel):
    kernel.make("/a/b")
    _, manager = agent(cgroup_root="/a/b")
    await manager.start()
    await manager.ensure_pod(guaranteed("a"))

    assert kernel.exists("/a/b/kubepods/poduid-a")
    assert manager.parent_of(guaranteed("a")) == "/a/b/kubepods/poduid-a"
    assert not kernel.exists("/kubepods")


@pytest.mark.row("config.cgroupRoot")
async def test_missing_root_fails_the_start(agent, kernel):
    _, manager = agent(cgroup_root="/nowhere")
    with pytest.raises(ConfigError, match=r"cgroupRoot.*must exist"):
        await manager.start()
    assert not kernel.exists("/nowhere")


async def test_missing_controller_fails_the_start(agent, kernel_v1):
    kernel_v1.mountinfo.write_text(
        "".join(line for line in kernel_v1.mountinfo.read_text().splitlines(True) if not line.endswith("cpuacct\n"))
    )
    _, manager = agent()
    with pytest.raises(ConfigError, match="it is missing for cpuacct"):
        await manager.start()


async def test_driver_of_the_runtime_is_used_with_its_gate(agent, kernel, systemd):
    systemd.kernel = kernel
    context, manager = agent(feature_gates={"NodeAgentCgroupDriverFromCRI": True})
    context.runtime.driver = "systemd"
    await manager.start()

    assert manager.parent_of(guaranteed("a")) == "kubepods-poduid_a.slice"
    assert "kubepods.slice" in systemd.units


async def test_driver_of_the_runtime_is_used_by_default_since_1_31(agent, kernel, systemd):
    systemd.kernel = kernel
    context, manager = agent(release=SelectedRelease(Release(1, 31)))
    context.runtime.driver = "systemd"

    await manager.start()

    assert "kubepods.slice" in systemd.units


async def test_query_for_the_driver_is_tried_three_times(agent, kernel):
    context, manager = agent(feature_gates={"NodeAgentCgroupDriverFromCRI": True})
    clock, calls = context.clock, []

    async def fail():
        calls.append(clock.now())
        raise RuntimeUnavailable("no runtime")

    context.runtime.cgroup_driver = fail
    start = asyncio.create_task(manager.start())
    await clock.advance(4)

    with pytest.raises(RuntimeUnavailable):
        await start
    assert [at - calls[0] for at in calls] == [0, 2, 4]


@pytest.mark.parametrize(("gate", "reported"), [(True, ""), (False, "systemd")])
async def test_runtime_without_driver_or_gate_changes_nothing(agent, kernel, gate, reported):
    context, manager = agent(feature_gates={"NodeAgentCgroupDriverFromCRI": gate})
    context.runtime.driver = reported
    await manager.start()
    assert kernel.exists("/kubepods")
    assert manager.parent_of(guaranteed("a")) == "/kubepods/poduid-a"


# --- limits of pods -------------------------------------------------------------------------------------------


@pytest.mark.row("config.podPidsLimit")
async def test_pids_of_a_pod_are_limited(agent, kernel):
    _, manager = agent(pod_pids_limit=50)
    await manager.ensure_pod(guaranteed("a"))
    assert kernel.read("/kubepods/poduid-a", "pids.max") == "50"


@pytest.mark.row("config.podPidsLimit")
async def test_pid_limit_from_before_a_restart_is_removed(agent, kernel):
    _, earlier = agent(pod_pids_limit=50)
    await earlier.ensure_pod(guaranteed("a"))
    _, manager = agent()
    await manager.ensure_pod(guaranteed("a"))
    assert kernel.read("/kubepods/poduid-a", "pids.max") == "max"


async def test_huge_pages_are_limited_per_pod_and_not_per_class(agent, kernel):
    file = "hugetlb.2MB.limit_in_bytes" if kernel.version == 1 else "hugetlb.2MB.max"
    limits = {"cpu": 1, "memory": "1Mi", "hugepages-2Mi": "4Mi"}
    _, manager = agent()
    await manager.start()
    await manager.ensure_pod(
        make_pod("a", containers=[make_container(resources={"limits": limits, "requests": limits})])
    )
    await manager.ensure_pod(burstable("b"))

    assert kernel.read("/kubepods/poduid-a", file) == str(4 * MI)
    assert kernel.read("/kubepods/burstable/poduid-b", file) == "0"
    assert kernel.read("/kubepods/burstable", file) == str(1 << 62)
    assert kernel.read("/kubepods", file) == str(64 * MI)


async def test_period_of_an_adopted_pod_is_updated(agent, kernel):
    _, earlier = agent()
    await earlier.ensure_pod(guaranteed("a"))
    _, manager = agent(cpu_cfs_quota_period=Duration.of(milliseconds=10))
    await manager.ensure_pod(guaranteed("a"))

    if kernel.version == 1:
        assert kernel.read("/kubepods/poduid-a", "cpu.cfs_period_us") == "10000"
        assert kernel.read("/kubepods/poduid-a", "cpu.cfs_quota_us") == "5000"
    else:
        assert kernel.read("/kubepods/poduid-a", "cpu.max") == "5000 10000"


async def test_lost_pod_cgroup_is_created_again(agent, kernel):
    _, manager = agent()
    await manager.start()
    await manager.ensure_pod(guaranteed("a"))
    for path in kernel.directories("/kubepods/poduid-a"):
        path.rmdir()

    await manager.update()
    await manager.ensure_pod(guaranteed("a"))

    assert kernel.exists("/kubepods/poduid-a")


# --- limits of classes ----------------------------------------------------------------------------------------


async def test_classes_have_the_weight_of_their_active_pods(agent, kernel):
    context, manager = agent()
    await manager.start()
    for pod in (burstable("a", "100m"), burstable("b", "900m"), make_pod("c")):
        context.pods.add(pod)
        await manager.ensure_pod(pod)
    heavy = weight(kernel, "/kubepods/burstable")
    context.pods.ended.add("uid-b")
    await manager.update()

    assert (heavy, weight(kernel, "/kubepods/burstable")) == (("1024", "102") if kernel.version == 1 else ("39", "4"))
    assert weight(kernel, "/kubepods/besteffort") == ("2" if kernel.version == 1 else "1")


async def test_class_weight_is_complete_right_after_a_restart(agent, kernel_v1):
    context, manager = agent()
    context.pods.add(burstable("a", "100m"))
    context.pods.add(burstable("b", "900m"))
    await manager.start()
    assert weight(kernel_v1, "/kubepods/burstable") == "1024"


RESERVED = {"qos_reserved": {"memory": "50%"}, "feature_gates": {"QOSReserved": True}}


@pytest.mark.row("config.qosReserved")
async def test_requested_memory_is_reserved_from_lower_classes(agent, kernel):
    context, manager = agent(system_reserved={"memory": "1Gi"}, **RESERVED)
    context.pods.add(guaranteed("a", "2Gi"))
    context.pods.add(burstable("b", memory="1Gi"))
    await manager.start()

    assert memory(kernel, "/kubepods/burstable") == str(6 * GI)  # 7 Gi for pods, half of 2 Gi kept
    assert memory(kernel, "/kubepods/besteffort") == str(5 * GI + GI // 2)


@pytest.mark.row("config.qosReserved")
@pytest.mark.usefixtures("strict")
async def test_class_limit_is_not_set_below_the_usage(agent, kernel):
    context, manager = agent(**RESERVED)
    context.pods.add(guaranteed("a", "8Gi"))
    await manager.start()
    assert memory(kernel, "/kubepods/besteffort") == str(4 * GI)
    set_usage(kernel, "/kubepods/besteffort", 6 * GI)
    await manager.update()
    assert memory(kernel, "/kubepods/besteffort") == str(6 * GI)
    set_usage(kernel, "/kubepods/besteffort", GI)
    await manager.update()
    assert memory(kernel, "/kubepods/besteffort") == str(4 * GI)


async def test_classes_have_no_memory_limit_by_default(agent, kernel):
    context, earlier = agent(**RESERVED)
    context.pods.add(guaranteed("a", "2Gi"))
    await earlier.start()
    _, manager = agent()
    await manager.start()
    assert memory(kernel, "/kubepods/burstable") == ("-1" if kernel.version == 1 else "max")


@pytest.mark.row("config.memoryThrottlingFactor")
async def test_memory_qos_protects_the_requests_of_classes_and_pods(agent, kernel_v2):
    context, manager = agent(feature_gates={"MemoryQoS": True})
    for pod in (guaranteed("a", "64Mi"), burstable("b", memory="32Mi")):
        context.pods.add(pod)
        await manager.ensure_pod(pod)

    read = [kernel_v2.read(f"/kubepods{below}", "memory.min") for below in ("", "/burstable", "/poduid-a")]
    assert read == [str(96 * MI), str(32 * MI), str(64 * MI)]


@pytest.mark.parametrize(("policy", "share"), [("TieredReservation", 1), ("None", 0)])
async def test_tiered_reservation_protects_classes_and_pods(agent, kernel_v2, policy, share):
    release = SelectedRelease(Release(1, 36))
    context, manager = agent(feature_gates={"MemoryQoS": True}, memory_reservation_policy=policy, release=release)
    for pod in (guaranteed("a", "64Mi"), burstable("b", memory="32Mi")):
        context.pods.add(pod)
        await manager.ensure_pod(pod)

    names = ("", "/burstable", "/poduid-a", "/burstable/poduid-b")
    hard, soft = (
        [int(kernel_v2.read(f"/kubepods{name}", file)) // MI for name in names] for file in ("memory.min", "memory.low")
    )
    assert hard == [96 * share, 0, 64 * share, 0]
    assert soft == [0, 32 * share, 0, 32 * share]
    sampled = [gauge.sample()[()] // MI for gauge in (memory_metrics._HARD_BYTES, memory_metrics._SOFT_BYTES)]
    assert sampled == [64 * share, 32 * share]


async def test_changed_limits_are_reapplied_every_minute(agent, kernel, clock):
    _, manager = agent()
    await manager.start()
    file = kernel.file("/kubepods/besteffort", "cpu.shares" if kernel.version == 1 else "cpu.weight")
    file.write_text("500")
    rounds = []

    async def sleep(seconds):
        rounds.append(seconds)
        if len(rounds) == 2:
            raise StopIteration

    with pytest.raises(RuntimeError):
        await QosCgroupReconciler(manager, sleep).run()
    assert file.read_text() == ("2" if kernel.version == 1 else "1")
    assert rounds == [60.0, 60.0]


# --- a running agent ------------------------------------------------------------------------------------------


async def test_existing_cgroups_are_adopted(agent, kernel):
    _, earlier = agent()
    await earlier.start()
    await earlier.ensure_pod(guaranteed("a"))
    kernel.file("/kubepods/poduid-a", "pids.max").write_text("3")

    _, manager = agent()
    await manager.start()
    assert await manager.pods() == ["uid-a"]
    await manager.ensure_pod(guaranteed("a"))
    assert kernel.read("/kubepods/poduid-a", "pids.max") == "max"
    await manager.remove_pod("uid-a")
    assert not kernel.exists("/kubepods/poduid-a")


async def test_pods_of_another_agent_are_not_touched(agent, kernel, tmp_path):
    _, theirs = agent(settings={"root_dir": str(tmp_path / "theirs")})
    await theirs.ensure_pod(guaranteed("a"))
    kernel.make("/kubepods/podmade-by-hand")
    _, ours = agent()
    assert await ours.pods() == []


async def test_unchanged_pod_cgroup_is_created_once(agent, kernel):
    _, manager = agent()
    await manager.ensure_pod(guaranteed("a"))
    kernel.file("/kubepods/poduid-a", "pids.max").write_text("3")
    await manager.ensure_pod(guaranteed("a"))
    assert kernel.read("/kubepods/poduid-a", "pids.max") == "3"


def test_missing_cgroup_file_system_error_has_advice(agent, kernel):
    kernel.mountinfo.write_text("")
    with pytest.raises(ConfigError, match="set cgroupsPerQOS to false"):
        agent()
    assert isinstance(agent(cgroups_per_qos=False)[1], NoopCgroupManager)


async def test_disabled_controllers_are_enabled_again(agent, kernel_v2):
    _, manager = agent()
    await manager.start()
    await manager.ensure_pod(guaranteed("a"))
    control = kernel_v2.file("/kubepods", "cgroup.subtree_control")
    with control.open("w") as file:
        file.write("memory")
    await manager.ensure_pod(guaranteed("b"))
    assert {"cpu", "memory", "hugetlb"} <= set(control.read_text().split())


async def test_invalid_pod_does_not_block_the_others(agent, kernel_v1):
    context, manager = agent()
    context.pods.add(burstable("bad", "a lot"))
    context.pods.add(burstable("good", "100m"))
    await manager.start()
    assert weight(kernel_v1, "/kubepods/burstable") == "102"


async def test_pod_below_another_root_does_not_exist(agent, kernel):
    kernel.make("/a")
    _, earlier = agent()
    await earlier.ensure_pod(guaranteed("a"))
    assert await agent()[1].exists(guaranteed("a"))
    assert not await agent(cgroup_root="/a")[1].exists(guaranteed("a"))


async def test_cgroup_operations_are_timed(agent, kernel):
    before = [_DURATIONS.count(kind) for kind in ("create", "update", "destroy")]
    _, manager = agent()
    await manager.start()
    await manager.ensure_pod(guaranteed("a"))
    await manager.remove_pod("uid-a")
    after = [_DURATIONS.count(kind) for kind in ("create", "update", "destroy")]
    assert [now - then for then, now in zip(before, after, strict=True)] == [1, 3, 1]
