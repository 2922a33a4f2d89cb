"""Servers of the driver and of its registrar, each on a Unix socket."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc.aio

from nodeagent.base.pluginproto import registration_pb2 as registration
from tests.csi_driver.faults import Injection
from tests.csi_driver.service import NodeService


@contextlib.asynccontextmanager
async def serve(service: NodeService, socket: Path) -> AsyncIterator[NodeService]:
    """Serve *service* on *socket* within the block."""
    async with _server(service.handlers(), socket):
        yield service


class Registrar:
    """Registration socket of a plugin.

    :ivar notifications: statuses received from the agent, each with the error message; empty after a success.
    """

    def __init__(
        self,
        name: str,
        endpoint: str,
        *,
        type_: str = "CSIPlugin",
        versions: Sequence[str] = ("1.0.0",),
        service: NodeService | None = None,
    ) -> None:
        self.info = registration.PluginInfo(type=type_, name=name, endpoint=endpoint, supported_versions=versions)
        self.notifications: list[tuple[bool, str]] = []
        self._service = service
        self.notified = asyncio.Event()

    @contextlib.asynccontextmanager
    async def serve(self, socket: Path) -> AsyncIterator[Registrar]:
        """Serve on *socket* within the block."""
        methods = {
            "GetInfo": (self._get_info, registration.InfoRequest),
            "NotifyRegistrationStatus": (self._notify, registration.RegistrationStatus),
        }
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                function,
                request_deserializer=request.FromString,
                response_serializer=lambda message: message.SerializeToString(),
            )
            for name, (function, request) in methods.items()
        }
        generic = grpc.method_handlers_generic_handler("pluginregistration.Registration", handlers)
        async with _server([generic], socket):
            yield self

    async def _get_info(self, _request: Any, context: grpc.aio.ServicerContext) -> Any:
        await self._inject("GetInfo", context)
        return self.info

    async def _notify(self, request: Any, context: grpc.aio.ServicerContext) -> Any:
        await self._inject("NotifyRegistrationStatus", context)
        self.notifications.append((request.plugin_registered, request.error))
        self.notified.set()
        return registration.RegistrationStatusResponse()

    async def _inject(self, method: str, context: grpc.aio.ServicerContext) -> None:
        fault = self._service.faults.of(method) if self._service is not None else None
        await Injection(fault, context).step("before")


@contextlib.asynccontextmanager
async def _server(handlers: Sequence[grpc.GenericRpcHandler], socket: Path) -> AsyncIterator[None]:
    socket.unlink(missing_ok=True)
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers(tuple(handlers))
    server.add_insecure_port(f"unix://{socket}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)
        socket.unlink(missing_ok=True)
