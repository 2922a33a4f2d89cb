"""Tests for the address of the runtime's streaming endpoint."""

from __future__ import annotations

import pytest

from nodeagent.base.spdy_streams import UpgradeFailed
from nodeagent_plugins.routes_exec import spdy_client
from nodeagent_plugins.routes_exec.spdy_client import open_spdy


@pytest.fixture
def connected(monkeypatch):
    """Return the addresses of connections and the heads of requests."""
    found = []

    async def open_connection(host, port):
        found.append((host, port))
        return None, None

    async def upgrade(_reader, _writer, head, _protocols, _peer):
        found.extend(head)

    monkeypatch.setattr(spdy_client.asyncio, "open_connection", open_connection)
    monkeypatch.setattr(spdy_client, "upgrade", upgrade)
    return found


@pytest.mark.parametrize(
    ("url", "address", "target", "host"),
    [
        ("http://127.0.0.1:4567/exec/token", ("127.0.0.1", 4567), "/exec/token", "127.0.0.1:4567"),
        ("http://localhost/exec?a=b", ("localhost", 80), "/exec?a=b", "localhost"),
        ("http://[::1]:1/", ("::1", 1), "/", "[::1]:1"),
    ],
)
async def test_request_is_sent_to_the_address_of_the_url(connected, url, address, target, host):
    await open_spdy(url, ["a"])
    assert connected == [address, f"POST {target} HTTP/1.1", f"Host: {host}"]


@pytest.mark.parametrize("url", ["https://127.0.0.1/x", "http:///x", "/x"])
async def test_endpoint_has_to_be_plain_http(connected, url):
    with pytest.raises(UpgradeFailed, match="is not plain HTTP on this host"):
        await open_spdy(url, ["a"])
    assert connected == []


async def test_unreachable_endpoint_is_an_error(monkeypatch):
    async def fail(_host, _port):
        raise ConnectionRefusedError("refused")

    monkeypatch.setattr(spdy_client.asyncio, "open_connection", fail)
    with pytest.raises(UpgradeFailed, match="is unreachable: refused"):
        await open_spdy("http://127.0.0.1:1/x", ["a"])
