"""Tests for the simulated network between clients and the server's listener."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextvars import Context
from typing import Any

import pytest

from apiserver_stub.simulation.network import Network, ServerLoop
from nodeagent.base.simulation.loop import PROCESS


class Echo(asyncio.Protocol):
    """Server that returns what it receives, and records the process of its callbacks."""

    def __init__(self) -> None:
        self.processes: list[int] = []
        self.events: list[str] = []
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.processes.append(PROCESS.get())
        self.transport.write(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.events.append("lost")

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")


class Harness:
    def __init__(self, loop: ServerLoop) -> None:
        self.loop, self.network = loop, Network(1, loop)
        self.echo, self.received, self.lost = Echo(), b"", 0

    def serve(self) -> None:
        (listening,) = self.network.listen("", 6443)

        async def accept() -> None:
            accepted, _ = await self.loop.sock_accept(listening)
            await self.loop.connect_accepted_socket(lambda: self.echo, accepted)

        context = Context()
        context.run(PROCESS.set, 7)
        self.loop.create_task(accept(), context=context)

    def connect(self) -> Any:
        return self.network.connect(self._receive, self._lose)

    def run(self, seconds: float = 30.0) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def _receive(self, data: bytes) -> None:
        self.received += data

    def _lose(self) -> None:
        self.lost += 1


@pytest.fixture
def harness() -> Iterator[Harness]:
    loop = ServerLoop(1)
    asyncio.set_event_loop(loop)
    yield Harness(loop)
    asyncio.set_event_loop(None)
    loop.close()


def test_data_arrives_in_order_and_in_the_process_of_the_server(harness: Harness) -> None:
    harness.serve()
    connection = harness.connect()
    for number in range(200):
        connection.send(b"%d," % number)
    harness.run()

    assert harness.received == b"".join(b"%d," % number for number in range(200))
    assert set(harness.echo.processes) == {7}


def test_connection_without_a_server_is_lost(harness: Harness) -> None:
    harness.connect()
    harness.run()

    assert harness.lost == 1


def test_client_that_does_not_read_pauses_the_server(harness: Harness) -> None:
    harness.serve()
    connection = harness.connect()
    connection.client_reads = False
    connection.send(b"x" * 100_000)
    harness.run()
    assert (harness.received, harness.echo.events) == (b"", ["pause"])

    connection.resume_client()
    harness.run()
    assert (len(harness.received), harness.echo.events) == (100_000, ["pause", "resume"])


@pytest.mark.parametrize(("silent", "lost"), [(False, 1), (True, 0)])
def test_clients_are_informed_of_a_crash_but_not_of_a_power_loss(harness: Harness, *, silent: bool, lost: int) -> None:
    harness.serve()
    harness.connect()
    harness.run()
    harness.network.crash(silent=silent)
    harness.run()

    assert harness.lost == lost


def test_cut_connection_is_lost_on_both_sides(harness: Harness) -> None:
    harness.serve()
    harness.connect()
    harness.run()

    assert harness.network.cut(0)
    harness.run()
    assert (harness.lost, harness.echo.events) == (1, ["lost"])
