"""Tests for outgoing connections: proxies, their responses, and error messages."""

from __future__ import annotations

import asyncio
import errno
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from apiserver_stub.egress.dialing import (
    DirectDialer,
    HttpConnectDialer,
    client_context,
    connection_error,
    host_and_port,
)


class Receiver(asyncio.Protocol):
    """Protocol that records the received data."""

    def __init__(self) -> None:
        self.received = b""
        self.transport: Any = None
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


class Proxy:
    """Proxy that sends *response*, then echoes the first line that it receives, and closes."""

    def __init__(self, response: bytes) -> None:
        self.response, self.head = response, b""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.head = await reader.readuntil(b"\r\n\r\n")
        writer.write(self.response)
        if self.response.startswith(b"HTTP/1.1 200"):
            writer.write(await reader.readline())
        writer.close()


@asynccontextmanager
async def proxied(response: bytes, path: Path) -> AsyncIterator[tuple[Proxy, HttpConnectDialer]]:
    proxy = Proxy(response)
    server = await asyncio.start_unix_server(proxy.serve, path / "proxy.sock")
    async with server:
        yield proxy, HttpConnectDialer(socket_path=str(path / "proxy.sock"))


@pytest.mark.parametrize(
    ("host", "target"), [("10.0.0.1", "10.0.0.1:443"), ("fd00::1", "[fd00::1]:443"), ("a.example", "a.example:443")]
)
async def test_proxy_is_requested_to_connect(host: str, target: str, tmp_path: Path) -> None:
    async with proxied(b"HTTP/1.1 200 OK\r\nX-A: b\r\n\r\nfirst ", tmp_path) as (proxy, dialer):
        protocol = await dialer.connect(Receiver, host, 443, None)
        protocol.transport.write(b"second\n")
        await protocol.ended.wait()

        assert proxy.head == f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode()
        assert protocol.received == b"first second\n"


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", "the proxy responded with 'HTTP/1.1 403 Forbidden'"),
        (b"HTTP/2 200\r\n\r\n", "the proxy responded with 'HTTP/2 200'"),
        (b"HTTP/1.1\r\n\r\n", "the proxy responded with 'HTTP/1.1'"),
        (b"x" * 300 + b"\r\n\r\n", f"the proxy responded with '{'x' * 200}'"),
        (b"x" * (16 * 1024 + 1), "the proxy sent response headers that are too long"),
        (b"x" * (16 * 1024), "the proxy closed the connection"),
        (b"", "the proxy closed the connection"),
    ],
)
async def test_failed_proxy_is_an_error(response: bytes, problem: str, tmp_path: Path) -> None:
    async with proxied(response, tmp_path) as (_, dialer):
        with pytest.raises(ConnectionRefusedError) as error:
            await dialer.connect(Receiver, "10.0.0.1", 443, None)

    assert str(error.value) == problem


async def test_missing_proxy_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await HttpConnectDialer(socket_path=str(tmp_path / "none")).connect(Receiver, "10.0.0.1", 443, None)


class Loop:
    """Event loop that records the arguments of connections, which fail."""

    def __init__(self) -> None:
        self.arguments: dict[str, Any] = {}

    def create_future(self) -> Any:
        return None

    async def create_connection(self, factory: Any, host: str, port: int, **options: Any) -> Any:
        self.arguments = {"host": host, "port": port, **options}
        raise ConnectionRefusedError


@pytest.mark.parametrize(
    ("dialer", "tls", "server_name", "expected"),
    [
        (DirectDialer(), False, "", {"host": "a", "port": 1, "ssl": False, "server_hostname": None}),
        (DirectDialer(), False, "b", {"host": "a", "port": 1, "ssl": False, "server_hostname": None}),
        (DirectDialer(), True, "", {"host": "a", "port": 1, "ssl": True, "server_hostname": "a"}),
        (DirectDialer(), True, "b", {"host": "a", "port": 1, "ssl": True, "server_hostname": "b"}),
        (
            HttpConnectDialer("proxy", 3128),
            True,
            "b",
            {"host": "proxy", "port": 3128, "ssl": False, "server_hostname": None},
        ),
        (
            HttpConnectDialer("proxy", 3128, tls=ssl.create_default_context()),
            False,
            "b",
            {"host": "proxy", "port": 3128, "ssl": True, "server_hostname": "proxy"},
        ),
    ],
)
async def test_certificate_is_that_of_the_named_server(
    dialer: Any, server_name: str, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch, *, tls: bool
) -> None:
    loop = Loop()
    context = ssl.create_default_context() if tls else None
    monkeypatch.setattr(asyncio, "get_running_loop", lambda: loop)
    with pytest.raises(ConnectionRefusedError):
        await dialer.connect(Receiver, "a", 1, context, server_name)
    monkeypatch.undo()

    assert {**loop.arguments, "ssl": loop.arguments["ssl"] is not None} == expected


@pytest.mark.parametrize(("host", "expected"), [("a", "a:1"), ("10.0.0.1", "10.0.0.1:1"), ("::1", "[::1]:1")])
def test_address_of_ipv6_is_bracketed(host: str, expected: str) -> None:
    assert host_and_port(host, 1) == expected


def _unverified() -> ssl.SSLCertVerificationError:
    error = ssl.SSLCertVerificationError("failed")
    error.reason, error.verify_message = "CERTIFICATE_VERIFY_FAILED", "expired"
    return error


def _handshake(reason: str | None) -> ssl.SSLError:
    error = ssl.SSLError("failed")
    error.reason = reason  # type: ignore[assignment]
    return error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (_unverified(), "tls: CERTIFICATE_VERIFY_FAILED: expired"),
        (_handshake("WRONG_VERSION_NUMBER"), "tls: WRONG_VERSION_NUMBER"),
        (_handshake(None), "tls: ('failed',)"),
        (TimeoutError(), "dial tcp 10.0.0.1:443: i/o timeout"),
        (ConnectionRefusedError(errno.ECONNREFUSED, "x"), "dial tcp 10.0.0.1:443: connect: connection refused"),
        (ConnectionRefusedError("the proxy closed"), "dial tcp 10.0.0.1:443: the proxy closed"),
        (OSError(-2, "Name or service not known"), "dial tcp 10.0.0.1:443: [Errno -2] Name or service not known"),
    ],
)
def test_error_has_the_wording_of_upstream(error: OSError, message: str) -> None:
    assert connection_error(error, "10.0.0.1", 443) == message


@pytest.mark.parametrize("verify", [True, False])
def test_certificate_may_be_unverified(*, verify: bool) -> None:
    context = client_context(None, None, None, verify=verify)

    assert (context.check_hostname, context.verify_mode == ssl.CERT_REQUIRED) == (verify, verify)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert any(context.cert_store_stats().values()) == verify


@pytest.mark.parametrize("position", [0, 1])
def test_invalid_file_is_an_error(position: int, tmp_path: Path) -> None:
    file = tmp_path / "file.pem"
    file.write_text("no certificate")
    files = [file if index == position else None for index in range(2)]

    with pytest.raises(ssl.SSLError):
        client_context(files[0], files[1], None)
