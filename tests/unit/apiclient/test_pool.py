"""Tests for the pool of connections: reuse, repeated requests and closed connections."""

from __future__ import annotations

import ssl

import pytest

from nodeagent.apiclient import pool as pool_module
from nodeagent.apiclient.connection import Connection
from nodeagent.apiclient.pool import Pool
from nodeagent.apiclient.route import Route, route
from nodeagent.apiclient.transport import ConnectionLost, Request
from nodeagent.testing import FakeClock
from tests.unit.apiclient.streams import PreparedServer

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
PARTIAL = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n"
GET, POST = Request("GET", "/"), Request("POST", "/", body=b"{}")


class Servers:
    """The servers that the pool has connected to; each has sent the next of *replies*."""

    def __init__(self, clock: FakeClock, replies: list[bytes]) -> None:
        self.connected: list[PreparedServer] = []
        self._replies = replies
        self.pool = Pool(route("http://server", ""), None, "", clock)

    async def dial(self, way: Route, context: ssl.SSLContext | None, server_name: str) -> Connection:
        server = PreparedServer(self._replies.pop(0))
        self.connected.append(server)
        return server.connection

    async def send(self, request: Request = GET) -> None:
        connection, _ = await self.pool.send(request)
        self.pool.release(connection)

    @property
    def aborted(self) -> list[bool]:
        return [server.transport.aborted for server in self.connected]


@pytest.fixture
def servers(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Servers:
    servers = Servers(clock, [OK, OK, OK])
    monkeypatch.setattr(pool_module, "dial", servers.dial)
    return servers


async def test_connection_is_reused_for_the_next_request(servers: Servers) -> None:
    await servers.send()
    servers.connected[0].reader.feed_data(OK)

    await servers.send()

    assert servers.aborted == [False]


async def test_connection_in_use_is_not_reused(servers: Servers) -> None:
    await servers.pool.send(GET)
    await servers.pool.send(GET)

    assert len(servers.connected) == 2
    servers.pool.close()
    assert servers.aborted == [True, True]


async def test_connection_closed_by_the_server_is_replaced(servers: Servers) -> None:
    await servers.send()
    servers.connected[0].reader.feed_eof()

    await servers.send(POST)

    assert servers.aborted == [True, False]


async def test_connection_with_an_incomplete_response_is_closed(servers: Servers) -> None:
    servers._replies.insert(0, PARTIAL)
    await servers.send()
    await servers.send()

    assert servers.aborted == [True, False]


@pytest.mark.parametrize(("request_", "repeated"), [(GET, True), (POST, False)])
async def test_only_idempotent_request_is_repeated_on_a_new_connection(
    servers: Servers, request_: Request, repeated: bool
) -> None:
    await servers.send()
    servers.connected[0].reader.set_exception(ConnectionResetError())

    if repeated:
        await servers.send(request_)
    else:
        with pytest.raises(ConnectionResetError):
            await servers.send(request_)

    assert servers.aborted == [True, False][: 1 + repeated]


async def test_request_is_not_repeated_if_a_new_connection_fails(servers: Servers) -> None:
    servers._replies.insert(0, b"invalid\r\n\r\n")

    with pytest.raises(ConnectionLost):
        await servers.send()

    assert servers.aborted == [True]


async def test_unused_connection_is_closed_after_a_time(servers: Servers, clock: FakeClock) -> None:
    await servers.send()
    clock.jump(pool_module._KEEP_ALIVE_SECONDS + 1)

    await servers.send()

    assert servers.aborted == [True, False]


async def test_connection_released_after_the_close_is_closed(servers: Servers) -> None:
    connection, _ = await servers.pool.send(GET)
    await servers.send()
    servers.pool.close()
    servers.pool.release(connection)

    assert servers.aborted == [True, True]
