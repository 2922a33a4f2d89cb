"""Tests for connections through a konnectivity proxy server."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any

import grpc.aio
import pytest

from apiserver_stub.egress import konnectivity as module
from apiserver_stub.egress.konnectivity import KonnectivityDialer
from apiserver_stub.egress.proto.konnectivity_pb2 import (
    CLOSE_REQ,
    CLOSE_RSP,
    DATA,
    DIAL_REQ,
    DIAL_RSP,
    CloseResponse,
    Data,
    DialResponse,
    Packet,
)

END: Any = grpc.aio.EOF  # type: ignore[attr-defined]
CONNECTION = 7


def dialed(number: int, *, error: str = "", connection: int = CONNECTION) -> Packet:
    return Packet(type=DIAL_RSP, dialResponse=DialResponse(random=number, error=error, connectID=connection))


def data(content: bytes, connection: int = CONNECTION) -> Packet:
    return Packet(type=DATA, data=Data(connectID=connection, data=content))


class Call:
    """Stream of a proxy server; *respond* returns the packets that follow a packet."""

    def __init__(self, respond: Callable[[Packet], list[Any]]) -> None:
        self._respond = respond
        self._packets: asyncio.Queue[Any] = asyncio.Queue()
        self.written: list[Packet] = []
        self.cancelled = False

    async def write(self, packet: Packet) -> None:
        self.written.append(packet)
        for found in self._respond(packet):
            self._packets.put_nowait(found)

    async def read(self) -> Any:
        return await self._packets.get()

    def cancel(self) -> None:
        self.cancelled = True


def echo(packet: Packet) -> list[Any]:
    """Accept the dial, repeat data and confirm the end; packets of other connections are mixed in."""
    if packet.type == DIAL_REQ:
        return [data(b"early"), dialed(packet.dialRequest.random)]
    if packet.type == DATA:
        return [data(b"other", 8), data(packet.data.data)]
    others = [CloseResponse(connectID=connection) for connection in (8, CONNECTION)]
    return [Packet(type=CLOSE_RSP, closeResponse=other) for other in others]


def dialer_of(call: Call, monkeypatch: pytest.MonkeyPatch) -> KonnectivityDialer:
    dialer = KonnectivityDialer("/run/proxy.sock")
    monkeypatch.setattr(dialer, "_open", lambda: call)
    return dialer


async def connected(dialer: KonnectivityDialer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader = asyncio.StreamReader()
    ends: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()
    await dialer.connect(
        lambda: asyncio.StreamReaderProtocol(reader, lambda _, writer: ends.set_result(writer)), "fd00::1", 10250, None
    )
    return reader, await ends


async def test_data_passes_both_ways_until_the_client_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    call = Call(echo)
    dialer = dialer_of(call, monkeypatch)
    reader, writer = await connected(dialer)
    writer.write(b"hello")
    received = await reader.readexactly(5)
    writer.write_eof()
    ended = await reader.read()
    writer.close()
    await dialer.close()

    assert (received, ended) == (b"hello", b"")
    assert call.written[0].dialRequest.address == "[fd00::1]:10250"
    assert [packet.type for packet in call.written] == [DIAL_REQ, DATA, CLOSE_REQ]
    assert call.written[2].closeRequest.connectID == CONNECTION
    assert call.cancelled


@pytest.mark.parametrize("end", [END, Packet(type=CLOSE_RSP, closeResponse=CloseResponse(connectID=CONNECTION))])
async def test_end_of_the_stream_ends_the_connection(end: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def respond(packet: Packet) -> list[Any]:
        return [dialed(packet.dialRequest.random), data(b"last"), end] if packet.type == DIAL_REQ else []

    call = Call(respond)
    dialer = dialer_of(call, monkeypatch)
    reader, writer = await connected(dialer)
    received = await reader.read()
    writer.close()
    await dialer.close()

    assert (received, call.cancelled) == (b"last", True)


@pytest.mark.parametrize(
    ("respond", "kind", "message"),
    [
        (lambda number: [dialed(number, error="no route")], ConnectionRefusedError, "no route"),
        (lambda number: [dialed(number + 1)], ConnectionResetError, "the proxy server closed the dial"),
        (lambda number: [END], ConnectionResetError, "the proxy server closed the dial"),
        (lambda number: [Packet(type=CLOSE_RSP)], ConnectionResetError, "the proxy server closed the dial"),
    ],
)
async def test_rejected_dial_is_an_error(
    respond: Any, kind: type[OSError], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Call(lambda packet: respond(packet.dialRequest.random))

    with pytest.raises(kind, match=message):
        await connected(dialer_of(call, monkeypatch))
    assert call.cancelled


async def test_failed_proxy_server_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    error = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), "no socket")
    call = Call(lambda packet: [])
    monkeypatch.setattr(call, "write", lambda packet: _fail(error))

    with pytest.raises(ConnectionRefusedError, match="the proxy server failed: no socket"):
        await connected(dialer_of(call, monkeypatch))
    assert call.cancelled


async def _fail(error: Exception) -> None:
    raise error


async def test_unconfirmed_end_is_awaited_for_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CLOSE_SECONDS", 0.01)
    call = Call(lambda packet: [dialed(packet.dialRequest.random)] if packet.type == DIAL_REQ else [])
    dialer = dialer_of(call, monkeypatch)
    reader, writer = await connected(dialer)
    writer.write_eof()
    ended = await reader.read()
    writer.close()
    await dialer.close()

    assert (ended, call.cancelled) == (b"", True)


async def test_connection_after_the_stop_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    call = Call(echo)
    dialer = dialer_of(call, monkeypatch)
    await dialer.close()

    with pytest.raises(ConnectionAbortedError, match="the server stops"):
        await connected(dialer)
    assert call.cancelled


@pytest.mark.parametrize(
    ("server_name", "is_encrypted", "expected"), [("", True, "fd00::1"), ("a", True, "a"), ("a", False, None)]
)
async def test_certificate_is_that_of_the_named_server(
    server_name: str, expected: str | None, monkeypatch: pytest.MonkeyPatch, *, is_encrypted: bool
) -> None:
    used: list[str | None] = []
    loop = asyncio.get_running_loop()
    real = loop.create_unix_connection

    async def connect(factory: Any, *, sock: socket.socket, **options: Any) -> Any:
        if "server_hostname" not in options:
            return await real(factory, sock=sock)
        used.append(options["server_hostname"])
        await asyncio.sleep(0)  # The task that carries the data starts.
        raise ConnectionResetError

    call = Call(echo)
    dialer = dialer_of(call, monkeypatch)
    monkeypatch.setattr(loop, "create_unix_connection", connect)
    context = ssl.create_default_context() if is_encrypted else None
    with pytest.raises(ConnectionResetError):
        await dialer.connect(asyncio.Protocol, "fd00::1", 443, context, server_name)
    monkeypatch.undo()
    await dialer.close()

    assert used == [expected]
