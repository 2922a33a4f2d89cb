"""gRPC service of the plugin."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
from google.protobuf import message_factory
from google.protobuf.json_format import ParseDict

from nodeagent.base.pluginproto import deviceplugin_pb2 as api
from tests.device_plugin.control import Control

_POLL_SECONDS = 0.05


class DevicePluginService:
    """Service ``v1beta1.DevicePlugin``.

    :param variable: environment variable with the device IDs in each response.
    """

    def __init__(
        self, control: Control, *, variable: str = "WIDGETS", preferences: bool = False, pre_start: bool = False
    ):
        self._control, self._variable = control, variable
        self._preferences, self._pre_start = preferences, pre_start

    async def GetDevicePluginOptions(self, request: Any) -> Any:
        await self._fault("GetDevicePluginOptions")
        return api.DevicePluginOptions(
            pre_start_required=self._pre_start, get_preferred_allocation_available=self._preferences
        )

    async def ListAndWatch(self, request: Any) -> AsyncIterator[Any]:
        await self._fault("ListAndWatch")
        sent: Any = None
        while True:
            devices = self._control.devices()
            if devices != sent or self._control.faults().get("flood"):
                sent = devices
                yield api.ListAndWatchResponse(devices=[_device(each) for each in devices])
                if self._control.faults().get("flood"):
                    continue
            await asyncio.sleep(_POLL_SECONDS)

    async def GetPreferredAllocation(self, request: Any) -> Any:
        await self._fault("GetPreferredAllocation")
        (requested,) = request.container_requests
        preferred = self._control.faults().get("preferred") or sorted(requested.available_deviceIDs)[::-1]
        chosen = list(dict.fromkeys([*requested.must_include_deviceIDs, *preferred]))
        self._control.record("GetPreferredAllocation", available=list(requested.available_deviceIDs))
        response = api.ContainerPreferredAllocationResponse(deviceIDs=chosen[: requested.allocation_size])
        return api.PreferredAllocationResponse(container_responses=[response])

    async def Allocate(self, request: Any) -> Any:
        (requested,) = request.container_requests
        ids = list(requested.devices_ids)
        self._control.record("Allocate", ids=ids)
        await self._fault("Allocate")
        custom = self._control.faults().get("response")
        if custom is not None:
            content = ParseDict(custom, api.ContainerAllocateResponse())
        else:
            content = api.ContainerAllocateResponse(
                envs={self._variable: ",".join(ids)},
                devices=[
                    api.DeviceSpec(container_path=f"/dev/{id}", host_path="/dev/zero", permissions="rw") for id in ids
                ],
            )
        return api.AllocateResponse(container_responses=[content])

    async def PreStartContainer(self, request: Any) -> Any:
        self._control.record("PreStartContainer", ids=list(request.devices_ids))
        await self._fault("PreStartContainer")
        return api.PreStartContainerResponse()

    async def _fault(self, method: str) -> None:
        faults = self._control.faults()
        if faults.get("exit_in") == method:
            os._exit(9)
        if method in faults.get("hang", ()):
            await asyncio.sleep(3600)
        if method in faults.get("errors", {}):
            raise RuntimeError(faults["errors"][method])


def _device(each: dict[str, Any]) -> api.Device:
    nodes = [api.NUMANode(ID=number) for number in each.get("nodes", ())]
    topology = api.TopologyInfo(nodes=nodes) if nodes else None
    return api.Device(ID=each["id"], health=each.get("health", "Healthy"), topology=topology)


@asynccontextmanager
async def serve(service: DevicePluginService, socket: Path) -> AsyncIterator[None]:
    """Serve *service* on *socket*."""
    server = grpc.aio.server()
    handlers = {}
    for method in api.DESCRIPTOR.services_by_name["DevicePlugin"].methods:
        function = getattr(service, method.name)
        request = message_factory.GetMessageClass(method.input_type)
        make = grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
        wrapped = _streaming(function) if method.server_streaming else _unary(function)
        handlers[method.name] = make(
            wrapped, request_deserializer=request.FromString, response_serializer=lambda m: m.SerializeToString()
        )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", handlers),))
    socket.unlink(missing_ok=True)
    server.add_insecure_port(f"unix://{socket}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)


def _unary(function: Any) -> Any:
    async def handle(request: Any, context: Any) -> Any:
        try:
            return await function(request)
        except RuntimeError as error:
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))

    return handle


def _streaming(function: Any) -> Any:
    async def handle(request: Any, context: Any) -> AsyncIterator[Any]:
        async for message in function(request):
            yield message

    return handle


async def register(directory: Path, endpoint: str, resource: str, version: str = "v1beta1") -> None:
    """Register with the agent.

    :raises grpc.aio.AioRpcError: the agent rejects the registration, or does not serve.
    """
    async with grpc.aio.insecure_channel(f"unix://{directory / 'kubelet.sock'}") as channel:
        call = channel.unary_unary(
            "/v1beta1.Registration/Register",
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=api.Empty.FromString,
        )
        await call(api.RegisterRequest(version=version, endpoint=endpoint, resource_name=resource), timeout=20)
