"""Tests for devices on NUMA nodes: selection, hints, and alignment with the topology manager."""

from __future__ import annotations

import pytest

from nodeagent.contracts.devices import ProvidedDevice
from nodeagent.contracts.topology import Hint
from nodeagent.errors import DevicesNotReady
from nodeagent.testing import (
    FakeClock,
    FakeDeviceProvider,
    admit,
    load_plugin,
    make_config,
    make_container,
    make_context,
    make_pod,
)
from nodeagent.testing.contracts import HintProviderContract, ResourceReporterContract
from nodeagent_plugins import devices as devices_plugin
from nodeagent_plugins import resource_managers
from nodeagent_plugins.devices.hints import DeviceHints
from nodeagent_plugins.devices.inventory import Resource
from nodeagent_plugins.devices.manager import Devices
from nodeagent_plugins.devices.reporter import DeviceReporter
from nodeagent_plugins.devices.reservations import Reservations, pod_devices
from nodeagent_plugins.devices.selection import candidates, device_hints

from .test_manager import settle

WIDGET = "example.com/widget"
NODES = {"a0": (0,), "a1": (0,), "b0": (1,), "b1": (1,), "both": (0, 1)}
RANKS = {id: rank for rank, id in enumerate(("a0", "a1", "b0", "b1", "both", "d1", "d9", "d10", "plain"))}


def requesting(name="web", count=1, init=(), **fields):
    containers = [make_container("main", resources={"limits": {WIDGET: str(count)}})]
    return make_pod(name, containers=containers, init_containers=init, **fields)


@pytest.mark.parametrize(
    ("free", "required", "count", "mask", "preferred", "chosen"),
    [
        ({"d10", "d9", "d1"}, (), 2, None, (), ("d1", "d9")),
        ({"a0", "b0"}, (), 1, {1}, (), ("b0",)),
        ({"a0", "b0", "plain"}, (), 3, {1}, (), ("b0", "a0", "plain")),
        ({"a0", "b0", "b1", "both"}, (), 1, {1}, ("a0", "b1"), ("b1",)),
        ({"a0", "a1", "b0"}, (), 2, {1}, ("a1",), ("b0", "a1")),
        ({"a0", "a1"}, ("both",), 2, {0}, ("both", "a1"), ("both", "a1")),
        ({"a0"}, (), 2, None, (), ("a0",)),
    ],
)
def test_selection(free, required, count, mask, preferred, chosen):
    assert candidates(free, required, count, NODES, mask, RANKS).pick(preferred) == chosen


@pytest.mark.parametrize(
    ("free", "reusable", "count", "hints"),
    [
        ({"a0", "b0"}, (), 1, {(0,): True, (1,): True, (0, 1): False}),
        ({"a0", "b0"}, (), 2, {(0, 1): False}),
        ({"a0", "a1", "b0", "b1"}, (), 4, {(0, 1): True}),
        ({"a0", "b0"}, ("b1",), 1, {(1,): True, (0, 1): False}),
        ({"both"}, (), 1, {(0,): True, (1,): True, (0, 1): False}),
        ({"a0"}, (), 2, {}),
    ],
)
def test_hints(free, reusable, count, hints):
    found = device_hints(NODES, free, reusable, count)

    assert {tuple(sorted(hint.nodes)): hint.preferred for hint in found} == hints


def test_devices_without_numa_nodes_have_no_hints():
    assert device_hints({}, {"a"}, (), 1) is None


def test_pod_needs_the_largest_step_of_its_initialization():
    init = [
        make_container("first", resources={"limits": {WIDGET: "3"}}),
        make_container("sidecar", restart_policy="Always", resources={"limits": {WIDGET: "1"}}),
        make_container("second", resources={"limits": {WIDGET: "1"}}),
    ]

    assert pod_devices(requesting(count=1, init=init)) == {WIDGET: 3}
    assert pod_devices(requesting(count=4, init=init)) == {WIDGET: 5}


@pytest.fixture
async def aligned(tmp_path):
    """Loaded plugins of a node with two NUMA nodes, whose topology manager admits only aligned pods."""
    config = make_config(topology_manager_policy="single-numa-node")
    context = make_context(tmp_path, clock=FakeClock(), config=config)
    provider = FakeDeviceProvider(devices=())
    provider.set(*(ProvidedDevice(id, numa_nodes=NODES[id]) for id in ("a0", "b0", "b1")))
    context.devices = Devices(context, [provider], tmp_path / "d", topology_policy="single-numa-node")
    await context.devices.start()
    await settle()
    plugins = load_plugin(devices_plugin, name="devices")
    plugins.register(resource_managers, name="resource_managers")
    host = tmp_path / "host/sys/devices/system"
    for number in (0, 1):
        (host / f"node/node{number}").mkdir(parents=True)
        (host / f"node/node{number}/cpulist").write_text(f"{number}\n")
        (host / f"cpu/cpu{number}/topology").mkdir(parents=True)
    for kind in ("cpu", "node"):
        (host / f"{kind}/online").write_text("0-1\n")
    plugins.provide_all("nodeagent_components_created", context=context, plugins=plugins)
    managers = next(each for each in plugins._pluggy.get_plugins() if hasattr(each, "_hint_sources"))
    managers._root = tmp_path / "host"
    plugins.provide_all("nodeagent_provide_background_loops", context=context, plugins=plugins)
    yield context, plugins
    await context.tasks.close()


async def test_hook_provide_hint_providers(aligned):
    context, plugins = aligned
    pod, impossible = requesting("two", 2), requesting("three", 2)

    assert await admit(plugins, pod) is None
    context.pods.add(pod)
    rejection = await admit(plugins, impossible, pod)
    await context.devices.prepare_pod(pod)

    assert context.devices.container_response(pod, pod.spec.containers[0]).envs == {"DEVICES": "b0,b1"}
    assert (rejection.reason, rejection.message) == (
        "TopologyAffinityError",
        "Resources cannot be allocated with Topology locality",
    )
    assert context.devices.decided(impossible.uid) == set()


async def test_late_devices_off_the_node_reject_the_pod(aligned):
    context, _ = aligned
    manager = context.devices
    manager.reservations.resources["example.com/late"] = Resource("example.com/late", 0)
    limits = {"limits": {"example.com/late": "1"}}
    pod = make_pod("web", containers=[make_container("main", resources=limits)])
    DeviceHints(manager).allocate(pod, pod.spec.containers[0], Hint(frozenset({0}), preferred=True))
    late = FakeDeviceProvider("example.com/late")
    late.set(ProvidedDevice("l0", numa_nodes=(1,)))
    manager.add(late)
    await settle()

    with pytest.raises(DevicesNotReady):
        await manager.prepare_pod(pod)

    assert [kill.status_reason for kill in context.pods.kills] == ["TopologyAffinityError"]


@pytest.fixture
async def devices(tmp_path):
    context = make_context(tmp_path, clock=FakeClock())
    provider = FakeDeviceProvider(devices=())
    provider.set(*(ProvidedDevice(id, numa_nodes=NODES[id]) for id in ("a0", "both")))
    manager = Devices(context, [provider], tmp_path / "d", topology_policy="best-effort")
    await manager.start()
    await settle()
    yield manager
    await context.tasks.close()


class TestDeviceHints(HintProviderContract):
    @pytest.fixture
    def hints(self, devices):
        return DeviceHints(devices)

    @pytest.fixture
    def pod(self):
        return requesting()


class TestDeviceReporter(ResourceReporterContract):
    @pytest.fixture
    def reporter(self, devices, pod):
        DeviceHints(devices).allocate(pod, pod.spec.containers[0], Hint())
        return DeviceReporter(devices.reservations)

    @pytest.fixture
    def pod(self):
        return requesting()


def test_unknown_pod_has_no_hints():
    assert Reservations().pod_hints(requesting()) == {}
