"""Tests for the PodResizeValidator admission plugin."""

from __future__ import annotations

import pytest

from apiserver_stub.admission.plugins.pod_resize_validator import PodResizeValidator
from apiserver_stub.apimachinery.status import ApiError
from nodeagent.base.identity import Identity

NODE = {"status": {"allocatable": {"cpu": "2", "memory": "1Gi"}}}


class Nodes:
    def __init__(self, node):
        self.node = node

    def find(self, resource, name):
        return self.node if (resource, name) == ("core/nodes", "node-1") else None


def sized(cpu="1", memory="64Mi", **spec):
    containers = [{"name": "web", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]
    return {"metadata": {"name": "web"}, "spec": {"nodeName": "node-1", "containers": containers, **spec}}


async def rejection(call, new, node=NODE):
    with pytest.raises(ApiError) as caught:
        await PodResizeValidator(Nodes(node), Identity()).validate(call(new, sized(), operation="UPDATE"))
    return caught.value


async def test_resize_within_the_node_is_admitted(call):
    plugin = PodResizeValidator(Nodes(NODE), Identity())

    await plugin.validate(call(sized("2", "1Gi"), sized(), operation="UPDATE"))
    await plugin.validate(call(sized("20", nodeName=""), sized(nodeName=""), operation="UPDATE"))
    await plugin.validate(call(sized("20"), sized("20"), operation="UPDATE"))


async def test_resize_beyond_the_allocatable_resources_is_rejected(call):
    error = await rejection(call, sized("2", "2Gi", overhead={"cpu": "1"}))

    assert error.code == 403
    assert error.message.endswith(
        "node didn't have enough allocatable resources: cpu, requested: 3000, allocatable: 2000; "
        "memory, requested: 2147483648, allocatable: 1073741824"
    )
    assert error.details == {"name": "web", "kind": "pods", "causes": [{"reason": "NodeCapacity"}]}


async def test_resize_on_another_operating_system_is_rejected(call):
    windows = {**NODE, "metadata": {"labels": {"kubernetes.io/os": "windows"}}}

    error = await rejection(call, sized("2"), windows)

    assert error.details["causes"] == [{"reason": "UnsupportedPlatform"}]
    assert error.message.endswith('pod resize is only supported on linux nodes, node "node-1" is "windows"')


async def test_resize_of_a_pod_on_an_unknown_node_is_rejected(call):
    error = await rejection(call, sized("2"), None)

    assert error.message.endswith('node "node-1" not found')
