"""Tests for resizes by the syncer: calls of the runtime and changes of the pod's cgroup, in order."""

import dataclasses

import msgspec
import pytest

from nodeagent.contracts.cgroups import PodLimit
from nodeagent.contracts.runtime import ANNOTATION_HASH, LinuxResources
from nodeagent.contracts.stats import ContainerUsage, MemoryStats, PodUsage
from nodeagent.errors import NodeAgentError, RuntimeFailure
from nodeagent.model.pod import ResourceRequirements
from nodeagent.model.resources import MEMORY, container_limits, pod_limits
from nodeagent.testing import FakeRuntime, make_container, make_pod
from nodeagent_plugins.pod_sync.definitions import legacy_hashes

MI = 1 << 20


class ResizingRuntime(FakeRuntime):
    """Runtime that is notified of the resources of sandboxes."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.notified, self.error = [], None

    async def update_sandbox_resources(self, sandbox_id, overhead, resources):
        self.notified.append(resources.memory_limit_bytes // MI)
        if self.error is not None:
            raise self.error


def sized_pod(memory, **fields):
    container = msgspec.structs.replace(
        make_container(**fields), resources=ResourceRequirements(limits={MEMORY: f"{memory}Mi"})
    )
    return make_pod("web", containers=[container])


@pytest.fixture
async def resizing(bench, tmp_path):
    """Bench with a running pod of 64 MiB that can be resized."""
    context = bench.context
    context.allocations.resizing = True
    context.runtime = bench.runtime = ResizingRuntime(bench.clock)

    def resources(pod, container):
        limits = container_limits(container) if container is not None else pod_limits(pod)
        return LinuxResources(memory_limit_bytes=limits[MEMORY].value())

    context.cgroups.resources = resources
    await bench.sync(sized_pod(64), times=2)
    context.cgroups.limited.clear()
    bench.runtime.notified.clear()
    bench.runtime.calls.clear()
    return bench


def use(bench, pod, memory):
    """Report memory usage in MiB of the pod and its container."""
    stats = MemoryStats(time=0, usage_bytes=memory * MI)
    usage = ContainerUsage("main", 0, memory=stats)
    bench.context.stats.set(PodUsage(pod.uid, "default", "web", 0, [usage], memory=stats))


def limits_of(bench):
    return [call.arguments[1].memory_limit_bytes // MI for call in bench.runtime.called("update_resources")]


async def test_container_gets_its_new_limit_without_a_restart(resizing):
    outcome = await resizing.sync(sized_pod(128))

    assert limits_of(resizing) == [128]
    assert resizing.context.cgroups.limited == [("uid-web", PodLimit.MEMORY)]
    assert resizing.runtime.notified == [128]
    assert "stop_container" not in resizing.calls
    assert outcome.resize_error == ""
    assert resizing.context.allocations.actuated("uid-web", "main").limits == {MEMORY: "128Mi"}
    await resizing.sync(sized_pod(128))
    assert limits_of(resizing) == [128]


async def test_container_that_has_exited_gets_the_new_limit_with_its_next_run(resizing):
    resizing.runtime.exit(resizing.id_of(sized_pod(64), "main"))

    await resizing.sync(sized_pod(128))

    assert limits_of(resizing) == []
    assert resizing.made()[-1].resources.memory_limit_bytes == 128 * MI


async def test_lower_limit_is_set_if_the_usage_permits_it(resizing):
    use(resizing, sized_pod(64), 16)

    outcome = await resizing.sync(sized_pod(32))

    assert outcome.resize_error == ""
    assert limits_of(resizing) == [32]


async def test_limit_below_the_usage_leaves_all_limits(resizing):
    use(resizing, sized_pod(64), 48)

    outcome = await resizing.sync(sized_pod(32))

    assert outcome.resize_error.startswith("cannot decrease memory limits: [attempting to set pod memory limit")
    assert outcome.retry_seconds is not None
    assert limits_of(resizing) == []
    assert resizing.context.cgroups.limited == []


async def test_container_is_restarted_if_its_policy_requires_it(resizing):
    policy = [{"resourceName": MEMORY, "restartPolicy": "RestartContainer"}]

    await resizing.sync(sized_pod(128, resize_policy=policy))

    assert limits_of(resizing) == []
    assert "stop_container" in resizing.calls
    assert resizing.made()[-1].resources.memory_limit_bytes == 128 * MI
    assert resizing.notes("Killing") == ["Container main resize requires restart"]


async def test_runtime_can_reject_a_resize(resizing):
    resizing.runtime.error = RuntimeFailure("no room")

    outcome = await resizing.sync(sized_pod(128))

    assert outcome.resize_error == "no room"
    assert resizing.context.cgroups.limited == []


@pytest.mark.parametrize("error", [NotImplementedError(), RuntimeFailure("unknown: not implemented")])
async def test_runtime_without_support_is_tolerated(resizing, error):
    resizing.runtime.error = error

    outcome = await resizing.sync(sized_pod(128))

    assert outcome.resize_error == ""
    assert limits_of(resizing) == [128]


async def test_runtime_is_notified_again_if_the_kernel_rejects_the_limit(resizing):
    resizing.context.cgroups.fail("limit_pod", NodeAgentError("the kernel refused"))

    outcome = await resizing.sync(sized_pod(128))

    assert outcome.resize_error == "the kernel refused"
    assert resizing.runtime.notified == [128, 64]


async def test_upgrade_of_the_agent_and_resizes_do_not_restart_containers(bench):
    pod = sized_pod(64)
    legacy = legacy_hashes(pod.spec.containers[0])[0]

    def created_by_earlier_release(config):
        return dataclasses.replace(config, annotations={**config.annotations, ANNOTATION_HASH: legacy})

    bench.hooks.changes["nodeagent_mutate_container"] = created_by_earlier_release
    await bench.sync(pod, times=2)
    before = bench.id_of(pod, "main")
    bench.context.allocations.resizing = True
    bench.restart_agent()

    await bench.sync(pod)
    await bench.sync(sized_pod(128))
    bench.restart_agent()
    await bench.sync(sized_pod(128))

    assert bench.id_of(pod, "main") == before
    assert "stop_container" not in bench.calls
    assert "update_resources" in bench.calls


@pytest.mark.parametrize("reported", [None, 16])
async def test_limit_is_not_lowered_without_the_usage_of_the_pod(resizing, reported):
    memory = MemoryStats(time=0, usage_bytes=reported)
    containers = [ContainerUsage("main", 0, memory=memory if reported else None)]
    resizing.context.stats.set(PodUsage("uid-web", "default", "web", 0, containers, memory=None))

    outcome = await resizing.sync(sized_pod(32))

    assert "missing pod memory usage" in outcome.resize_error
    assert ('missing container "main" memory usage' in outcome.resize_error) is (reported is None)
    assert limits_of(resizing) == []


async def test_usage_is_not_read_for_a_higher_limit(resizing):
    resizing.context.stats.fail("memory", NodeAgentError("unavailable"), times=None)

    assert (await resizing.sync(sized_pod(128))).resize_error == ""
    assert "unable to read memory usage" in (await resizing.sync(sized_pod(32))).resize_error
