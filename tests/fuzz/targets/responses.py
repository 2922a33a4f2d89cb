"""Responses of API servers, and of plugins for volumes, devices and claims."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from google.protobuf.message import DecodeError

from apiserver_stub.controllers.autoscaling.metrics import MetricsClient, MetricsError
from apiserver_stub.controllers.views import Metadata, PodSpec, PodView
from nodeagent.apiclient import wire
from nodeagent.base.aio import SystemClock
from nodeagent.base.identity import Identity
from nodeagent.base.pluginproto import csi_pb2, deviceplugin_pb2, dra_v1_pb2, dra_v1beta1_pb2, registration_pb2
from nodeagent.contracts.plugin_registry import RegisteredPlugin
from nodeagent.errors import DeviceError, PluginRegistrationError, VolumeError
from nodeagent.model.pod import Pod
from nodeagent_plugins.claims import grpc_driver
from nodeagent_plugins.csi import figures
from nodeagent_plugins.csi.drivers import GET_STATS, Driver, Step
from nodeagent_plugins.device_plugins import client as device_plugin
from nodeagent_plugins.plugin_registry.protocol import check_description
from tests.fuzz.connections import drive
from tests.fuzz.fields import changed
from tests.fuzz.target import target

JSON = (
    b'"metadata":{"resourceVersion":"1"}',
    b'"items":[',
    b'{"spec":{"containers":[',
    b"null",
    b"[" * 1100,
    b'"type":"ADDED","object":',
)
WIRE = (b"\x12\x80\x01", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x08\x01", b"\x20\x03")


@target(ValueError, tokens=JSON)
def api_list(data: bytes) -> None:
    """Invalid objects in a list are skipped."""
    listing = wire.decode_page(data, wire.JSON, Pod)
    assert all(isinstance(pod, Pod) for pod in listing.items)


@target(ValueError, tokens=(*JSON, b"\n"))
def api_watch(data: bytes) -> None:
    """The events do not depend on the pieces in which they are received."""
    complete = wire.frame_reader(wire.JSON).feed(data)
    reader = wire.frame_reader(wire.JSON)
    pieces = [event for at in range(0, len(data), 7) for event in reader.feed(data[at : at + 7])]
    assert [(kind, bytes(obj)) for kind, obj in pieces] == [(kind, bytes(obj)) for kind, obj in complete]
    for _, obj in complete:
        wire.convert(obj, Pod)


STATISTICS = {
    "pods": [
        {
            "podRef": {"name": "a", "namespace": "default", "uid": "a"},
            "containers": [
                {
                    "name": "c",
                    "cpu": {"time": "2024-01-01T00:00:00Z", "usageNanoCores": 5000000},
                    "memory": {"time": "2024-01-01T00:00:00Z", "workingSetBytes": 1000},
                }
            ],
        }
    ]
}
METRICS = {
    "items": [
        {
            "metadata": {"name": "a"},
            "describedObject": {"name": "a"},
            "timestamp": "2024-01-01T00:00:00Z",
            "window": "30s",
            "windowSeconds": 30,
            "value": "5",
            "containers": [{"name": "c", "usage": {"cpu": "5m", "memory": "1Ki"}}],
        }
    ]
}
PODS = [PodView(metadata=Metadata(name=name, uid=name), spec=PodSpec(node_name=name)) for name in ("a", "b")]


@target()
def pod_metrics(data: bytes) -> None:
    """Statistics of a node are used or reported as invalid; those of other nodes are used."""
    changed_statistics = msgspec.json.encode(changed([STATISTICS], b"\x00" + data))

    async def read_node(node: str, path: str) -> tuple[int, bytes]:
        return 200, changed_statistics if node == "a" else msgspec.json.encode(STATISTICS).replace(
            b'"uid":"a"', b'"uid":"b"'
        )

    async def read_api(group: str, version: str, path: str) -> Any:
        return changed([METRICS], b"\x00" + data)

    clock = SystemClock()
    for resource in ("cpu", "memory"):
        found = drive(MetricsClient(None, read_node, Identity(), clock).of_resource("default", "", resource, PODS))
        assert "b" in found
        client = MetricsClient(read_api, None, Identity(), clock)
        with suppress(MetricsError):
            drive(client.of_resource("default", "", resource, PODS))
    for reading in (
        client.of_pods("default", "", "m", ""),
        client.of_object("default", "pods", "a", "m", ""),
        client.external("default", "m", ""),
    ):
        with suppress(MetricsError):
            drive(reading)


class _CsiDriver(Driver):
    """Driver with one response to all calls."""

    response: Any = None

    @asynccontextmanager
    async def shared_step(self) -> AsyncIterator[Step]:
        yield Step(self, _Connection(self.response))  # type: ignore[arg-type]


class _Connection:
    def __init__(self, response: Any) -> None:
        self._response = response

    async def call(self, method: Any, request: Any) -> Any:
        return self._response


@target(DecodeError, VolumeError, tokens=WIRE)
def csi_response(data: bytes) -> None:
    """Figures are numbers, whatever units the driver reports."""
    driver = _CsiDriver("csi.test", "/csi.sock", (1, 0, 0))
    driver.capabilities = frozenset((GET_STATS,))
    driver.response = csi_pb2.NodeGetVolumeStatsResponse.FromString(data)
    found = drive(figures.measure(driver, "handle", Path("/volume"), health=True))
    assert found is not None
    driver.response = csi_pb2.NodeGetInfoResponse.FromString(data)
    drive(Step(driver, _Connection(driver.response)).info())  # type: ignore[arg-type]
    driver.response, driver.capabilities = csi_pb2.NodeGetCapabilitiesResponse.FromString(data), None
    drive(Step(driver, _Connection(driver.response)).has(GET_STATS))  # type: ignore[arg-type]


@target(DecodeError, DeviceError, tokens=WIRE)
def device_plugin_response(data: bytes) -> None:
    """Devices and allocations are converted, whatever the plugin reports."""
    for device in deviceplugin_pb2.ListAndWatchResponse.FromString(data).devices:
        device_plugin._device(device)
    device_plugin._response(deviceplugin_pb2.ContainerAllocateResponse.FromString(data))


@target(DecodeError, tokens=WIRE)
def claim_response(data: bytes) -> None:
    """Results of drivers are converted, whatever the driver reports."""
    for messages in (dra_v1_pb2, dra_v1beta1_pb2):
        for result in messages.NodePrepareResourcesResponse.FromString(data).claims.values():
            grpc_driver._result(result)


@target(DecodeError, PluginRegistrationError, tokens=(*WIRE, b"/../", b"\x00"))
def plugin_registration(data: bytes) -> None:
    """A plugin is registered only with a name and an absolute path."""
    info = registration_pb2.PluginInfo.FromString(data)
    plugin = RegisteredPlugin(info.type, info.name, info.endpoint, tuple(info.supported_versions), "/socket")
    check_description(plugin)
    assert plugin.name
    assert plugin.endpoint.startswith("/")
