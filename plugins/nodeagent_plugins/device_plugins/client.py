"""Client of one device plugin; implements :class:`~nodeagent.contracts.devices.DeviceProvider`."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from math import inf
from typing import Any

from nodeagent.base.plugin_rpc import Connection, RpcError, connect, methods_of
from nodeagent.base.pluginproto import deviceplugin_pb2 as api
from nodeagent.contracts.device_responses import DeviceResponse
from nodeagent.contracts.devices import DeviceRequest, ProvidedDevice, PublishDevices
from nodeagent.contracts.runtime import Device, Mount
from nodeagent.errors import DeviceError

DIAL_SECONDS, OPTIONS_SECONDS, CALL_SECONDS = 10.0, 10.0, 30.0
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
_DIAL_PAUSE_SECONDS = 0.1
_HEALTHY = "Healthy"
_DEFAULT_PERMISSIONS = "rwm"
_TRANSIENT = ("Unavailable", "DeadlineExceeded")
_METHODS = methods_of(api.DESCRIPTOR.services_by_name["DevicePlugin"])


class DevicePlugin:
    """A device plugin that listens on a socket.

    One connection is used for the stream of devices and all calls; it ends with the stream.

    :param endpoint: path of the socket.
    :param cdi: accept CDI devices in responses.
    """

    def __init__(self, resource: str, endpoint: str, *, cdi: bool = True) -> None:
        self.resource, self.endpoint, self._cdi = resource, endpoint, cdi
        self.has_preference = self.needs_pre_start = False
        self._connection: Connection | None = None
        self._has_options = self._rejected = False

    async def read_options(self, dial_seconds: float = DIAL_SECONDS) -> None:
        """Read the options of the plugin before its registration is accepted.

        :param dial_seconds: time in which the plugin must serve; some register before they do.
        :raises DeviceError: the plugin cannot be reached.
        """
        try:
            async with asyncio.timeout(dial_seconds) as limit:
                while not await self._dial(limit):  # noqa: ASYNC110  The plugin sends no event when it serves.
                    await asyncio.sleep(_DIAL_PAUSE_SECONDS)
        except TimeoutError:
            raise DeviceError("failed to dial device plugin: context deadline exceeded") from None

    async def _dial(self, limit: asyncio.Timeout) -> bool:
        """Connect once and read the options; return whether the plugin serves."""
        async with connect(self.endpoint, DIAL_SECONDS + OPTIONS_SECONDS) as connection:
            try:
                await connection.wait_ready(DIAL_SECONDS)
            except RpcError:
                return False
            limit.reschedule(None)
            await self._read_options(connection)
            self._has_options = True
            return True

    async def watch(self, publish: PublishDevices) -> None:
        """Publish the devices while the plugin lists them.

        A lost connection is made again. If the plugin ends the stream with an error, it must register again.
        """
        if self._rejected:
            await asyncio.Event().wait()
        try:
            async with connect(self.endpoint, inf, max_message_bytes=MAX_MESSAGE_BYTES) as connection:
                await connection.wait_ready(DIAL_SECONDS)
                if not self._has_options:
                    await self._read_options(connection)
                self._connection, self._has_options = connection, False
                async for message in connection.stream(_METHODS["ListAndWatch"], api.Empty()):
                    publish([_device(each) for each in message.devices])
        except RpcError as error:
            self._rejected = self._connection is not None and error.code not in _TRANSIENT
            raise DeviceError(str(error)) from error
        finally:
            self._connection = None

    async def allocate(self, request: DeviceRequest) -> DeviceResponse:
        message = api.AllocateRequest(container_requests=[api.ContainerAllocateRequest(devices_ids=request.device_ids)])
        response = await self._call("Allocate", message)
        if not response.container_responses:
            raise DeviceError(f"no containers return in allocation response {response}")
        content = _response(response.container_responses[0])
        return content if self._cdi else dataclasses.replace(content, cdi_devices=())

    async def prefer(self, available: Sequence[str], required: Sequence[str], count: int) -> Sequence[str]:
        message = api.PreferredAllocationRequest(
            container_requests=[
                api.ContainerPreferredAllocationRequest(
                    available_deviceIDs=available, must_include_deviceIDs=required, allocation_size=count
                )
            ]
        )
        response = await self._call("GetPreferredAllocation", message)
        preferred = tuple(response.container_responses[0].deviceIDs) if response.container_responses else ()
        if len(set(preferred)) != len(preferred):
            raise DeviceError(f"device plugin of {self.resource} prefers a device twice: {preferred[:16]}")
        return preferred

    async def before_start(self, request: DeviceRequest) -> None:
        await self._call("PreStartContainer", api.PreStartContainerRequest(devices_ids=request.device_ids))

    async def _call(self, name: str, message: Any) -> Any:
        """Call a method.

        :raises DeviceError: the call failed.
        """
        connection = self._connection
        if connection is None:
            raise DeviceError(f"endpoint {self.endpoint} has been stopped", transient=True)
        try:
            return await connection.call(_METHODS[name], message, CALL_SECONDS)
        except RpcError as error:
            raise DeviceError(str(error), transient=error.code in _TRANSIENT) from error

    async def _read_options(self, connection: Connection) -> None:
        try:
            options = await connection.call(_METHODS["GetDevicePluginOptions"], api.Empty(), OPTIONS_SECONDS)
        except RpcError as error:
            raise DeviceError(f"failed to get device plugin options: {error}") from error
        self.has_preference = options.get_preferred_allocation_available
        self.needs_pre_start = options.pre_start_required


def _device(device: api.Device) -> ProvidedDevice:
    nodes = tuple(dict.fromkeys(node.ID for node in device.topology.nodes))
    return ProvidedDevice(device.ID, device.health == _HEALTHY, nodes)


def _response(message: api.ContainerAllocateResponse) -> DeviceResponse:
    """Return a response; duplicates of mounts and devices are equal items."""
    return DeviceResponse(
        dict(message.envs),
        tuple(
            dict.fromkeys(
                Mount(each.container_path, each.host_path, readonly=each.read_only) for each in message.mounts
            )
        ),
        tuple(
            dict.fromkeys(
                Device(each.container_path, each.host_path, each.permissions or _DEFAULT_PERMISSIONS)
                for each in message.devices
            )
        ),
        dict(message.annotations),
        tuple(dict.fromkeys(each.name for each in message.cdi_devices)),
    )
