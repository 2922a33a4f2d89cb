"""Tests for the client of a device plugin, with a fake connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from nodeagent.base.plugin_rpc import Method, RpcError
from nodeagent.base.pluginproto import deviceplugin_pb2 as api
from nodeagent.contracts.devices import DeviceRequest, ProvidedDevice
from nodeagent.contracts.runtime import Device, Mount
from nodeagent.errors import DeviceError
from nodeagent.testing import eventually, make_pod
from nodeagent_plugins.device_plugins import client
from nodeagent_plugins.device_plugins.client import DevicePlugin

REQUEST = DeviceRequest(make_pod("web"), "main", "example.com/widget", ["w0"])


class FakeConnection:
    """Connection whose responses are attributes by method name: a message, or an exception."""

    def __init__(self) -> None:
        self.responses: dict[str, Any] = {"GetDevicePluginOptions": api.DevicePluginOptions()}
        self.lists: list[Any] = [api.ListAndWatchResponse()]
        self.calls: list[str] = []
        self.unreachable = 0
        """Number of attempts to connect that fail."""
        self.ended: RpcError | None = None
        """Error with which the stream ends; it stays open without one."""

    @asynccontextmanager
    async def connect(self, _socket: str, _seconds: float, **_options: Any) -> AsyncIterator[FakeConnection]:
        yield self

    async def wait_ready(self, _seconds: float) -> None:
        if self.unreachable:
            self.unreachable -= 1
            raise RpcError("Unavailable", "connection refused")

    async def call(self, method: Method, _request: Any, _seconds: float) -> Any:
        name = method.path.rpartition("/")[2]
        self.calls.append(name)
        response = self.responses[name]
        if isinstance(response, Exception):
            raise response
        return response

    async def stream(self, _method: Method, _request: Any) -> AsyncIterator[Any]:
        self.calls.append("ListAndWatch")
        for each in self.lists:
            yield each
        if self.ended is not None:
            raise self.ended
        await asyncio.Event().wait()


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch) -> FakeConnection:
    fake = FakeConnection()
    monkeypatch.setattr(client, "connect", fake.connect)
    return fake


@pytest.fixture
def plugin(connection: FakeConnection) -> DevicePlugin:
    return DevicePlugin("example.com/widget", "/run/w.sock")


@pytest.fixture
async def watched(plugin: DevicePlugin) -> AsyncIterator[DevicePlugin]:
    """The plugin while its devices are watched."""
    lists: list[Sequence[ProvidedDevice]] = []
    task = asyncio.create_task(plugin.watch(lists.append))
    await eventually(lambda: lists)
    yield plugin
    task.cancel()
    await asyncio.wait([task])


@pytest.mark.parametrize(("ids", "preferred"), [([], ()), (["a", "b"], ("a", "b")), (["a", "a"], None)])
async def test_device_is_preferred_once(
    watched: DevicePlugin, connection: FakeConnection, ids: list[str], preferred: tuple[str, ...] | None
) -> None:
    responses = [api.ContainerPreferredAllocationResponse(deviceIDs=ids)] if ids else []
    connection.responses["GetPreferredAllocation"] = api.PreferredAllocationResponse(container_responses=responses)

    if preferred is None:
        with pytest.raises(DeviceError, match="prefers a device twice"):
            await watched.prefer(["a", "b"], [], 2)
    else:
        assert await watched.prefer(["a", "b"], [], 2) == preferred


async def test_plugin_that_serves_late_is_dialed_again(
    plugin: DevicePlugin, connection: FakeConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "_DIAL_PAUSE_SECONDS", 0.0)
    connection.unreachable = 2
    connection.responses["GetDevicePluginOptions"] = api.DevicePluginOptions(
        get_preferred_allocation_available=True, pre_start_required=True
    )

    await plugin.read_options()

    assert plugin.has_preference and plugin.needs_pre_start
    assert connection.calls == ["GetDevicePluginOptions"]


async def test_options_are_read_again_by_the_second_watch(plugin: DevicePlugin, connection: FakeConnection) -> None:
    connection.ended = RpcError("Unavailable", "connection lost")
    await plugin.read_options()

    for _ in range(2):
        with pytest.raises(DeviceError, match="connection lost"):
            await plugin.watch(lambda _: None)

    options = "GetDevicePluginOptions"
    assert connection.calls == [options, "ListAndWatch", options, "ListAndWatch"]


@pytest.mark.parametrize(
    ("code", "unreachable", "again"),
    [
        ("Unavailable", 0, True),
        ("DeadlineExceeded", 0, True),
        ("Internal", 0, False),
        ("Internal", 1, True),
    ],
)
async def test_only_a_stream_that_ended_with_an_error_is_not_opened_again(
    plugin: DevicePlugin, connection: FakeConnection, code: str, unreachable: int, again: bool
) -> None:
    connection.ended, connection.unreachable = RpcError(code, "failed"), unreachable
    with pytest.raises(DeviceError):
        await plugin.watch(lambda _: None)
    connection.calls.clear()

    task = asyncio.create_task(plugin.watch(lambda _: None))
    for _ in range(5):
        await asyncio.sleep(0)

    assert ("ListAndWatch" in connection.calls, task.done()) == (again, again)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("code", "transient"), [("Unavailable", True), ("DeadlineExceeded", True), ("Internal", False)]
)
async def test_failed_call_is_transient_if_the_plugin_did_not_respond(
    watched: DevicePlugin, connection: FakeConnection, code: str, transient: bool
) -> None:
    connection.responses["Allocate"] = RpcError(code, "failed")

    with pytest.raises(DeviceError, match=f"rpc error: code = {code} desc = failed") as caught:
        await watched.allocate(REQUEST)

    assert caught.value.transient == transient


async def test_call_to_a_plugin_that_is_not_connected_is_transient(plugin: DevicePlugin) -> None:
    with pytest.raises(DeviceError, match=r"endpoint /run/w.sock has been stopped") as caught:
        await plugin.before_start(REQUEST)

    assert caught.value.transient


async def test_response_without_containers_is_rejected(watched: DevicePlugin, connection: FakeConnection) -> None:
    connection.responses["Allocate"] = api.AllocateResponse()

    with pytest.raises(DeviceError, match="no containers return in allocation response"):
        await watched.allocate(REQUEST)


@pytest.mark.parametrize("cdi", [True, False])
async def test_response_contains_each_item_once(connection: FakeConnection, cdi: bool) -> None:
    mount = api.Mount(container_path="/m", host_path="/host/m", read_only=True)
    devices = [
        api.DeviceSpec(container_path="/dev/w", host_path="/dev/w0"),
        api.DeviceSpec(container_path="/dev/r", host_path="/dev/w1", permissions="r"),
    ]
    content = api.ContainerAllocateResponse(
        envs={"A": "1"},
        mounts=[mount, mount],
        devices=[*devices, *devices],
        annotations={"a": "1"},
        cdi_devices=[api.CDIDevice(name="example.com/widget=0")] * 2,
    )
    connection.responses["Allocate"] = api.AllocateResponse(container_responses=[content])
    plugin, lists = DevicePlugin("example.com/widget", "/run/w.sock", cdi=cdi), list[Any]()
    task = asyncio.create_task(plugin.watch(lists.append))
    await eventually(lambda: lists)

    response = await plugin.allocate(REQUEST)

    assert (response.envs, response.annotations) == ({"A": "1"}, {"a": "1"})
    assert response.mounts == (Mount("/m", "/host/m", readonly=True),)
    assert response.devices == (Device("/dev/w", "/dev/w0", "rwm"), Device("/dev/r", "/dev/w1", "r"))
    assert response.cdi_devices == (("example.com/widget=0",) if cdi else ())
    task.cancel()
    await asyncio.wait([task])
