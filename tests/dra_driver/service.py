"""gRPC services of the driver."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
from google.protobuf import message_factory

from nodeagent.base.pluginproto import dra_health_pb2, dra_v1_pb2, dra_v1beta1_pb2, registration_pb2
from tests.dra_driver.api import ClaimApi
from tests.dra_driver.control import Control

POOL = "node-1"
PROTOCOLS = {"v1.DRAPlugin": dra_v1_pb2, "v1beta1.DRAPlugin": dra_v1beta1_pb2}
HEALTH = "v1alpha1.DRAResourceHealth"
_POLL_SECONDS = 0.05


@dataclass
class DriverService:
    """Services of a driver in all versions."""

    name: str
    control: Control
    api: ClaimApi
    cdi: Path
    """Directory of CDI specs."""

    async def prepare(self, messages: Any, request: Any) -> Any:
        self.control.record("NodePrepareResources", [claim.uid for claim in request.claims])
        self._check("NodePrepareResources")
        results = {}
        for claim in request.claims:
            if error := self.control.faults().get("errors", {}).get("NodePrepareResources"):
                results[claim.uid] = messages.NodePrepareResourceResponse(error=error)
                continue
            found = await asyncio.to_thread(self.api.allocated, claim.namespace, claim.name, claim.uid, self.name)
            self._write_spec(claim.uid, [device for _, device in found])
            devices = [
                messages.Device(
                    request_names=[each], pool_name=POOL, device_name=device, cdi_device_ids=[self._cdi(claim, device)]
                )
                for each, device in found
            ]
            results[claim.uid] = messages.NodePrepareResourceResponse(devices=devices)
            prepared = self.control.prepared() | {claim.uid: [device for _, device in found]}
            self.control.set_prepared(prepared)
        await self._finish("NodePrepareResources")
        return messages.NodePrepareResourcesResponse(claims={} if self.control.faults().get("skip") else results)

    async def unprepare(self, messages: Any, request: Any) -> Any:
        self.control.record("NodeUnprepareResources", [claim.uid for claim in request.claims])
        self._check("NodeUnprepareResources")
        results = {}
        for claim in request.claims:
            error = self.control.faults().get("errors", {}).get("NodeUnprepareResources", "")
            if not error:
                self._spec(claim.uid).unlink(missing_ok=True)
                self.control.set_prepared({k: v for k, v in self.control.prepared().items() if k != claim.uid})
            results[claim.uid] = messages.NodeUnprepareResourceResponse(error=error)
        await self._finish("NodeUnprepareResources")
        return messages.NodeUnprepareResourcesResponse(claims=results)

    async def watch_health(self) -> AsyncIterator[Any]:
        sent = None
        while True:
            health = self.control.health()
            if health != sent:
                sent = health
                devices = [
                    dra_health_pb2.DeviceHealth(
                        device=dra_health_pb2.DeviceIdentifier(pool_name=POOL, device_name=name),
                        health=dra_health_pb2.HealthStatus.Value(state),
                        message=f"{name} is {state.lower()}",
                        health_check_timeout_seconds=3600,
                    )
                    for name, state in health.items()
                ]
                yield dra_health_pb2.NodeWatchResourcesResponse(devices=devices)
            await asyncio.sleep(_POLL_SECONDS)

    def _cdi(self, claim: Any, device: str) -> str:
        return f"{self.name}/claim={claim.uid}-{device}"

    def _spec(self, uid: str) -> Path:
        return self.cdi / f"{self.name}-{uid}.json"

    def _write_spec(self, uid: str, devices: list[str]) -> None:
        content = {
            "cdiVersion": "0.5.0",
            "kind": f"{self.name}/claim",
            "devices": [
                {"name": f"{uid}-{device}", "containerEdits": {"env": [f"DEVICE_{device.replace('-', '_')}=yes"]}}
                for device in devices
            ],
        }
        aside = self._spec(uid).with_suffix(".new")
        aside.write_text(json.dumps(content))
        aside.replace(self._spec(uid))

    def _check(self, method: str) -> None:
        if error := self.control.faults().get("fail", {}).get(method):
            raise RuntimeError(error)

    async def _finish(self, method: str) -> None:
        faults = self.control.faults()
        if faults.get("exit_in") == method:
            os._exit(9)
        if method in faults.get("hang", ()):
            await asyncio.sleep(3600)


@asynccontextmanager
async def serve(service: DriverService, socket: Path, services: list[str]) -> AsyncIterator[None]:
    """Serve *services* on *socket*."""
    server = grpc.aio.server()
    handlers = []
    for name in services:
        if name == HEALTH:
            handlers.append(_handler(dra_health_pb2, "DRAResourceHealth", {"NodeWatchResources": service.watch_health}))
            continue
        methods = {"NodePrepareResources": service.prepare, "NodeUnprepareResources": service.unprepare}
        handlers.append(_handler(PROTOCOLS[name], "DRAPlugin", methods))
    server.add_generic_rpc_handlers(tuple(handlers))
    async with _serving(server, socket):
        yield


@asynccontextmanager
async def serve_registration(name: str, endpoint: Path, services: list[str], socket: Path) -> AsyncIterator[None]:
    """Serve the registration of the driver on *socket*."""
    server = grpc.aio.server()

    async def get_info(request: Any, context: Any) -> Any:
        return registration_pb2.PluginInfo(
            type="DRAPlugin", name=name, endpoint=str(endpoint), supported_versions=services
        )

    async def notify(request: Any, context: Any) -> Any:
        print("registered" if request.plugin_registered else f"rejected: {request.error}", flush=True)
        return registration_pb2.RegistrationStatusResponse()

    messages = {"GetInfo": (get_info, "InfoRequest"), "NotifyRegistrationStatus": (notify, "RegistrationStatus")}
    handlers = {
        method: grpc.unary_unary_rpc_method_handler(
            function,
            request_deserializer=getattr(registration_pb2, message).FromString,
            response_serializer=lambda m: m.SerializeToString(),
        )
        for method, (function, message) in messages.items()
    }
    registration = grpc.method_handlers_generic_handler("pluginregistration.Registration", handlers)
    server.add_generic_rpc_handlers((registration,))
    async with _serving(server, socket):
        yield


def _handler(messages: Any, service: str, functions: dict[str, Any]) -> Any:
    descriptor, handlers = messages.DESCRIPTOR.services_by_name[service], {}
    for method in descriptor.methods:
        request = message_factory.GetMessageClass(method.input_type)
        make = grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
        function = functions[method.name]
        wrapped = _streaming(function) if method.server_streaming else _unary(messages, function)
        handlers[method.name] = make(
            wrapped, request_deserializer=request.FromString, response_serializer=lambda m: m.SerializeToString()
        )
    return grpc.method_handlers_generic_handler(descriptor.full_name, handlers)


@asynccontextmanager
async def _serving(server: Any, socket: Path) -> AsyncIterator[None]:
    socket.parent.mkdir(parents=True, exist_ok=True)
    socket.unlink(missing_ok=True)
    server.add_insecure_port(f"unix://{socket}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)
        socket.unlink(missing_ok=True)


def _unary(messages: Any, function: Any) -> Any:
    async def handle(request: Any, context: Any) -> Any:
        try:
            return await function(messages, request)
        except RuntimeError as error:
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))

    return handle


def _streaming(function: Any) -> Any:
    async def handle(request: Any, context: Any) -> AsyncIterator[Any]:
        async for message in function():
            yield message

    return handle
