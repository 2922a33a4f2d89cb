"""Tests for the connection to the runtime's streaming endpoint, with a transport in memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from nodeagent.base.spdy_streams import UpgradeFailed
from nodeagent.testing import FakeClock
from nodeagent_plugins.routes_exec.spdy_client import open_spdy
from nodeagent_plugins.routes_exec.tunnel import join
from nodeagent_plugins.routes_exec.websockets import IdleLimit


class Transport(asyncio.Transport):
    """Responds to the request with *response*."""

    def __init__(self, protocol: Any, response: bytes) -> None:
        super().__init__()
        self.sent, self._protocol, self._response = b"", protocol, response

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return None

    def is_closing(self) -> bool:
        return False

    def close(self) -> None:
        return None

    def abort(self) -> None:
        return None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += bytes(data)
        self._protocol.data_received(self._response)


class Endpoint:
    """Streaming endpoint of a runtime that rejects all requests."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.address: tuple[str, int] = ("", 0)
        self.response: bytes | OSError = b"HTTP/1.1 403 Forbidden\r\n\r\nno such stream\n"
        self.transport: Transport | None = None
        monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", self._connect, raising=False)

    async def _connect(self, protocol: Any, host: str, port: int) -> tuple[Transport, Any]:
        if isinstance(self.response, OSError):
            raise self.response
        self.address, made = (host, port), protocol()
        self.transport = Transport(made, self.response)
        made.connection_made(self.transport)
        return self.transport, made

    async def rejects(self, clock: FakeClock, url: str, **headers: str) -> tuple[int, str]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with pytest.raises(web.HTTPException) as raised:
            await join(make_mocked_request("POST", "/exec", named), url, clock, 0)
        return raised.value.status, raised.value.text or ""


@pytest.fixture
async def endpoint(monkeypatch: pytest.MonkeyPatch) -> Endpoint:
    return Endpoint(monkeypatch)


@pytest.mark.parametrize(
    ("url", "address", "target"),
    [
        ("http://127.0.0.1:99/exec/a?x=1", ("127.0.0.1", 99), b"POST /exec/a?x=1 HTTP/1.1"),
        ("http://127.0.0.1/exec/a", ("127.0.0.1", 80), b"POST /exec/a HTTP/1.1"),
    ],
)
async def test_request_is_forwarded_to_the_address_of_the_runtime(
    endpoint: Endpoint, clock: FakeClock, url: str, address: tuple[str, int], target: bytes
) -> None:
    assert await endpoint.rejects(clock, url) == (403, "the runtime responded with status 403: no such stream\n")

    assert endpoint.address == address
    assert endpoint.transport is not None
    assert endpoint.transport.sent.split(b"\r\n")[0] == target


async def test_credentials_of_the_client_do_not_reach_the_runtime(endpoint: Endpoint, clock: FakeClock) -> None:
    protocols = "v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.secret"
    await endpoint.rejects(
        clock,
        "http://127.0.0.1:99/",
        Authorization="Bearer secret",
        Cookie="secret",
        X_Other="kept",
        Sec_WebSocket_Protocol=protocols,
    )

    assert endpoint.transport is not None
    lines = endpoint.transport.sent.split(b"\r\n")
    assert lines[1:4] == [b"Host: 127.0.0.1:99", b"X-Other: kept", b"Sec-WebSocket-Protocol: v4.channel.k8s.io"]
    assert b"secret" not in endpoint.transport.sent


async def test_protocol_that_only_carries_a_token_is_removed(endpoint: Endpoint, clock: FakeClock) -> None:
    protocols = "base64url.bearer.authorization.k8s.io.secret"

    await endpoint.rejects(clock, "http://127.0.0.1:99/", Sec_WebSocket_Protocol=protocols)

    assert endpoint.transport is not None
    assert b"Sec-WebSocket-Protocol" not in endpoint.transport.sent


@pytest.mark.parametrize("url", ["https://127.0.0.1/", "http:///exec", "unix:///run/a"])
async def test_only_plain_http_endpoints_are_connected(endpoint: Endpoint, clock: FakeClock, url: str) -> None:
    text = "the runtime's streaming endpoint is not plain HTTP on this host"

    assert await endpoint.rejects(clock, url) == (502, f"{text}\n")
    with pytest.raises(UpgradeFailed, match=text):
        await open_spdy(url, ())
    assert endpoint.transport is None


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (OSError("connection refused"), "the runtime's streaming endpoint is unreachable: connection refused\n"),
        (b"nonsense\r\n\r\n", "the runtime's streaming endpoint sent a response that is not HTTP\n"),
    ],
)
async def test_unusable_endpoint_is_a_bad_gateway(
    endpoint: Endpoint, clock: FakeClock, response: bytes | OSError, text: str
) -> None:
    endpoint.response = response

    assert await endpoint.rejects(clock, "http://127.0.0.1:99/") == (502, text)


@pytest.mark.parametrize(("seconds", "ended"), [(10, [False, False, True]), (0, [False, False, False])])
async def test_idle_limit_starts_again_with_data(clock: FakeClock, seconds: float, ended: list[bool]) -> None:
    limit = IdleLimit(clock, seconds)
    waiting = asyncio.create_task(limit.wait())
    await clock.advance(6)
    limit.touch()

    found = []
    for pause in (4, 5, 1):
        await clock.advance(pause)
        found.append(waiting.done())
    waiting.cancel()

    assert found == ended
