"""Tests for sockets that lead through a dialer."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any

import pytest

from apiserver_stub.egress.local_sockets import LocalSockets


class Echo:
    """Dialer to a server that sends received data back; with *error* every connection fails."""

    by_name = False

    def __init__(self, error: OSError | None = None) -> None:
        self._error = error
        self.targets: list[tuple[str, int, Any]] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def connect(self, factory: Callable[[], Any], host: str, port: int, tls: Any, server_name: str = "") -> Any:
        self.targets.append((host, port, tls))
        if self._error is not None:
            raise self._error
        near, far = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=far)
        self._tasks.append(asyncio.ensure_future(_echo(reader, writer)))
        _, protocol = await asyncio.get_running_loop().create_connection(factory, sock=near)
        return protocol

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(100):
            writer.write(data)
    finally:
        writer.close()


async def test_each_destination_has_a_socket() -> None:
    dialer = Echo()
    sockets = LocalSockets(dialer)
    paths = [await sockets.open(host, port) for host, port in (("a", 1), ("b", 2))]
    received = []
    for path in paths:
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(path.name.encode())
        received.append(await reader.read(100))
        writer.close()
        await writer.wait_closed()
    await sockets.close()
    await dialer.close()

    assert (received, dialer.targets) == ([b"0", b"1"], [("a", 1, None), ("b", 2, None)])
    assert not paths[0].parent.exists()


async def test_failed_connection_is_logged_and_closed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    sockets = LocalSockets(Echo(ConnectionRefusedError("refused")))
    reader, writer = await asyncio.open_unix_connection(await sockets.open("fd00::1", 2379))
    ended = await reader.read(100)
    writer.close()
    await sockets.close()

    (record,) = [record for record in caplog.records if record.message == "Failed to connect"]
    assert (ended, vars(record)["address"]) == (b"", "[fd00::1]:2379")
