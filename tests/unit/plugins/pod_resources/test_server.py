"""Tests for the pod-resources API: contents, versions, feature gates and the rate limit."""

from __future__ import annotations

import pytest

from nodeagent import hookimpl
from nodeagent.base.pluginproto import podresources_pb2 as v1
from nodeagent.base.rpc_server import CallRejected
from nodeagent.contracts.pod_resources import (
    AssignedClaim,
    AssignedDevice,
    AssignedMemory,
    AssignedResources,
    ClaimedDevice,
)
from nodeagent.testing import FakeClock, load_plugin, make_config, make_container, make_context, make_pod
from nodeagent.testing.contracts import BackgroundLoopContract
from nodeagent_plugins import pod_resources
from nodeagent_plugins.pod_resources.server import PodResourcesServer

WIDGET = "example.com/widget"


class Reporter:
    """Reports the same resources for each container called ``main``."""

    name = "test"

    def __init__(self, resources):
        self.resources = resources

    def container_resources(self, pod, container):
        return self.resources if container.name == "main" else AssignedResources()

    def allocatable_resources(self):
        return self.resources


RESOURCES = AssignedResources(
    [AssignedDevice(WIDGET, "w0", (0, 1)), AssignedDevice(WIDGET, "w1")],
    [2, 3],
    [AssignedMemory("memory", 1024, (0,))],
    [AssignedClaim("claim", "default", [ClaimedDevice("driver.test", "pool", "gpu-0", ["test/gpu=0"])])],
)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def make_server(tmp_path, clock):
    def make(*resources, gates=None):
        class Reporters:
            @hookimpl
            def nodeagent_provide_resource_reporters(self):
                return [Reporter(each) for each in resources]

        context = make_context(tmp_path, clock=clock, config=make_config(feature_gates=gates or {}))
        plugins = load_plugin(pod_resources)
        plugins.register(Reporters(), name="reporters")
        results = plugins.provide_all("nodeagent_provide_background_loops", context=context, plugins=plugins)
        return results[0].value[0], context

    return make


def containers(message):
    return {container.name: container for container in message.containers}


def test_hook_provide_resource_reporters(make_server):
    server, context = make_server(AssignedResources(RESOURCES.devices), AssignedResources(cpus=RESOURCES.cpus))
    context.pods.add(make_pod("web"))

    (pod,) = server._list(v1.ListPodResourcesRequest()).pod_resources

    found = containers(pod)["main"]
    assert (pod.name, pod.namespace, list(found.cpu_ids)) == ("web", "default", [2, 3])
    assert [(d.resource_name, list(d.device_ids), [n.ID for n in d.topology.nodes]) for d in found.devices] == [
        (WIDGET, ["w0"], [0]),
        (WIDGET, ["w0"], [1]),
        (WIDGET, ["w1"], []),
    ]
    assert not found.devices[2].HasField("topology")


def test_sidecars_are_listed_before_containers(make_server):
    server, context = make_server()
    sidecar = make_container("sidecar", restart_policy="Always")
    context.pods.add(make_pod("web", init_containers=["init", sidecar]))

    (pod,) = server._list(v1.ListPodResourcesRequest()).pod_resources

    assert [container.name for container in pod.containers] == ["sidecar", "main"]


def test_memory_and_allocatable_resources(make_server):
    server, _ = make_server(RESOURCES)

    found = server._get_allocatable(v1.AllocatableResourcesRequest())

    assert [(m.memory_type, m.size, [n.ID for n in m.topology.nodes]) for m in found.memory] == [("memory", 1024, [0])]
    assert list(found.cpu_ids) == [2, 3]
    assert len(found.devices) == 3


@pytest.mark.row("gate.NodeAgentPodResourcesGet")
def test_get_needs_its_feature_gate(make_server):
    server, context = make_server(RESOURCES)
    request = v1.GetPodResourcesRequest(pod_name="web", pod_namespace="default")
    with pytest.raises(CallRejected, match="PodResources API Get method disabled"):
        server._get(request)

    server, context = make_server(RESOURCES, gates={"NodeAgentPodResourcesGet": True})
    with pytest.raises(CallRejected, match="pod web in namespace default not found"):
        server._get(request)
    context.pods.add(make_pod("web"))
    assert server._get(request).pod_resources.name == "web"


@pytest.mark.row("gate.NodeAgentPodResourcesDynamicResources")
def test_claims_need_their_feature_gate(make_server):
    server, context = make_server(RESOURCES)
    context.pods.add(make_pod("web"))
    (pod,) = server._list(v1.ListPodResourcesRequest()).pod_resources
    assert not containers(pod)["main"].dynamic_resources

    server, context = make_server(RESOURCES, gates={"NodeAgentPodResourcesDynamicResources": True})
    context.pods.add(make_pod("web"))
    (pod,) = server._list(v1.ListPodResourcesRequest()).pod_resources
    (claim,) = containers(pod)["main"].dynamic_resources
    (device,) = claim.claim_resources
    assert (claim.claim_name, claim.claim_namespace) == ("claim", "default")
    assert (device.driver_name, device.pool_name, device.device_name) == ("driver.test", "pool", "gpu-0")
    assert [each.name for each in device.cdi_devices] == ["test/gpu=0"]
    assert not device.HasField("share_id")


def test_earlier_version_lists_devices(make_server):
    server, context = make_server(RESOURCES)
    context.pods.add(make_pod("web"))

    (pod,) = server._list_alpha(None).pod_resources

    assert [(d.resource_name, list(d.device_ids)) for d in pod.containers[0].devices] == [
        (WIDGET, ["w0"]),
        (WIDGET, ["w1"]),
    ]


async def test_calls_above_the_rate_are_rejected(make_server, clock):
    server, _ = make_server()
    handler = server._counted("v1", "List", server._list)
    for _ in range(10):
        await handler(v1.ListPodResourcesRequest())

    with pytest.raises(CallRejected, match="rejected by rate limit") as raised:
        await handler(v1.ListPodResourcesRequest())
    assert raised.value.code == "RESOURCE_EXHAUSTED"
    await clock.advance(0.02)
    await handler(v1.ListPodResourcesRequest())


class TestServer(BackgroundLoopContract):
    @pytest.fixture
    async def loop(self, make_server):
        server, _ = make_server()
        assert isinstance(server, PodResourcesServer)
        return server
