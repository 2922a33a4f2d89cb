"""CSI identity and node services."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import grpc.aio
from google.protobuf.json_format import MessageToDict

from nodeagent.base.pluginproto import csi_pb2 as csi
from tests.csi_driver.faults import Faults, Injection
from tests.csi_driver.storage import Storage

ALL_CAPABILITIES = (1, 2, 3, 4, 5, 6)
STAGE, STATS, EXPAND, CONDITION, MULTI_WRITER, MOUNT_GROUP = ALL_CAPABILITIES

Context = grpc.aio.ServicerContext


class NodeService:
    """Node service with the strictness of real drivers.

    Publish requires the volume to be staged; a staged volume with a target path is not unstaged; a second call for a
    volume is aborted while one is in progress.

    :param capabilities: numbers of the node capabilities.
    """

    def __init__(
        self,
        name: str,
        storage: Storage,
        *,
        capabilities: Iterable[int] = (STAGE,),
        node_id: str = "node-1",
        max_volumes: int = 0,
        topology: dict[str, str] | None = None,
    ) -> None:
        self.name, self.storage, self.node_id, self.max_volumes = name, storage, node_id, max_volumes
        self.capabilities, self.topology = list(capabilities), topology
        self.faults = Faults(storage.directory / "faults.json")
        self.condition: tuple[bool, str] | None = None
        self.usage = [
            csi.VolumeUsage(available=60, total=100, used=40, unit=csi.VolumeUsage.BYTES),
            csi.VolumeUsage(available=6, total=10, used=4, unit=csi.VolumeUsage.INODES),
        ]
        self._busy: set[str] = set()

    def handlers(self) -> list[grpc.GenericRpcHandler]:
        """Return the handlers of both services for a server."""
        handlers = []
        for service in csi.DESCRIPTOR.services_by_name.values():
            methods = {
                method.name: grpc.unary_unary_rpc_method_handler(
                    self._wrap(method.name),
                    request_deserializer=getattr(csi, method.input_type.name).FromString,
                    response_serializer=lambda message: message if isinstance(message, bytes) else _encode(message),
                )
                for method in service.methods
            }
            handlers.append(grpc.method_handlers_generic_handler(service.full_name, methods))
        return handlers

    def _wrap(self, method: str) -> Callable[[Any, Context], Awaitable[Any]]:
        async def call(request: Any, context: Context) -> Any:
            self.storage.record(method, MessageToDict(request, preserving_proto_field_name=True))
            fault = self.faults.of(method)
            injection = Injection(fault, context)
            volume = getattr(request, "volume_id", "")
            if volume in self._busy:
                await context.abort(grpc.StatusCode.ABORTED, f"an operation on {volume} is in progress")
            if volume:
                self._busy.add(volume)
            try:
                await injection.step("before")
                response = await getattr(self, method)(request, context, injection)
                await injection.step("after")
            finally:
                self._busy.discard(volume)
            if fault is not None and fault.padding:
                return b"\x82\x7d" + _varint(fault.padding) + b"x" * fault.padding  # an unknown field
            return response

        return call

    # --- identity ---------------------------------------------------------------------------------------------

    async def GetPluginInfo(self, _request: Any, _context: Context, _injection: Injection) -> Any:
        return csi.GetPluginInfoResponse(name=self.name, vendor_version="test")

    async def GetPluginCapabilities(self, _request: Any, _context: Context, _injection: Injection) -> Any:
        return csi.GetPluginCapabilitiesResponse()

    async def Probe(self, _request: Any, _context: Context, _injection: Injection) -> Any:
        response = csi.ProbeResponse()
        response.ready.value = True
        return response

    # --- node -------------------------------------------------------------------------------------------------

    async def NodeGetInfo(self, _request: Any, _context: Context, _injection: Injection) -> Any:
        response = csi.NodeGetInfoResponse(node_id=self.node_id, max_volumes_per_node=self.max_volumes)
        if self.topology is not None:
            response.accessible_topology.segments.update(self.topology)
        return response

    async def NodeGetCapabilities(self, _request: Any, _context: Context, _injection: Injection) -> Any:
        types = [csi.NodeServiceCapability.RPC(type=number) for number in self.capabilities]
        return csi.NodeGetCapabilitiesResponse(capabilities=[csi.NodeServiceCapability(rpc=each) for each in types])

    async def NodeStageVolume(self, request: Any, context: Context, injection: Injection) -> Any:
        path = Path(request.staging_target_path)
        if not path.is_dir():
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the staging path does not exist")
        if not self.storage.staged(request.volume_id):
            block = request.volume_capability.HasField("block")
            source = self.storage.volume(request.volume_id, block=block)
            if not block:
                await asyncio.to_thread(self.storage.mounts.bind, source, path, read_only=False)
            await injection.step("between")
            self.storage.stage(request.volume_id, str(path))
        return csi.NodeStageVolumeResponse()

    async def NodeUnstageVolume(self, request: Any, context: Context, injection: Injection) -> Any:
        if published := self.storage.published(request.volume_id):
            self.storage.violate(f"{request.volume_id} is unstaged while it is published at {', '.join(published)}")
            await context.abort(grpc.StatusCode.INTERNAL, f"volume {request.volume_id} is still published")
        await asyncio.to_thread(self.storage.mounts.unmount, Path(request.staging_target_path))
        await asyncio.to_thread(self.storage.detach, request.volume_id)
        await injection.step("between")
        self.storage.unstage(request.volume_id)
        return csi.NodeUnstageVolumeResponse()

    async def NodePublishVolume(self, request: Any, context: Context, injection: Injection) -> Any:
        block = request.volume_capability.HasField("block")
        if request.staging_target_path and STAGE in self.capabilities and not self.storage.staged(request.volume_id):
            self.storage.violate(f"{request.volume_id} is published at {request.target_path} while it is not staged")
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"volume {request.volume_id} is not staged")
        fault = injection.fault
        target = Path(fault.path if fault and fault.path else request.target_path)
        if not target.parent.is_dir():
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the parent of the target path does not exist")
        if fault and fault.symlink:
            target.symlink_to(fault.symlink)
            return csi.NodePublishVolumeResponse()
        if str(target) in self.storage.published(request.volume_id):
            return csi.NodePublishVolumeResponse()
        source = self.storage.volume(request.volume_id, block=block)
        if block:
            source = await asyncio.to_thread(self.storage.mounts.attach, source)
            target.touch()
        else:
            target.mkdir(exist_ok=True)
        await injection.step("between")
        await asyncio.to_thread(self.storage.mounts.bind, source, target, read_only=request.readonly)
        self.storage.publish(request.volume_id, str(target))
        return csi.NodePublishVolumeResponse()

    async def NodeUnpublishVolume(self, request: Any, _context: Context, injection: Injection) -> Any:
        target = Path(request.target_path)
        await asyncio.to_thread(self.storage.mounts.unmount, target)
        await injection.step("between")
        with contextlib.suppress(FileNotFoundError):
            if target.is_dir() and not target.is_symlink():
                target.rmdir()
            else:
                target.unlink()
        self.storage.unpublish(request.target_path)
        return csi.NodeUnpublishVolumeResponse()

    async def NodeExpandVolume(self, request: Any, context: Context, _injection: Injection) -> Any:
        if not os.path.lexists(request.volume_path):
            await context.abort(grpc.StatusCode.NOT_FOUND, f"{request.volume_path} does not exist")
        size = max(self.storage.size(request.volume_id), request.capacity_range.required_bytes)
        self.storage.expand(request.volume_id, size)
        return csi.NodeExpandVolumeResponse(capacity_bytes=size)

    async def NodeGetVolumeStats(self, request: Any, context: Context, _injection: Injection) -> Any:
        if not os.path.lexists(request.volume_path):
            await context.abort(grpc.StatusCode.NOT_FOUND, f"{request.volume_path} does not exist")
        response = csi.NodeGetVolumeStatsResponse(usage=self.usage)
        if self.condition is not None:
            response.volume_condition.abnormal, response.volume_condition.message = self.condition
        return response


def _encode(message: Any) -> bytes:
    return message.SerializeToString()


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])
