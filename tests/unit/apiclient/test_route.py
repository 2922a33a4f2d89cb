"""Tests for the way to a server: request targets and headers, directly, through a proxy and through its tunnel."""

from __future__ import annotations

import pytest

from nodeagent.apiclient.dial import _open_tunnel
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
