"""Tests for the way to a server: request targets and headers, directly, through a proxy and through its tunnel."""

from __future__ import annotations

import errno
from urllib.parse import urlsplit

import pytest

from nodeagent.apiclient import dial as dial_module
from nodeagent.apiclient.dial import _failures_to_connect, _open_tunnel, dial
from nodeagent.apiclient.route import route
from nodeagent.apiclient.transport import ConnectionLost
from tests.unit.apiclient.streams import PreparedServer

CREDENTIALS = {"Proxy-Authorization": "Basic dTpwQHc="}


@pytest.mark.parametrize(
    ("server", "proxy", "target", "headers"),
    [
        ("http://a:81/b", "", "/b/x", {"Host": "a:81"}),
        ("https://a/b", "", "/b/x", {"Host": "a"}),
        ("https://u:p@a", "", "/x", {"Host": "a"}),
        ("http://a/b", "http://p:80", "http://a/b/x", {"Host": "a"}),
        ("http://a/b", "http://u:p%40w@p:80", "http://a/b/x", {"Host": "a", **CREDENTIALS}),
        ("https://a/b", "http://u:p%40w@p:80", "/b/x", {"Host": "a"}),
    ],
    ids=["direct", "tls", "user", "proxy", "proxy user", "tunnel"],
)
def test_target_and_headers_depend_on_the_proxy(server: str, proxy: str, target: str, headers: dict[str, str]) -> None:
    way = route(server, proxy)

    assert (way.target("/x"), way.headers()) == (target, headers)


@pytest.mark.parametrize(
    ("server", "target"),
    [("https://a", "a:443"), ("https://a:6443/b", "a:6443"), ("https://[::1]:6443", "[::1]:6443")],
)
async def test_tunnel_is_requested_from_the_proxy(server: str, target: str) -> None:
    proxy = PreparedServer(b"HTTP/1.1 200 Connection established\r\n\r\n")

    await _open_tunnel(route(server, "http://u:p%40w@p:80"), proxy.reader, proxy.writer)

    authorization = CREDENTIALS["Proxy-Authorization"]
    expected = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nProxy-Authorization: {authorization}\r\n\r\n"
    assert proxy.request == expected


@pytest.mark.parametrize("status", [300, 407, 502])
async def test_tunnel_rejected_by_the_proxy_is_a_lost_connection(status: int) -> None:
    proxy = PreparedServer(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % status)

    with pytest.raises(ConnectionLost, match=f"proxy p: CONNECT a:443 failed with status {status}"):
        await _open_tunnel(route("https://a", "http://p:80"), proxy.reader, proxy.writer)


@pytest.mark.parametrize(("server", "proxy"), [("http://a", ""), ("http://a", "http://p")], ids=["direct", "forwarded"])
async def test_connection_without_tls_needs_no_tunnel(server: str, proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = _dialed(monkeypatch, b"")

    connection = await dial(route(server, proxy), None, "")

    assert connection.is_new
    assert (prepared.request, prepared.transport.aborted) == ("", False)


async def test_connection_is_closed_if_the_proxy_rejects_the_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = _dialed(monkeypatch, b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    with pytest.raises(ConnectionLost, match="status 403"):
        await dial(route("https://a", "http://p"), None, "")

    assert prepared.transport.aborted


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connect call failed ('10.0.0.1', 443)"), "Connection refused"),
        (OSError(-2, "Name or service not known"), "Name or service not known"),
        (OSError("Multiple exceptions"), "Multiple exceptions"),
        (OSError(), "OSError"),
        (TimeoutError(), "no connection within 10 s"),
    ],
)
def test_failed_connection_is_reported_with_its_reason(error: OSError, reason: str) -> None:
    with pytest.raises(ConnectionLost) as caught, _failures_to_connect(urlsplit("https://a:6443")):
        raise error

    text = str(caught.value)
    assert text.startswith("cannot connect to a:6443: ")
    assert reason in text
    assert "[Errno" not in text


def _dialed(monkeypatch: pytest.MonkeyPatch, received: bytes) -> PreparedServer:
    """Return the server to which each connection is established, without TLS."""
    prepared = PreparedServer(received)

    async def connect(url: object) -> None: ...

    async def open_streams(sock: object, encryption: object, name: object) -> tuple[object, object]:
        assert encryption is None
        return prepared.reader, prepared.writer

    monkeypatch.setattr(dial_module, "_connect", connect)
    monkeypatch.setattr(dial_module, "_open", open_streams)
    return prepared
