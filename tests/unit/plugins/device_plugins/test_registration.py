"""Tests for the registration of device plugins: requests, the plugin registry, and calls to the plugin."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent.base.plugin_rpc import RpcError, connect, methods_of
from nodeagent.base.pluginproto import deviceplugin_pb2 as api
from nodeagent.contracts.plugin_registry import RegisteredPlugin
from nodeagent.errors import DeviceError
from nodeagent.testing import FakeClock, FakeDevices
from nodeagent.testing.clock import eventually
from nodeagent.testing.contracts import BackgroundLoopContract, DeviceProviderContract, PluginHandlerContract
from nodeagent_plugins.device_plugins.client import DevicePlugin
from nodeagent_plugins.device_plugins.endpoints import Endpoints
from nodeagent_plugins.device_plugins.handler import DevicePluginHandler
from nodeagent_plugins.device_plugins.registration import RegistrationServer, prepare
from tests.device_plugin import Control, DevicePluginService, serve

REGISTER = methods_of(api.DESCRIPTOR.services_by_name["Registration"])["Register"]
WIDGET = "example.com/widget"


@pytest.fixture
def directory(tmp_path):
    """Directory with a short path, because that of a socket is limited."""
    found = tmp_path / "d"
    found.mkdir()
    return found


@pytest.fixture
def devices():
    return FakeDevices()


@pytest.fixture
async def server(directory, devices):
    server = RegistrationServer(directory, Endpoints(devices, cdi=True, dial_seconds=0.3), FakeClock())
    task = asyncio.create_task(server.run())
    await eventually((directory / "kubelet.sock").exists)
    yield directory
    task.cancel()
    await asyncio.wait([task])


@pytest.fixture
async def plugin(directory, tmp_path):
    control = Control(tmp_path / "p")
    control.set_devices([{"id": "w0", "nodes": [0, 1]}, {"id": "w1", "health": "Unhealthy"}])
    async with serve(DevicePluginService(control, preferences=True), directory / "w.sock"):
        yield control


async def register(directory, **fields):
    request = api.RegisterRequest(**{"version": "v1beta1", "endpoint": "w.sock", "resource_name": WIDGET, **fields})
    async with connect(str(directory / "kubelet.sock"), 20) as connection:
        await connection.call(REGISTER, request)


async def test_registered_plugin_becomes_a_provider(server, plugin, devices):
    await register(server)

    (provider,) = devices.providers
    assert (provider.resource, provider.endpoint) == (WIDGET, str(server / "w.sock"))
    assert provider.has_preference
    assert not provider.needs_pre_start


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"version": "v1alpha1"},
            'requested API version "v1alpha1" is not supported by kubelet. Supported version is ["v1beta1"]',
        ),
        ({"resource_name": "widget"}, 'the ResourceName "widget" is invalid'),
        ({"resource_name": "a.kubernetes.io/b"}, 'the ResourceName "a.kubernetes.io/b" is invalid'),
        ({"resource_name": "example.com/a b"}, 'the ResourceName "example.com/a b" is invalid'),
        ({"endpoint": "../w.sock"}, "invalid endpoint '../w.sock': must be the name of a socket in the directory"),
        ({"endpoint": "kubelet.sock"}, "invalid endpoint 'kubelet.sock'"),
        ({"endpoint": "absent.sock"}, "failed to dial device plugin: context deadline exceeded"),
    ],
)
async def test_invalid_registration_is_rejected(server, plugin, devices, fields, message):
    with pytest.raises(RpcError) as raised:
        await register(server, **fields)

    assert raised.value.code == "Unknown"
    assert raised.value.details.startswith(message)
    assert devices.providers == []


async def test_plugin_may_serve_after_it_has_registered(directory, devices, tmp_path):
    endpoints = Endpoints(devices, cdi=True)
    registration = asyncio.create_task(endpoints.connect(WIDGET, str(directory / "late.sock")))
    await asyncio.sleep(0.15)
    async with serve(DevicePluginService(Control(tmp_path / "p")), directory / "late.sock"):
        await registration

    assert [provider.resource for provider in devices.providers] == [WIDGET]


async def test_plugin_without_options_is_rejected(server, plugin, devices):
    plugin.set_faults({"errors": {"GetDevicePluginOptions": "not now"}})

    with pytest.raises(RpcError, match=r"failed to get device plugin options: .* not now"):
        await register(server)


async def test_removed_socket_is_served_again(directory, devices):
    clock = FakeClock()
    task = asyncio.create_task(RegistrationServer(directory, Endpoints(devices, cdi=True), clock).run())
    socket = directory / "kubelet.sock"
    await eventually(socket.exists)
    socket.unlink()
    for _ in range(3000):
        await clock.advance(10)
        await asyncio.sleep(0.01)
        if socket.exists():
            break
    assert socket.exists()
    task.cancel()
    await asyncio.wait([task])


def test_only_sockets_are_removed_at_start(directory):
    import socket

    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(directory / "stale.sock"))
        (directory / "kubelet_internal_checkpoint").write_text("{}")
        (directory / "state").mkdir()
        prepare(directory)

    assert sorted(path.name for path in directory.iterdir()) == ["kubelet_internal_checkpoint", "state"]


async def test_devices_are_published_with_health_and_numa_nodes(directory, plugin):
    provider, lists = DevicePlugin(WIDGET, str(directory / "w.sock")), []
    task = asyncio.create_task(provider.watch(lists.append))
    await eventually(lambda: lists)
    plugin.set_devices([])
    await eventually(lambda: len(lists) == 2)
    task.cancel()
    await asyncio.wait([task])

    assert [(d.id, d.healthy, d.numa_nodes) for d in lists[0]] == [("w0", True, (0, 1)), ("w1", False, ())]
    assert lists[1] == []


class CountedService(DevicePluginService):
    """Service that ends its first stream with an error."""

    def __init__(self, control):
        super().__init__(control)
        self.calls = []

    async def GetDevicePluginOptions(self, request):
        self.calls.append("GetDevicePluginOptions")
        return await super().GetDevicePluginOptions(request)

    async def ListAndWatch(self, request):
        self.calls.append("ListAndWatch")
        if self.calls.count("ListAndWatch") == 1:
            raise RuntimeError("no widgets")
        async for message in super().ListAndWatch(request):
            yield message


async def test_plugin_that_ends_its_stream_with_an_error_is_not_called_again(directory, tmp_path):
    service, lists = CountedService(Control(tmp_path / "c")), []
    async with serve(service, directory / "w.sock"):
        provider = DevicePlugin(WIDGET, str(directory / "w.sock"))
        await provider.read_options(5)
        with pytest.raises(DeviceError, match="no widgets"):
            await provider.watch(lists.append)
        task = asyncio.create_task(provider.watch(lists.append))
        _, pending = await asyncio.wait([task], timeout=0.05)
        assert pending and service.calls == ["GetDevicePluginOptions", "ListAndWatch"]
        task.cancel()
        await asyncio.wait([task])

        registered = DevicePlugin(WIDGET, str(directory / "w.sock"))  # The plugin registers again.
        task = asyncio.create_task(registered.watch(lists.append))
        await eventually(lambda: lists)
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture
def registered(directory):
    return RegisteredPlugin("DevicePlugin", WIDGET, str(directory / "w.sock"), ["v1beta1"], str(directory / "r.sock"))


async def test_only_the_plugin_at_the_endpoint_is_disconnected(directory, devices, tmp_path):
    endpoints = Endpoints(devices, cdi=True)
    async with serve(DevicePluginService(Control(tmp_path / "p")), directory / "new.sock"):
        await endpoints.connect(WIDGET, str(directory / "new.sock"))
        endpoints.disconnect(WIDGET, str(directory / "old.sock"))
        endpoints.disconnect("example.com/other", str(directory / "new.sock"))
        assert [provider.resource for provider in devices.providers] == [WIDGET]

        for _ in range(2):
            endpoints.disconnect(WIDGET, str(directory / "new.sock"))
        assert devices.providers == []


class TestHandler(PluginHandlerContract):
    @pytest.fixture
    def handler(self, devices, plugin):
        return DevicePluginHandler(Endpoints(devices, cdi=True))

    @pytest.fixture
    def plugin(self, registered, directory, tmp_path):
        return registered

    @pytest.fixture(autouse=True)
    async def process(self, directory, tmp_path):
        async with serve(DevicePluginService(Control(tmp_path / "p")), directory / "w.sock"):
            yield


class TestClient(DeviceProviderContract):
    @pytest.fixture
    async def provider(self, directory, plugin):
        client = DevicePlugin(WIDGET, str(directory / "w.sock"))
        task = asyncio.create_task(client.watch(lambda _: None))
        await eventually(lambda: client._connection is not None)
        yield client
        task.cancel()
        await asyncio.wait([task])


class TestServer(BackgroundLoopContract):
    @pytest.fixture
    async def loop(self, directory, devices, clock):
        return RegistrationServer(directory, Endpoints(devices, cdi=True), clock)
