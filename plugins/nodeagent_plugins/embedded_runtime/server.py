"""gRPC server for CRI on a Unix socket."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from google.protobuf import message_factory

from nodeagent.base.criproto import api_pb2 as cri
from nodeagent.base.criproto import changes, content
from nodeagent_plugins.embedded_runtime.errors import CallError
from nodeagent_plugins.embedded_runtime.hairpin import SET_CALL
from nodeagent_plugins.embedded_runtime.images.archive import import_archive
from nodeagent_plugins.embedded_runtime.images.loading import Loader

_log = logging.getLogger(__name__)
MAX_MESSAGE_BYTES = 16 * 1024 * 1024
STOP_SECONDS = 2.0
CANCELLED_WITH_CALLER = ("ExecSync",)
"""Timeout of commands without one, which otherwise could run forever."""
IMPORT_CALL = "/nodeagent.embedded.v1.Images/Import"
IMPORT_SECONDS = 600.0
_KINDS = (cri.CONTAINER_STARTED_EVENT, cri.CONTAINER_STOPPED_EVENT, cri.CONTAINER_DELETED_EVENT)
_TOPICS = dict(zip(_KINDS, changes.TOPICS, strict=True))
"""Topics of containerd's event service by type of event; others change nothing that is listed."""


def make_server(socket: Path, *services: object) -> grpc.aio.Server:
    """Return a server for *services* (RuntimeService and ImageService) at *socket*, not started."""
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ]
    )
    by_name = {type(service).__name__: service for service in services}
    for description in cri.DESCRIPTOR.services_by_name.values():
        service = by_name[description.name]
        # The server responds to other calls that they are not implemented.
        handlers = {
            method.name: _handler(method, function)
            for method in description.methods
            if (function := getattr(service, _python_name(method.name), None)) is not None
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(description.full_name, handlers),))
    server.add_insecure_port(f"unix:{socket}")
    return server


def serve_import(server: grpc.aio.Server, loader: Loader) -> None:
    """Add the import of archives, which is not part of CRI: the path is the request, the names the response."""

    async def response(request_data: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        try:
            return "\n".join(await import_archive(Path(request_data.decode()), loader)).encode()
        except CallError as error:
            await _abort(context, "Import", error)

    service, _, method = IMPORT_CALL.strip("/").partition("/")
    handlers = {method: grpc.unary_unary_rpc_method_handler(response)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))


def serve_hairpin_mode(server: grpc.aio.Server, change: Callable[[str], Awaitable[None]]) -> None:
    """Add the ``hairpinMode`` of the agent, which is not part of CRI."""

    async def response(request_data: bytes, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        try:
            await change(request_data.decode(errors="replace"))
        except CallError as error:
            await _abort(context, "SetHairpinMode", error)
        return b""

    service, _, method = SET_CALL.strip("/").partition("/")
    handlers = {method: grpc.unary_unary_rpc_method_handler(response)}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))


def serve_transfers(server: grpc.aio.Server, transfers: Callable[[], list[Any]]) -> None:
    """Add the progress of pulls, with the method of containerd's content service."""

    async def response(_request: Any, _context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        return content.ListStatusesResponse(statuses=transfers())

    handler = grpc.unary_unary_rpc_method_handler(
        response, content.ListStatusesRequest.FromString, lambda message: message.SerializeToString()
    )
    service, _, method = content.LIST_STATUSES.strip("/").partition("/")
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))


def serve_changes(server: grpc.aio.Server, events: Callable[[], AsyncGenerator[Any, None]]) -> None:
    """Add notifications of changed containers, with the method of containerd's event service."""

    async def stream(_request: Any, _context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        async with contextlib.aclosing(events()) as sent:
            async for event in sent:
                topic = _TOPICS.get(event.container_event_type)
                if topic is not None:
                    yield changes.Envelope(topic=topic)

    handler = grpc.unary_stream_rpc_method_handler(
        stream, changes.SubscribeRequest.FromString, lambda message: message.SerializeToString()
    )
    service, _, method = changes.SUBSCRIBE.strip("/").partition("/")
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))


def request_import(endpoint: str, archive: Path) -> list[str]:
    """Import an archive in the runtime at *endpoint*; return the names of its images.

    :raises grpc.RpcError: the runtime is unreachable, or the import failed.
    """
    with grpc.insecure_channel(endpoint, options=[("grpc.default_authority", "localhost")]) as channel:
        call = channel.unary_unary(IMPORT_CALL, bytes, bytes)
        response: bytes = call(str(archive).encode(), timeout=IMPORT_SECONDS)
    return response.decode().split("\n")


def _python_name(method: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", method).lower()


def _handler(method: Any, function: Callable[[Any], Any]) -> grpc.RpcMethodHandler[Any, Any]:
    request = message_factory.GetMessageClass(method.input_type)

    async def response(request_data: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        # A cancelled call must not leave partial state: started work is completed or rolled back.
        work = asyncio.ensure_future(function(request_data))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if method.name in CANCELLED_WITH_CALLER:
                work.cancel()
            work.add_done_callback(_note_unheard)
            raise
        except Exception as error:
            await _abort(context, method.name, error)

    async def stream(request_data: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        async with contextlib.aclosing(function(request_data)) as responses:
            async for message in responses:
                yield message

    deserialize, serialize = request.FromString, lambda message: message.SerializeToString()
    if inspect.isasyncgenfunction(function):
        return grpc.unary_stream_rpc_method_handler(stream, deserialize, serialize)
    return grpc.unary_unary_rpc_method_handler(response, deserialize, serialize)


async def _abort(context: grpc.aio.ServicerContext[Any, Any], call: str, error: Exception) -> None:
    if isinstance(error, CallError):
        await context.abort(error.code, str(error))
    _log.error("CRI call failed", extra={"call": call}, exc_info=error)
    await context.abort(grpc.StatusCode.INTERNAL, f"{call}: {type(error).__name__}: {error}")


def _note_unheard(work: asyncio.Future[Any]) -> None:
    if not work.cancelled() and (error := work.exception()) is not None:
        _log.warning("CRI call failed after its cancellation", extra={"err": str(error)})
