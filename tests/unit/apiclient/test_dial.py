"""Tests for the establishment of connections to servers on this host, and the reasons of failures."""

import asyncio
import contextlib
import errno
import ssl
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

from nodeagent.apiclient import dial as dial_module
from nodeagent.apiclient.dial import _failures_to_connect, _open_tunnel, dial
from nodeagent.apiclient.route import route
from nodeagent.apiclient.transport import ConnectionLost
from nodeagent.base.tls import generate_ca, issue
from tests.unit.apiclient.streams import PreparedServer

CA = generate_ca("test-ca")
PROXY_CA = generate_ca("proxy-ca")


class Servers:
    """A server with TLS, one without, and proxies in front of them.

    :ivar heads: request lines that the proxies received.
    """

    def __init__(self, directory):
        self.directory, self.heads, self.proxy_status = directory, [], 200
        self._stack = contextlib.AsyncExitStack()

    async def __aenter__(self):
        self.tls = await self._listen(self._respond, self._context(CA, "api.test"))
        self.plain = await self._listen(self._respond, None)
        self.proxy = await self._listen(self._forward, None)
        self.tls_proxy = await self._listen(self._forward, self._context(PROXY_CA, "localhost"))
        return self

    async def __aexit__(self, *_error):
        await self._stack.aclose()

    def _context(self, authority, name):
        pair = issue(authority, name, names=[name], server=True)
        file = self.directory / f"{name}.pem"
        file.write_bytes(pair.certificate + pair.key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    async def _listen(self, handler, context):
        server = await asyncio.start_server(handler, "127.0.0.1", 0, ssl=context)
        self._stack.callback(server.close)
        return server.sockets[0].getsockname()[1]

    async def _respond(self, reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            head = await reader.readuntil(b"\r\n\r\n")
            self.heads.append(head.decode().splitlines()[0])
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    async def _forward(self, reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()[0]
            self.heads.append(head)
            writer.write(f"HTTP/1.1 {self.proxy_status} x\r\n\r\n".encode())
            if head.startswith("CONNECT") and self.proxy_status == 200:
                await self._copy(reader, writer)
        writer.close()

    async def _copy(self, reader, writer):
        other_reader, other_writer = await asyncio.open_connection("127.0.0.1", self.tls)

        async def copy(source, target):
            while data := await source.read(4096):
                target.write(data)
            target.close()

        await asyncio.gather(copy(reader, other_writer), copy(other_reader, writer))


@pytest.fixture
async def servers(tmp_path):
    async with Servers(tmp_path) as servers, asyncio.timeout(20):
        yield servers


def trusting(*authorities):
    context = ssl.create_default_context()
    for authority in authorities:
        context.load_verify_locations(cadata=authority.certificate.decode())
    return context


async def status(way, context, server_name=""):
    connection = await dial(way, context, server_name)
    try:
        return (await connection.send("GET", way.target("/x"), way.headers())).status
    finally:
        connection.abort()


async def test_server_is_verified_with_the_context_and_its_name(servers):
    way = route(f"https://127.0.0.1:{servers.tls}", "")

    assert await status(way, trusting(CA), "api.test") == 204
    for context, name in ((trusting(CA), ""), (trusting(PROXY_CA), "api.test"), (None, "api.test")):
        with pytest.raises(ConnectionLost, match="certificate verification failed"):
            await dial(way, context, name)


async def test_connection_without_encryption_ignores_the_context(servers):
    assert await status(route(f"http://127.0.0.1:{servers.plain}", ""), trusting(CA), "api.test") == 204


async def test_request_without_encryption_is_forwarded_by_the_proxy(servers):
    way = route("http://server.test", f"http://127.0.0.1:{servers.proxy}")
    assert await status(way, None) == 200
    assert servers.heads == ["GET http://server.test/x HTTP/1.1"]


async def test_proxy_opens_a_tunnel_to_an_encrypted_server(servers):
    way = route(f"https://127.0.0.1:{servers.tls}", f"http://127.0.0.1:{servers.proxy}")

    assert await status(way, trusting(CA), "api.test") == 204
    assert servers.heads == [f"CONNECT 127.0.0.1:{servers.tls} HTTP/1.1", "GET /x HTTP/1.1"]
    for context, name in ((trusting(CA), ""), (None, "api.test")):
        with pytest.raises(ConnectionLost, match=f"127.0.0.1:{servers.tls}: certificate verification failed"):
            await dial(way, context, name)


async def test_encrypted_proxy_is_verified_with_its_own_name(servers):
    way = route(f"https://127.0.0.1:{servers.tls}", f"https://localhost:{servers.tls_proxy}")

    assert await status(way, trusting(CA, PROXY_CA), "api.test") == 204
    with pytest.raises(ConnectionLost, match=f"localhost:{servers.tls_proxy}: certificate verification failed"):
        await dial(way, trusting(CA), "api.test")


@pytest.mark.parametrize("code", [300, 403, 407])
async def test_tunnel_that_the_proxy_rejects_is_an_error(servers, code):
    servers.proxy_status = code
    way = route(f"https://127.0.0.1:{servers.tls}", f"http://127.0.0.1:{servers.proxy}")
    with pytest.raises(ConnectionLost, match=rf"CONNECT 127.0.0.1:\d+ failed with status {code}"):
        await dial(way, trusting(CA), "api.test")


@pytest.mark.parametrize(
    ("server", "target"),
    [("https://[::1]:6443", "[::1]:6443"), ("https://api.test", "api.test:443"), ("https://api.test:1", "api.test:1")],
)
async def test_tunnel_names_host_and_port(server, target):
    proxy = PreparedServer(b"HTTP/1.1 200 OK\r\n\r\n")
    await _open_tunnel(route(server, "http://proxy"), proxy.reader, proxy.writer)
    assert proxy.request.startswith(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n")


async def test_cancelled_handshake_closes_the_connection():
    closed = asyncio.Event()
    connected = asyncio.Event()

    async def hang(reader, writer):
        connected.set()
        with contextlib.suppress(OSError):
            while await reader.read(4096):
                pass
        closed.set()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    dialing = asyncio.create_task(dial(route(f"https://127.0.0.1:{port}", ""), trusting(CA), ""))
    async with asyncio.timeout(20):
        await connected.wait()
        dialing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await dialing
        await closed.wait()
    server.close()


@pytest.mark.parametrize(("succeeds", "aborted"), [(True, 1), (False, 0)])
async def test_connection_that_opens_during_a_cancellation_is_closed(servers, monkeypatch, succeeds, aborted):
    started, closed = asyncio.Event(), []

    async def open_connection(sock, **_options):
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            sock.close()
            if not succeeds:
                raise ConnectionResetError from None
            return None, SimpleNamespace(transport=SimpleNamespace(abort=lambda: closed.append(1)))

    monkeypatch.setattr(dial_module.asyncio, "open_connection", open_connection)
    dialing = asyncio.create_task(dial(route(f"http://127.0.0.1:{servers.plain}", ""), None, ""))
    await started.wait()
    dialing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await dialing
    assert len(closed) == aborted


def verification(message):
    error = ssl.SSLCertVerificationError(1, "certificate verify failed")
    error.verify_message = message
    return error


def test_failed_connection_names_the_address_and_the_reason():
    handshake = ssl.SSLError(1, "handshake failure")
    handshake.reason = "WRONG_VERSION_NUMBER"
    for url, error, text in [
        ("https://api:1", ConnectionRefusedError(errno.ECONNREFUSED, "x"), "api:1: Connection refused"),
        ("https://api:1", TimeoutError(), "api:1: no connection within "),
        ("https://api:1", OSError("no route"), "api:1: no route"),
        ("https://api:1", OSError(-2, "Name or service not known"), "api:1: Name or service not known"),
        ("https://api:1", OSError(), "api:1: OSError"),
        ("https://api:1", verification("self-signed"), "api:1: certificate verification failed: self-signed"),
        ("https://api:1", handshake, "api:1: WRONG_VERSION_NUMBER"),
        ("https://api", OSError("x"), "api:443: x"),
    ]:
        with pytest.raises(ConnectionLost) as caught, _failures_to_connect(urlsplit(url)):
            raise error
        assert str(caught.value).startswith(f"cannot connect to {text}"), error
