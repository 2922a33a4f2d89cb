"""Connections through a konnectivity proxy server: one gRPC stream per connection.

The streams share the channel to the Unix socket of the proxy server. A socket pair joins a stream to its connection, so
that TLS and flow control are those of any other connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl
from collections.abc import Callable
from typing import Any, TypeVar

import grpc
import grpc.aio

from apiserver_stub.egress.dialing import host_and_port
from apiserver_stub.egress.proto.konnectivity_pb2 import (
    CLOSE_REQ,
    CLOSE_RSP,
    DATA,
    DIAL_REQ,
    DIAL_RSP,
    CloseRequest,
    Data,
    DialRequest,
    Packet,
)
from nodeagent.base.aio import TaskOwner

_METHOD = "/ProxyService/Proxy"
_DIAL_SECONDS = 30.0
_CLOSE_SECONDS = 5.0
_READ_BYTES = 64 * 1024
_CHANNEL: list[tuple[str, Any]] = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
]
_END: Any = grpc.aio.EOF  # type: ignore[attr-defined]  # Missing from the type stubs.

P = TypeVar("P", bound=asyncio.BaseProtocol)


class KonnectivityDialer:
    """Connects through the proxy server at a Unix socket."""

    by_name = True

    def __init__(self, socket_path: str) -> None:
        self.socket_path = socket_path
        self._channel: Any = None
        self._tasks = TaskOwner("konnectivity")

    async def connect(
        self, factory: Callable[[], P], host: str, port: int, tls: ssl.SSLContext | None, server_name: str = ""
    ) -> P:
        call = self._open()
        try:
            async with asyncio.timeout(_DIAL_SECONDS):
                connection = await _dial(call, host_and_port(host, port))
        except grpc.aio.AioRpcError as error:
            call.cancel()
            raise ConnectionRefusedError(f"the proxy server failed: {error.details()}") from error
        except BaseException:
            call.cancel()  # The proxy server drops the pending dial or the connection of a cancelled stream.
            raise
        near, far = socket.socketpair()
        try:
            # Owned from here on: the task ends the stream when either side closes.
            self._tasks.start(_carry(call, connection, far), "connection")
        except RuntimeError:
            near.close()
            far.close()
            call.cancel()
            raise ConnectionAbortedError("the server stops") from None
        try:
            _, protocol = await asyncio.get_running_loop().create_unix_connection(
                factory, sock=near, ssl=tls, server_hostname=(server_name or host) if tls is not None else None
            )
        except BaseException:
            near.close()
            raise
        return protocol

    async def close(self) -> None:
        """Close the connections and the channel."""
        await self._tasks.close()
        if self._channel is not None:
            await self._channel.close(None)

    def _open(self) -> Any:
        if self._channel is None:
            self._channel = grpc.aio.insecure_channel(f"unix:{self.socket_path}", options=_CHANNEL)
        return self._channel.stream_stream(
            _METHOD, request_serializer=Packet.SerializeToString, response_deserializer=Packet.FromString
        )()


async def _dial(call: Any, address: str) -> int:
    """Request a connection to *address* and return its identifier.

    :raises OSError: the proxy server rejected the request.
    """
    number = random.getrandbits(63)  # matches the response to the request
    await call.write(Packet(type=DIAL_REQ, dialRequest=DialRequest(protocol="tcp", address=address, random=number)))
    while (packet := await call.read()) is not _END:
        if packet.type == DIAL_RSP and packet.dialResponse.random == number:
            if packet.dialResponse.error:
                raise ConnectionRefusedError(packet.dialResponse.error)
            return int(packet.dialResponse.connectID)
        if packet.type != DATA:
            break
    raise ConnectionResetError("the proxy server closed the dial")


async def _carry(call: Any, connection: int, far: socket.socket) -> None:
    """Pass bytes between the stream and *far* until either ends."""
    try:
        reader, writer = await asyncio.open_unix_connection(sock=far)
    except BaseException:
        far.close()
        call.cancel()
        raise
    receiving = asyncio.ensure_future(_receive(call, connection, writer))
    sending = asyncio.ensure_future(_send(call, connection, reader))
    try:
        await asyncio.wait((receiving, sending), return_when=asyncio.FIRST_COMPLETED)
        if sending.done() and not receiving.done():  # The proxy server confirms the end.
            await asyncio.wait((receiving,), timeout=_CLOSE_SECONDS)
    finally:
        for task in (receiving, sending):
            task.cancel()
        await asyncio.gather(receiving, sending, return_exceptions=True)
        call.cancel()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def _receive(call: Any, connection: int, writer: asyncio.StreamWriter) -> None:
    """Write the data of the stream to *writer* until the connection or the stream ends."""
    with contextlib.suppress(grpc.aio.AioRpcError, OSError):
        while (packet := await call.read()) is not _END:
            if packet.type == DATA and packet.data.connectID == connection:
                writer.write(packet.data.data)
                await writer.drain()
            elif packet.type == CLOSE_RSP and packet.closeResponse.connectID == connection:
                return


async def _send(call: Any, connection: int, reader: asyncio.StreamReader) -> None:
    """Send the data of *reader*, then the request to close the connection."""
    with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError, OSError):
        while data := await reader.read(_READ_BYTES):
            await call.write(Packet(type=DATA, data=Data(connectID=connection, data=data)))
        await call.write(Packet(type=CLOSE_REQ, closeRequest=CloseRequest(connectID=connection)))
