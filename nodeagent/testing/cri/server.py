"""gRPC server of the fake runtime."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from google.protobuf import message_factory

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.base.criproto import changes
from nodeagent.errors import NotFound, RuntimeFailure
from nodeagent.testing.cri.services import ImageService, RuntimeService

_MAX_MESSAGE_BYTES = 16 * 1024 * 1024


def make_server(socket: Path, runtime: RuntimeService, images: ImageService) -> grpc.aio.Server:
    """Return a server at *socket*, not started; calls that the services do not have are unimplemented."""
    limits = [("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES), ("grpc.max_send_message_length", -1)]
    server = grpc.aio.server(options=limits)
    for name, service in (("RuntimeService", runtime), ("ImageService", images)):
        description = cri.DESCRIPTOR.services_by_name[name]
        handlers = {
            method.name: _handler(method, function, runtime.count)
            for method in description.methods
            if (function := getattr(service, _python_name(method.name), None)) is not None
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(description.full_name, handlers),))
    server.add_generic_rpc_handlers((_changes_handler(runtime),))
    server.add_insecure_port(f"unix:{socket}")
    return server


def _handler(method: Any, function: Callable[[Any], Any], count: Callable[[str], None]) -> Any:
    async def response(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        count(method.name)
        try:
            return function(request)
        except NotFound as error:
            await context.abort(grpc.StatusCode.NOT_FOUND, str(error))
        except RuntimeFailure as error:
            await context.abort(grpc.StatusCode.UNKNOWN, str(error))

    request = message_factory.GetMessageClass(method.input_type)
    return grpc.unary_unary_rpc_method_handler(response, request.FromString, _serialize)


def _changes_handler(runtime: RuntimeService) -> Any:
    """Return the handler of containerd's event service, with notifications of changed containers."""

    async def stream(_request: Any, _context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        with runtime.listener() as topics:
            while True:
                yield changes.Envelope(topic=await topics.get())

    handler = grpc.unary_stream_rpc_method_handler(stream, changes.SubscribeRequest.FromString, _serialize)
    service, _, method = changes.SUBSCRIBE.strip("/").partition("/")
    return grpc.method_handlers_generic_handler(service, {method: handler})


def _serialize(message: Any) -> bytes:
    serialized: bytes = message.SerializeToString()
    return serialized


def _python_name(method: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", method).lower()
