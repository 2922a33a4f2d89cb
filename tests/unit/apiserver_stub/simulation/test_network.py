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
    harness.network.crash(0, silent=silent)
    harness.run()

    assert harness.lost == lost


def test_cut_connection_is_lost_on_both_sides(harness: Harness) -> None:
    harness.serve()
    harness.connect()
    harness.run()

    assert harness.network.cut(0)
    harness.run()
    assert (harness.lost, harness.echo.events) == (1, ["lost"])


@pytest.mark.parametrize(("loss", "lost"), [(0.0, 0), (1e-9, 0), (1.0, 1)])
def test_lost_segment_of_the_server_closes_the_connection(harness: Harness, loss: float, lost: int) -> None:
    harness.serve()
    connection = harness.connect()
    harness.run()
    harness.network.loss = loss
    connection.send(b"x")
    harness.run()

    assert (harness.lost, harness.received, harness.echo.events) == (lost, b"" if lost else b"x", ["lost"] * lost)
    assert len(harness.network.connections) == 1 - lost


def test_server_closes_after_its_data(harness: Harness) -> None:
    harness.serve()
    connection = harness.connect()
    connection.send(b"x")
    harness.run()
    transport = harness.echo.transport
    transport.write(b"y")
    transport.close()
    transport.close()
    assert transport.is_closing()
    transport.write(b"late")
    assert transport.get_write_buffer_size() == 1
    harness.run()
    transport.close()
    transport.write(b"late")
    assert transport.get_write_buffer_size() == 0
    connection.send(b"z")
    harness.run()

    assert (harness.received, harness.lost, harness.echo.events) == (b"xy", 1, ["lost"])
    assert transport.is_closing()


def test_client_that_abandons_the_connection_receives_nothing(harness: Harness) -> None:
    harness.serve()
    connection = harness.connect()
    connection.send(b"x")
    harness.run()
    harness.echo.transport.write(b"y")
    connection.abandon()
    connection.send(b"z")
    harness.run()

    assert (harness.received, harness.lost, harness.echo.events) == (b"x", 0, ["lost"])
    assert harness.echo.transport.is_closing()


def test_server_that_pauses_receives_the_data_later(harness: Harness) -> None:
    harness.serve()
    connection = harness.connect()
    harness.run()
    transport = harness.echo.transport
    transport.pause_reading()
    for data in (b"a", b"b"):
        connection.send(data)
    harness.run()
    assert harness.received == b""

    transport.resume_reading()
    transport.pause_reading()
    harness.run()
    assert harness.received == b"", "the server paused again"

    transport.resume_reading()
    harness.run()
    assert harness.received == b"ab"

    transport.pause_reading()
    connection.send(b"c")
    harness.run()
    transport.resume_reading()
    connection.abandon()
    harness.run()
    assert len(harness.echo.processes) == 2, "the connection was closed before"


def test_writing_resumes_below_the_lower_limit(harness: Harness) -> None:
    harness.serve()
    connection = harness.connect()
    harness.run()
    connection.client_reads = False
    transport = harness.echo.transport
    transport.write(b"x" * (64 << 10))
    assert harness.echo.events == []
    transport.write(b"x")
    transport.write(b"x" * ((16 << 10) - 1))
    assert (harness.echo.events, transport.get_write_buffer_size()) == (["pause"], 80 << 10)
    harness.run()

    def received(data: bytes) -> None:
        sizes.append(len(data))
        connection.client_reads = len(sizes) > 2

    sizes: list[int] = []
    connection._receive = received
    connection.resume_client()
    harness.run()
    assert (sizes, harness.echo.events) == ([64 << 10], ["pause"]), "16 KiB are left"

    connection.resume_client()
    harness.run()
    assert (sizes[1:], harness.echo.events) == ([1], ["pause", "resume"])


def test_connections_that_are_waiting_are_accepted_in_order(harness: Harness) -> None:
    (listening,) = harness.network.listen("192.0.2.1", 6443)
    assert listening.getsockname() == ("192.0.2.1", 6443)
    connections = [harness.connect() for _ in range(3)]
    harness.run()
    assert list(listening.backlog) and set(harness.network.connections) == set(connections)

    async def accept() -> Any:
        return await harness.loop.sock_accept(listening)

    accepted = [harness.loop.run_until_complete(accept())[0] for _ in range(3)]
    assert [each.connection for each in accepted] == sorted(connections, key=list(harness.network.connections).index)

    accepted[0].close()
    accepted[1].shutdown(2)
    harness.run()
    assert (harness.lost, len(harness.network.connections)) == (2, 1)


def test_closed_listener_rejects_connections_unless_it_was_replaced(harness: Harness) -> None:
    (first,) = harness.network.listen("", 6443)
    harness.network.listen("", 6443)
    first.close()
    harness.connect()
    harness.run()
    assert (harness.lost, harness.network.cut(7)) == (0, True)

    harness.network.crash(0, silent=True)
    harness.connect()
    harness.run()
    assert (harness.lost, harness.network.cut(0)) == (2, False)


def test_data_before_the_connection_is_accepted_is_delivered(harness: Harness) -> None:
    (listening,) = harness.network.listen("", 6443)
    connection = harness.connect()
    connection.send(b"early")
    harness.run()

    async def accept() -> None:
        accepted, _ = await harness.loop.sock_accept(listening)
        await harness.loop.connect_accepted_socket(lambda: harness.echo, accepted)

    harness.loop.run_until_complete(accept())
    harness.run()

    assert harness.received == b"early"
    assert harness.echo.transport.get_protocol() is harness.echo


def test_data_for_a_crashed_server_is_dropped(harness: Harness) -> None:
    harness.serve()
    connection = harness.connect()
    harness.run()
    connection.send(b"x")
    connection.client_reads = False
    harness.echo.transport.write(b"y" * (65 << 10))
    harness.network.crash(0, silent=True)
    connection.resume_client()
    harness.run()

    assert (harness.echo.processes, harness.echo.events) == ([], ["pause"])


def test_transport_has_the_attributes_of_a_tls_connection(harness: Harness) -> None:
    harness.serve()
    harness.connect()
    harness.run()
    transport = harness.echo.transport

    tls = transport.get_extra_info("ssl_object")
    assert (tls.selected_alpn_protocol(), tls.getpeercert()) == ("http/1.1", None)
    assert transport.get_extra_info("peername") == ("198.51.100.7", 40000)
    assert transport.get_extra_info("other", 7) == 7
