"""Tests for the resource managers."""

from __future__ import annotations

import asyncio
import json

import pytest

from nodeagent.base.duration import Duration
from nodeagent.base.gates import FeatureGate, FeatureGates, Stage
from nodeagent.base.quantity import Quantity
from nodeagent.contracts.configuration import MemoryReservation
from nodeagent.contracts.runtime import ContainerConfig, LinuxResources
from nodeagent.errors import RuntimeFailure
from nodeagent.testing import (
    FakeClock,
    FakePodDirectory,
    FakeRuntime,
    admit,
    load_plugin,
    make_config,
    make_context,
    make_pod,
)
from nodeagent_plugins import resource_managers
from nodeagent_plugins.resource_managers import metrics
from nodeagent_plugins.resource_managers.errors import StaleState
from nodeagent_plugins.resource_managers.manager import ResourceManagers

from .conftest import guaranteed, write_host

CPU = {"cpu_manager_policy": "static", "reserved_system_cpus": "0"}
MEMORY = {
    "memory_manager_policy": "Static",
    "system_reserved": {"memory": "1Gi"},
    "eviction_hard": {},
    "reserved_memory": (MemoryReservation(0, {"memory": Quantity.parse("1Gi")}),),
}


class Node:
    """The managers on a host, with a runtime and the pods that are active on it."""

    def __init__(self, tmp_path, machine, **config):
        self.clock = FakeClock()
        self.runtime, self.pods = FakeRuntime(self.clock), FakePodDirectory()
        self.root = tmp_path / "root"
        self.root.mkdir(exist_ok=True)
        self.context = make_context(
            self.root, config=make_config(**config), clock=self.clock, runtime=self.runtime, pods=self.pods
        )
        self.machine = machine
        self.restart()

    def restart(self):
        self.managers = ResourceManagers(self.context, root=self.machine)
        self.plugins = load_plugin(self.managers)
        self.plugins.provide_all("nodeagent_provide_background_loops", context=self.context, plugins=self.plugins)

    async def admit(self, pod):
        rejection = await admit(self.plugins, pod, *self.pods.active())
        if rejection is None:
            self.pods.add(pod)
        return rejection and (rejection.reason, rejection.message)

    async def run(self, pod, name="main"):
        """Admit the pod, create and start its container; return the runtime's id of it."""
        assert await self.admit(pod) is None
        container = pod.spec.containers[0]
        settings = await self.settings(pod, container)
        container_id = self.runtime.start(name, pod, resources=settings.resources)
        await self.plugins.notify(
            "nodeagent_container_started", pod=pod, container=container, container_id=container_id
        )
        self.pods.add(pod, observed=self.runtime.pod(pod.uid))
        return container_id

    async def settings(self, pod, container):
        made = ContainerConfig(container.name, 0, container.image, resources=LinuxResources(cpu_shares=7))
        return await self.plugins.call_chain(
            "nodeagent_mutate_container", "settings", made, pod=pod, container=container
        )

    def cpus(self, container_id):
        return self.runtime.config_of(container_id).resources.cpuset_cpus

    def updates(self):
        return [call.arguments for call in self.runtime.called("update_resources")]

    def state(self, name="cpu_manager_state"):
        return json.loads((self.root / name).read_text())


@pytest.fixture
def start(tmp_path, machine):
    return lambda **config: Node(tmp_path, machine, **config)


# --- cpu ------------------------------------------------------------------------------------------------------


@pytest.mark.row("config.cpuManagerPolicy")
async def test_guaranteed_container_gets_exclusive_cpus_and_others_the_rest(start):
    node = start(**CPU)
    fast, slow = await node.run(guaranteed(main={"cpu": "2"})), await node.run(make_pod("slow"))
    assert (node.cpus(fast), node.cpus(slow)) == ("1,9", "0,2-8,10-15")
    assert node.runtime.config_of(fast).resources.cpu_shares == 7
    assert node.state()["entries"] == {"uid-fast": {"main": "1,9"}}


@pytest.mark.row("config.cpuManagerReconcilePeriod")
async def test_shared_pool_is_reconciled_each_period(start):
    node = start(**CPU, cpu_manager_reconcile_period=Duration.of(seconds=20))
    slow = await node.run(make_pod("slow"))
    fast = await node.run(guaranteed(main={"cpu": "2"}))
    loop = asyncio.create_task(node.managers.run())
    await node.clock.advance(19)
    assert node.updates() == []
    await node.clock.advance(1)
    assert node.updates() == [(slow, LinuxResources(cpuset_cpus="0,2-8,10-15"))]
    await node.clock.advance(20)
    assert len(node.updates()) == 1
    await node.plugins.notify("nodeagent_pod_terminated", pod=node.pods.get("uid-fast"))
    node.runtime.exit(fast)
    node.pods.add(node.pods.get("uid-fast"), observed=node.runtime.pod("uid-fast"))
    await node.clock.advance(20)
    assert node.updates()[1:] == [(slow, LinuxResources(cpuset_cpus="0-15"))]
    loop.cancel()


async def test_failed_update_is_repeated(start):
    node = start(**CPU)
    await node.run(make_pod("slow"))
    await node.run(guaranteed(main={"cpu": "2"}))
    node.runtime.fail("update_resources", RuntimeFailure("no"))
    await node.managers.reconcile()
    await node.managers.reconcile()
    assert len(node.updates()) == 2


async def test_restarted_agent_restores_and_updates_every_container(start):
    node = start(**CPU)
    pod = guaranteed(main={"cpu": "2"})
    fast = await node.run(pod)
    node.restart()
    assert await node.admit(pod) is None
    node.pods.add(pod, observed=node.runtime.pod(pod.uid))
    await node.managers.reconcile()
    assert node.updates() == [(fast, LinuxResources(cpuset_cpus="1,9"))]


async def test_unknown_pods_keep_their_cpus_after_a_restart(start):
    node = start(**CPU)
    await node.run(guaranteed(main={"cpu": "2"}))
    node.pods = node.context.pods = FakePodDirectory()
    node.restart()
    await node.run(guaranteed("second", main={"cpu": "2"}))
    assert set(node.state()["entries"]) == {"uid-fast", "uid-second"}


async def test_cpus_of_a_deleted_pod_are_released(start):
    node = start(**CPU)
    container = await node.run(guaranteed(main={"cpu": "8"}))
    node.runtime.exit(container)
    node.pods = node.context.pods = FakePodDirectory()
    node.restart()
    assert await node.admit(guaranteed("second", main={"cpu": "15"})) is None


async def test_pod_rejected_by_another_plugin_releases_its_cpus(start):
    node = start(**CPU)
    assert await admit(node.plugins, guaranteed(main={"cpu": "8"})) is None
    await node.managers.reconcile()
    assert set(node.state()["entries"]) == {"uid-fast"}
    assert await node.admit(guaranteed("second", main={"cpu": "15"})) is None


async def test_too_many_cpus_are_rejected_without_partial_assignment(start):
    node = start(**CPU)
    assert await node.admit(guaranteed(main={"cpu": "8"}, more={"cpu": "8"})) == (
        "UnexpectedAdmissionError",
        "Allocate failed due to not enough cpus available to satisfy request: requested=8, available=7, "
        "which is unexpected",
    )
    assert await node.admit(guaranteed("second", main={"cpu": "15"})) is None


async def test_failed_admission_keeps_earlier_assignments(start):
    node = start(**CPU)
    container = await node.run(guaranteed(main={"cpu": "8"}))

    assert await node.admit(guaranteed(main={"cpu": "8"}, more={"cpu": "8"}))

    await node.managers.reconcile()
    assert node.state()["entries"] == {"uid-fast": {"main": node.cpus(container)}}
    assert (await node.admit(guaranteed("second", main={"cpu": "15"})))[0] == "UnexpectedAdmissionError"


@pytest.mark.row("config.cpuManagerPolicyOptions")
async def test_policy_options_are_applied(start):
    node = start(**CPU, cpu_manager_policy_options={"full-pcpus-only": "true"})
    assert await node.admit(guaranteed(main={"cpu": "3"})) == (
        "SMTAlignmentError",
        "SMT Alignment Error: requested 3 cpus not multiple cpus per core = 2",
    )


@pytest.mark.parametrize("enabled", [True, False])
async def test_quota_is_disabled_for_exclusive_cpus_by_gate(tmp_path, machine, enabled):
    node = Node(tmp_path, machine, **CPU)
    node.context.gates = FeatureGates([FeatureGate("DisableCPUQuotaWithExclusiveCPUs", Stage.BETA, enabled)])
    node.restart()
    await node.run(guaranteed(main={"cpu": "2"}))
    exempt = node.context.cgroups.exclusive
    if not enabled:
        assert exempt is None
        return
    assert exempt("uid-fast", "main")
    assert not exempt("uid-fast", "other")
    assert not exempt("uid-other", "main")


async def test_containers_keep_their_cpus_if_none_are_shared(start):
    options = {"strict-cpu-reservation": "true"}
    node = start(**CPU, cpu_manager_policy_options=options)
    shared = await node.run(make_pod("shared"))
    await node.run(guaranteed(main={"cpu": "15"}))
    await node.managers.reconcile()
    assert node.updates() == []
    assert node.cpus(shared) == "1-15"


async def test_cpu_metrics_show_pools_and_alignment(start):
    before = {
        name: metrics.ALIGNED.value(*name) for name in (("container", "physical_cpu"), ("container", "numa_node"))
    }
    node = start(
        **CPU, cpu_manager_policy_options={"full-pcpus-only": "true"}, topology_manager_policy="single-numa-node"
    )
    await node.run(guaranteed(main={"cpu": "2"}))
    assert metrics.SHARED_POOL_MILLICORES.sample() == {(): 13_000}
    assert metrics.EXCLUSIVE_CPUS.sample() == {(): 2}
    assert metrics.CPUS_PER_NODE.sample() == {("0",): 2, ("1",): 0, ("2",): 0, ("3",): 0}
    assert {name: metrics.ALIGNED.value(*name) - count for name, count in before.items()} == dict.fromkeys(before, 1)
    failures = (
        metrics.NOT_ALIGNED.value("container", "physical_cpu"),
        metrics.NOT_ALIGNED.value("container", "numa_node"),
    )
    assert await node.admit(guaranteed("odd", main={"cpu": "3"})) is not None
    assert await node.admit(guaranteed("large", main={"cpu": "8"})) is not None
    after = metrics.NOT_ALIGNED.value("container", "physical_cpu"), metrics.NOT_ALIGNED.value("container", "numa_node")
    assert after == (failures[0] + 1, failures[1] + 1)


@pytest.mark.parametrize(
    ("policy", "scope", "aligned"),
    [
        ("none", "container", (0, 0)),
        ("best-effort", "container", (0, 0)),
        ("best-effort", "pod", (0, 0)),
        ("single-numa-node", "container", (1, 0)),
        ("single-numa-node", "pod", (0, 1)),
    ],
)
async def test_alignment_is_counted_only_if_the_policy_requires_it(start, policy, scope, aligned):
    node = start(**CPU, topology_manager_policy=policy, topology_manager_scope=scope)

    def counts():
        return [metrics.ALIGNED.value(each, "numa_node") for each in ("container", "pod")]

    before = counts()
    assert await node.admit(guaranteed(main={"cpu": "2"})) is None
    assert tuple(after - count for after, count in zip(counts(), before, strict=True)) == aligned


@pytest.mark.parametrize(("cpu", "aligned"), [("4", 1), ("6", 0)])
async def test_cpus_within_one_cache_are_counted(tmp_path, cpu, aligned):
    host = write_host(tmp_path / "caches", nodes=2, caches=4)
    node = Node(tmp_path, host, **CPU, cpu_manager_policy_options={"prefer-align-cpus-by-uncorecache": "true"})
    before = metrics.ALIGNED.value("container", "uncore_cache")
    assert await node.admit(guaranteed(main={"cpu": cpu})) is None
    assert metrics.ALIGNED.value("container", "uncore_cache") - before == aligned


async def test_all_free_cores_can_be_requested(start):
    node = start(**CPU, cpu_manager_policy_options={"full-pcpus-only": "true"})
    assert await node.admit(guaranteed("large", main={"cpu": "16"})) == (
        "SMTAlignmentError",
        "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = 14, requested CPUs = 16, "
        "CPUs per core = 2",
    )
    assert await node.admit(guaranteed(main={"cpu": "14"})) is None


async def test_admission_duration_is_measured_from_fractions_of_milliseconds(start):
    node = start(**CPU)
    await node.run(guaranteed(main={"cpu": "1"}))
    labels = [text for suffix, text, *_ in metrics.ADMISSION_MILLISECONDS.family().rows if suffix == "_bucket"]
    assert (len(labels), labels[0], labels[-2]) == (16, 'le="0.05"', 'le="819.2"')


async def test_memory_metrics_count_pinning_and_errors(start):
    requests, errors = metrics.MEMORY_REQUESTS.value(), metrics.MEMORY_ERRORS.value()
    node = start(**MEMORY)
    await node.run(guaranteed(main={"memory": "1Gi"}))
    assert await node.admit(guaranteed("large", main={"memory": "100Gi"})) is not None
    assert (metrics.MEMORY_REQUESTS.value() - requests, metrics.MEMORY_ERRORS.value() - errors) == (2, 1)


async def test_failed_state_write_is_retried(start):
    node = start(**CPU)
    aside = node.root / ".cpu_manager_state.new"
    aside.mkdir()
    await node.run(guaranteed(main={"cpu": "2"}))
    aside.rmdir()
    await node.managers.reconcile()
    assert node.state()["entries"] == {"uid-fast": {"main": "1,9"}}


# --- memory and alignment -------------------------------------------------------------------------------------


@pytest.mark.row("config.memoryManagerPolicy", "config.reservedMemory")
async def test_memory_is_pinned_to_nodes(start):
    node = start(**MEMORY)
    pod = guaranteed(main={"memory": "3.5Gi"})
    container = await node.run(pod)
    assert node.runtime.config_of(container).resources.cpuset_mems == "1"
    assert node.runtime.config_of(container).resources.cpuset_cpus == ""
    assert node.state("memory_manager_state")["policyName"] == "Static"
    await node.plugins.notify("nodeagent_pod_terminated", pod=pod)
    assert node.state("memory_manager_state")["entries"] == {}
    slow = make_pod("slow")
    assert (await node.settings(slow, slow.spec.containers[0])).resources.cpuset_mems == ""


@pytest.mark.row("config.topologyManagerPolicy")
@pytest.mark.parametrize(
    ("policy", "cpu", "decision"),
    [
        ("none", "5", None),
        ("best-effort", "5", None),
        ("restricted", "5", None),
        ("single-numa-node", "5", "TopologyAffinityError"),
        ("single-numa-node", "4", None),
    ],
)
async def test_unaligned_pod_is_rejected_according_to_the_policy(start, policy, cpu, decision):
    node = start(**CPU, topology_manager_policy=policy)
    rejection = await node.admit(guaranteed(main={"cpu": cpu}))
    assert rejection == (decision and (decision, "Resources cannot be allocated with Topology locality"))
    assert bool(node.managers._cpus.entries) is (decision is None)


async def test_cpus_and_memory_come_from_the_same_node(start):
    node = start(**CPU, **MEMORY, topology_manager_policy="single-numa-node")
    pod = guaranteed(main={"cpu": "1", "memory": "3.5Gi"})
    container = await node.run(pod)
    resources = node.runtime.config_of(container).resources
    assert (resources.cpuset_cpus, resources.cpuset_mems) == ("2", "1")


@pytest.mark.row("config.topologyManagerScope")
@pytest.mark.parametrize(
    ("scope", "decision"),
    [("container", None), ("pod", ("TopologyAffinityError", "Resources cannot be allocated with Topology locality"))],
)
async def test_scope_decides_whether_the_pod_is_aligned_as_a_unit(start, scope, decision):
    node = start(**CPU, topology_manager_policy="single-numa-node", topology_manager_scope=scope)
    assert await node.admit(guaranteed(main={"cpu": "3"}, more={"cpu": "3"})) == decision


@pytest.mark.row("config.topologyManagerPolicyOptions")
@pytest.mark.parametrize(("option", "nodes"), [("true", {1, 2}), ("false", {0, 1})])
async def test_closest_nodes_are_preferred_by_option(start, topology, option, nodes):
    node = start(
        **CPU,
        topology_manager_policy="restricted",
        topology_manager_policy_options={"prefer-closest-numa-nodes": option},
    )
    assert await node.admit(guaranteed(main={"cpu": "6"})) is None
    cpus = node.managers._cpus.of("uid-fast", "main")
    assert topology.ids("node", cpus) == nodes


# --- state left by another policy -----------------------------------------------------------------------------


async def test_state_of_another_policy_fails_the_start(start, tmp_path, machine):
    await start(**CPU).run(guaranteed(main={"cpu": "1"}))
    start(**CPU)
    with pytest.raises(StaleState, match='configured policy "none" differs from state checkpoint policy "static"'):
        ResourceManagers(make_context(tmp_path / "root"), root=machine).start()
    with pytest.raises(StaleState, match=r"not all reserved cpus.*please drain this node"):
        ResourceManagers(
            make_context(tmp_path / "root", config=make_config(**{**CPU, "reserved_system_cpus": "8"})),
            root=machine,
        ).start()


def registered(context):
    return [info.name for info in load_plugin(resource_managers, name="resource_managers", context=context).plugins()]


def test_nothing_is_registered_without_policy_and_state_file(tmp_path):
    assert registered(make_context(tmp_path)) == ["resource_managers"]
    assert "resource_managers.node" in registered(make_context(tmp_path, config=make_config(**CPU)))
    (tmp_path / "memory_manager_state").touch()
    assert "resource_managers.node" in registered(make_context(tmp_path))


async def test_cpus_of_a_container_are_not_set_again_after_its_start(start):
    node, pod = start(**CPU), make_pod("slow")
    assert await node.admit(pod) is None
    container = pod.spec.containers[0]
    settings = await node.settings(pod, container)
    await node.managers.reconcile()
    container_id = node.runtime.start("main", pod, resources=settings.resources)
    fields = {"pod": pod, "container": container, "container_id": container_id}
    await node.plugins.notify("nodeagent_container_started", **fields)
    node.pods.add(pod, observed=node.runtime.pod(pod.uid))

    await node.managers.reconcile()

    assert node.updates() == []
