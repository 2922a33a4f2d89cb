"""gRPC server on a Unix socket, for clients on the same host: unary methods, and methods that stream responses.

The socket is created under a temporary name and renamed, so that it accepts connections as soon as it exists.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # As in plugin_rpc.

import grpc.aio
from google.protobuf import message_factory
from google.protobuf.descriptor import ServiceDescriptor

from nodeagent.base.aio import Clock
from nodeagent.base.aio.shared_times import until_shared
from nodeagent.base.plugin_rpc import MAX_SOCKET_PATH, MAX_TEXT

MAX_REQUEST_BYTES = 1024 * 1024
_STOP_SECONDS, _CHECK_SECONDS = 1.0, 10.0
_MAX_CALLS = 128
_log = logging.getLogger(__name__)

Handler = Callable[[Any], Awaitable[Any] | AsyncIterator[Any]]
"""Receives the request message and returns the response message; for a streaming method, an async generator."""


class CallRejected(Exception):
    """A call is rejected with an error.

    :param code: name of the gRPC status code, such as ``RESOURCE_EXHAUSTED``.
    """

    def __init__(self, message: str, code: str = "UNKNOWN") -> None:
        super().__init__(message)
        self.code = code


async def serve_until_cancelled(
    socket: Path, services: Mapping[ServiceDescriptor, Mapping[str, Handler]], clock: Clock
) -> NoReturn:
    """Serve *services* on *socket*; serve again if another process removes or replaces the socket.

    :raises OSError: the socket cannot be created.
    """
    while True:
        async with serve(socket, services) as inode:
            _log.info("Starting to listen", extra={"path": str(socket)})
            while await asyncio.to_thread(_inode, socket) == inode:
                await clock.sleep(until_shared(clock.now(), _CHECK_SECONDS))


@asynccontextmanager
async def serve(socket: Path, services: Mapping[ServiceDescriptor, Mapping[str, Handler]]) -> AsyncIterator[int]:
    """Serve *services* on *socket* until the end of the block, which receives its inode; replace an existing socket.

    :param services: the handlers by service and method name; other methods are not implemented.
    :raises OSError: the socket cannot be created.
    """
    # Four characters are enough for a name that no other file has, and the kernel limits the length of the path.
    aside = socket.with_name(f".{socket.name[:1]}.s")
    server = grpc.aio.server(
        maximum_concurrent_rpcs=_MAX_CALLS,
        options=(("grpc.max_receive_message_length", MAX_REQUEST_BYTES), ("grpc.so_reuseport", 0)),
    )
    for service, handlers in services.items():
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service.full_name, _method_handlers(service, handlers)),)
        )
    await asyncio.to_thread(aside.unlink, missing_ok=True)
    with _short(aside) as path:
        try:
            server.add_insecure_port(f"unix://{quote(path)}")
        except RuntimeError as error:
            raise OSError(f"failed to listen on {socket}: {error}") from error
    inode = 0
    try:
        await server.start()
        inode = await asyncio.to_thread(_rename, aside, socket)
        yield inode
    finally:
        await server.stop(_STOP_SECONDS)
        _remove(socket, inode)


@contextlib.contextmanager
def _short(socket: Path) -> Iterator[str]:
    """Provide a path of *socket* that the kernel accepts, even if the usual one is too long to listen on."""
    if len(os.fsencode(socket)) <= MAX_SOCKET_PATH:
        yield str(socket)
        return
    directory = os.open(socket.parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{socket.name}"
    finally:
        os.close(directory)


def _rename(aside: Path, socket: Path) -> int:
    """Rename the socket and return its inode. Blocking."""
    inode = aside.lstat().st_ino  # Another process may remove or replace the socket as soon as it has its name.
    aside.replace(socket)
    return inode


def _inode(path: Path) -> int:
    """Return the inode of *path*; 0 if it does not exist. Blocking."""
    try:
        return path.lstat().st_ino
    except OSError:
        return 0


def _remove(socket: Path, inode: int) -> None:
    """Remove the socket, unless another process has replaced it."""
    with contextlib.suppress(OSError):
        if socket.lstat().st_ino == inode:
            socket.unlink()


def _method_handlers(service: ServiceDescriptor, handlers: Mapping[str, Handler]) -> dict[str, Any]:
    result = {}
    for method in service.methods:
        if method.name in handlers:
            request = message_factory.GetMessageClass(method.input_type)
            streams = method.server_streaming
            make = grpc.unary_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
            handler: Any = handlers[method.name]
            result[method.name] = make(
                _rejecting_stream(handler) if streams else _rejecting(handler),
                request_deserializer=request.FromString,
                response_serializer=_serialize,
            )
    return result


def _rejecting(
    handler: Callable[[Any], Awaitable[Any]],
) -> Callable[[Any, grpc.aio.ServicerContext[Any, Any]], Awaitable[Any]]:
    async def handle(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        try:
            return await handler(request)
        except CallRejected as error:
            await context.abort(grpc.StatusCode[error.code], str(error)[:MAX_TEXT])

    return handle


def _rejecting_stream(
    handler: Callable[[Any], AsyncIterator[Any]],
) -> Callable[[Any, grpc.aio.ServicerContext[Any, Any]], AsyncIterator[Any]]:
    async def handle(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
        try:
            async for response in handler(request):
                yield response
        except CallRejected as error:
            await context.abort(grpc.StatusCode[error.code], str(error)[:MAX_TEXT])

    return handle


def _serialize(message: Any) -> bytes:
    content: bytes = message.SerializeToString()
    return content
