"""gRPC client of node plugins: one connection per step, with a deadline for all calls of the step.

A step has a separate connection, because a cached one to a restarted plugin would be in reconnect back-off. Calls fail
immediately if the socket does not exist, are not retried, and are limited in time and in the size of the response.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import isinf
from time import monotonic
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote

# Child processes only ever exec, and gRPC's fork handlers fill the log; gRPC reads the variable when it is imported.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

import grpc.aio
from google.protobuf import message_factory
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import DecodeError, Message

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
MAX_TEXT = 4096
"""Length in characters to which error texts of plugins are truncated."""
MAX_SOCKET_PATH = 107
"""Longest path in bytes to which the kernel can connect."""
_BROKEN = ("Stream removed", "Received RST_STREAM", "Connection reset", "Socket closed", "recvmsg:")
_OPTIONS = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.default_authority", "localhost"),  # Some servers reject the path of a socket.
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),  # Otherwise an earlier failed connection delays this one.
)
_GO_NAMES = MappingProxyType(
    {
        code: "Canceled" if code is grpc.StatusCode.CANCELLED else code.name.title().replace("_", "")
        for code in grpc.StatusCode
    }
)


class RpcError(Exception):
    """A call failed; the text has the form of Go clients, for which users and dashboards search.

    :ivar code: Go name of the status code, such as ``DeadlineExceeded``.
    :ivar details: error message of the plugin or of the connection, truncated.
    :ivar local: the response was lost or invalid, so the plugin may have executed the call.
    """

    def __init__(self, code: str, details: str, *, local: bool = False) -> None:
        self.code, self.details, self.local = code, details[:MAX_TEXT], local
        super().__init__(f"rpc error: code = {code} desc = {self.details}")


class Method(NamedTuple):
    """A gRPC method."""

    path: str
    """``/csi.v1.Node/NodeStageVolume``."""
    response: Any
    """Message class of the response."""


def methods_of(service: ServiceDescriptor) -> MappingProxyType[str, Method]:
    """Return the methods of *service* by name."""
    return MappingProxyType(
        {
            method.name: Method(
                f"/{service.full_name}/{method.name}", message_factory.GetMessageClass(method.output_type)
            )
            for method in service.methods
        }
    )


class Connection:
    """Calls one plugin until its deadline; see :func:`connect`."""

    def __init__(self, channel: grpc.aio.Channel, deadline: float) -> None:
        self._channel, self._deadline = channel, deadline

    @property
    def remaining_seconds(self) -> float:
        """Time until the deadline."""
        return max(0.0, self._deadline - monotonic())

    async def wait_ready(self, timeout_seconds: float) -> None:
        """Wait until the plugin accepts the connection.

        :raises RpcError: ``DeadlineExceeded`` after *timeout_seconds*, or ``Unavailable`` if the connection fails.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                state = self._channel.get_state(try_to_connect=True)
                while state is not grpc.ChannelConnectivity.READY:
                    if state in {grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN}:
                        raise RpcError("Unavailable", "connection refused, or the socket does not exist")
                    await self._channel.wait_for_state_change(state)
                    state = self._channel.get_state(try_to_connect=True)
        except TimeoutError:
            raise RpcError("DeadlineExceeded", "context deadline exceeded") from None

    async def stream(self, method: Method, request: Message) -> AsyncIterator[Any]:
        """Send *request* and yield the responses of a method that streams them, until the plugin ends the stream.

        :raises RpcError: the stream broke, or a response is invalid.
        """
        stub = self._channel.unary_stream(method.path, request_serializer=_serialize, response_deserializer=bytes)
        call = stub(request)
        failure: RpcError | None = None
        try:
            async for content in call:
                yield method.response.FromString(content)
        except DecodeError:
            failure = RpcError("Internal", "invalid response", local=True)
        except grpc.aio.AioRpcError as error:
            failure = rpc_error(error)
        except asyncio.CancelledError:
            failure = _closed()
        finally:
            call.cancel()
        if failure is not None:
            raise failure  # Outside of the handler, as in call().

    async def wait_broken(self) -> None:
        """Wait until the connection, which was ready, is lost; one without calls is also closed after some time."""
        state = self._channel.get_state()
        while state is grpc.ChannelConnectivity.READY:
            await self._channel.wait_for_state_change(state)
            state = self._channel.get_state()

    async def call(self, method: Method, request: Message, timeout_seconds: float | None = None) -> Any:
        """Send *request* and return the response.

        :param timeout_seconds: timeout of this call, in addition to the deadline.
        :raises RpcError: the call failed; the plugin may have executed it.
        """
        limit = self.remaining_seconds if timeout_seconds is None else min(self.remaining_seconds, timeout_seconds)
        # The client of gRPC would return None for a response that it fails to decode.
        stub = self._channel.unary_unary(method.path, request_serializer=_serialize, response_deserializer=bytes)
        try:
            return method.response.FromString(await stub(request, timeout=None if isinf(limit) else limit))
        except DecodeError:
            failure = RpcError("Internal", "invalid response", local=True)
        except grpc.aio.AioRpcError as error:
            failure = rpc_error(error)
        except asyncio.CancelledError:
            failure = _closed()
        raise failure  # Outside of the handler, whose traceback would keep the channel alive.


@asynccontextmanager
async def connect(
    socket: str, deadline_seconds: float, *, max_message_bytes: int = MAX_MESSAGE_BYTES
) -> AsyncIterator[Connection]:
    """Provide a connection to the plugin that listens on *socket*, closed at the end of the block.

    :param socket: absolute path.
    :param deadline_seconds: time limit for all calls; ``math.inf`` for a connection that is kept.
    :param max_message_bytes: longest response.
    """
    if len(os.fsencode(socket)) > MAX_SOCKET_PATH:
        raise RpcError("Unavailable", f"path of the socket is longer than {MAX_SOCKET_PATH} bytes")
    options = (*_OPTIONS, ("grpc.max_receive_message_length", max_message_bytes))
    channel = grpc.aio.insecure_channel(f"unix://{quote(socket)}", options=options)
    try:
        yield Connection(channel, monotonic() + deadline_seconds)
    finally:
        await channel.close(None)


def is_socket(path: str) -> bool:
    """Return whether *path* is a Unix socket; symbolic links are not followed. Blocking."""
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


def rpc_error(error: grpc.aio.AioRpcError) -> RpcError:
    """Return the error of a call as Go clients report it."""
    code, details = error.code(), error.details() or ""
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return RpcError("DeadlineExceeded", "context deadline exceeded")
    # A connection that breaks is reported with various codes.
    if code in {grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL} and details.startswith(_BROKEN):
        return RpcError("Unavailable", details)
    return RpcError(_GO_NAMES[code], details)


def _closed() -> RpcError:
    """Return the error for a call that gRPC has cancelled, because another task has closed the connection.

    :raises CancelledError: the current task was cancelled.
    """
    task = asyncio.current_task()
    if task is None or task.cancelling():
        raise  # noqa: PLE0704  called in a handler
    return RpcError("Unavailable", "connection closed")


def _serialize(request: Message) -> bytes:
    return request.SerializeToString()
