"""Tests for the pool of streams: shared connections, and servers without HTTP/2."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator

import pytest

from nodeagent.apiclient import stream_pool as stream_pool_module
from nodeagent.apiclient.pool import Pool
from nodeagent.apiclient.route import Route, route
from nodeagent.apiclient.stream_pool import StreamPool
from nodeagent.apiclient.transport import ConnectionLost, Request
from nodeagent.testing import FakeClock
from tests.unit.apiclient.http2_server import Http2Peer, settle
from tests.unit.apiclient.streams import PreparedServer

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class Servers:
    """The connections that the pool has opened to a server, which permits *streams* on each."""

    def __init__(self, clock: FakeClock) -> None:
        self.connected: list[Http2Peer] = []
        self.streams = 100
        self.without_http2: list[PreparedServer] = []
        self.contexts = ssl.create_default_context(), ssl.create_default_context()
        self.requests = Pool(route("https://server/base", ""), self.contexts[0], "api.test", clock)
        self.pool = StreamPool(self.requests, self.contexts[1])
        self._tasks: set[asyncio.Task[bytes]] = set()

    async def open_streams(
        self, way: Route, context: object, proxy_context: object, server_name: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        assert (context, proxy_context, server_name) == (self.contexts[1], self.contexts[0], "api.test")
        await asyncio.sleep(0)
        if self.without_http2:
            server = self.without_http2.pop(0)
        else:
            self.connected.append(peer := Http2Peer(self.streams))
            server = peer.prepared
        return server.reader, server.writer

    def watch(self) -> asyncio.Task[bytes]:
        """Open a stream, and read from it until a piece of the body arrives."""
        task = asyncio.create_task(self._read())
        self._tasks.add(task)
        return task

    async def watches(self, number: int) -> list[asyncio.Task[bytes]]:
        """Open *number* streams whose responses have started."""
        tasks = [self.watch() for _ in range(number)]
        for _ in range(number + 1):
            await settle()
            for peer in self.connected:
                peer.respond_to_all()
        await settle()
        return tasks

    async def close(self) -> None:
        self.pool.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _read(self) -> bytes:
        async with self.pool.exchange(Request("GET", "/watch", {"Host": "server"})) as (source, head):
            assert head.status == 200
            return await source.read()


@pytest.fixture
async def servers(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Servers]:
    async with asyncio.timeout(20):
        servers = Servers(clock)
        monkeypatch.setattr(stream_pool_module, "open_streams", servers.open_streams)
        yield servers
        await servers.close()


async def test_streams_share_connections_up_to_the_servers_limit(servers: Servers) -> None:
    servers.streams = 3

    await servers.watches(7)

    assert [len(peer.requests()) for peer in servers.connected] == [3, 3, 1]
    assert {request[":path"] for request in servers.connected[0].requests()} == {"/base/watch"}


async def test_ended_stream_makes_room_for_another_one(servers: Servers) -> None:
    servers.streams = 2
    first, _ = await servers.watches(2)
    servers.connected[0].send_data(1, b"data")

    assert await first == b"data"
    await servers.watches(1)
    assert len(servers.connected) == 1


async def test_stream_is_repeated_once_if_the_server_ends_the_connection(servers: Servers) -> None:
    (idle,) = await servers.watches(1)
    repeated = servers.watch()
    await settle()
    servers.connected[0].go_away(1)
    await settle()
    servers.connected[1].respond_to_all()
    servers.connected[1].send_data(1, b"second")

    assert await repeated == b"second"
    assert not idle.done()


async def test_stream_is_not_repeated_if_a_new_connection_fails(servers: Servers) -> None:
    watch = servers.watch()
    await settle()
    servers.connected[0].end()

    with pytest.raises(ConnectionLost, match="server disconnected"):
        await watch
    assert len(servers.connected) == 1


async def test_lost_connection_is_replaced(servers: Servers) -> None:
    (lost,) = await servers.watches(1)
    servers.connected[0].end()

    with pytest.raises(ConnectionLost):
        await lost
    await servers.watches(2)
    assert len(servers.connected) == 2


async def test_cancelled_stream_ends_before_its_response(servers: Servers) -> None:
    watch = servers.watch()
    await settle()

    watch.cancel()
    await settle()

    assert servers.connected[0].resets() == [1]


async def test_closed_pool_fails_its_streams(servers: Servers) -> None:
    (watch,) = await servers.watches(1)
    servers.pool.close()

    with pytest.raises(ConnectionLost):
        await watch
    assert servers.connected[0].aborted


async def test_connection_opened_during_the_close_is_closed(servers: Servers) -> None:
    watch = servers.watch()
    await asyncio.sleep(0)
    servers.pool.close()

    with pytest.raises(ConnectionLost):
        await watch
    assert servers.connected[0].aborted


async def test_server_without_http2_uses_a_connection_per_stream(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    negotiated, dialed = PreparedServer(CHUNKED, "http/1.1"), PreparedServer(CHUNKED)
    servers.without_http2.append(negotiated)

    async def dial(*_: object) -> object:
        return dialed.connection

    monkeypatch.setattr("nodeagent.apiclient.pool.dial", dial)
    watches = [servers.watch(), servers.watch()]
    await settle()
    for server in (negotiated, dialed):
        server.reader.feed_data(b"4\r\ndata\r\n")

    assert await asyncio.gather(*watches) == [b"data", b"data"]
    assert negotiated.request.startswith("GET /base/watch HTTP/1.1\r\n")
    assert servers.connected == []


async def test_connection_without_http2_is_closed_with_the_pool(servers: Servers) -> None:
    servers.without_http2.append(server := PreparedServer(protocol=None))
    servers.requests.close()
    watch = servers.watch()
    await settle()

    assert server.transport.aborted
    watch.cancel()


async def test_stream_without_tls_uses_http1(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> None:
    server = PreparedServer(CHUNKED + b"4\r\ndata\r\n")

    async def dial(*_: object) -> object:
        return server.connection

    monkeypatch.setattr("nodeagent.apiclient.pool.dial", dial)
    pool = StreamPool(Pool(route("http://server", ""), None, "", clock), None)
    async with pool.exchange(Request("GET", "/watch", {"Host": "server"})) as (source, _):
        assert await source.read() == b"data"
