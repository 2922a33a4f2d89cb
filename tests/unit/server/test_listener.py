"""Tests for listening sockets and the limits of connections."""

from __future__ import annotations

import socket

import pytest

from nodeagent.server import listener as module
from nodeagent.server.listener import MAX_CONNECTIONS, MAX_CONNECTIONS_PER_ADDRESS, Listener, bind


@pytest.mark.parametrize(
    ("address", "dual_stack", "family", "bound"),
    [
        ("0.0.0.0", True, socket.AF_INET6, "::"),
        ("::", True, socket.AF_INET6, "::"),
        ("0.0.0.0", False, socket.AF_INET, "0.0.0.0"),
        ("127.0.0.1", True, socket.AF_INET, "127.0.0.1"),
        ("::1", True, socket.AF_INET6, "::1"),
    ],
)
def test_unspecified_address_listens_on_all_families(monkeypatch, address, dual_stack, family, bound):
    created = []

    def create_server(where, **options):
        created.append((where[0], options["family"], options.get("dualstack_ipv6", False)))
        return socket.socket()

    monkeypatch.setattr(module.socket, "has_dualstack_ipv6", lambda: dual_stack)
    monkeypatch.setattr(module.socket, "create_server", create_server)
    with bind(address, 0) as opened:
        assert not opened.getblocking()
    assert created == [(bound, family, dual_stack and bound == "::")]


def make_listener():
    async def protocol(_on_close):
        raise AssertionError

    return Listener("127.0.0.1", 0, protocol)


def test_connections_are_limited_per_address_and_in_total(caplog):
    listener = make_listener()
    assert all(listener._within_limits("a") for _ in range(MAX_CONNECTIONS_PER_ADDRESS))
    assert not listener._within_limits("a") and not listener._within_limits("a")
    assert caplog.messages == ["Rejecting new connections, limit reached"]

    assert all(listener._within_limits("b") for _ in range(MAX_CONNECTIONS - MAX_CONNECTIONS_PER_ADDRESS))
    assert not listener._within_limits("c")
    listener._release("b")
    assert listener._within_limits("c")
    assert not listener._within_limits("c")


def test_addresses_without_connections_are_dropped():
    listener = make_listener()
    for _ in range(2):
        listener._within_limits("a")
    listener._release("a")
    assert dict(listener._by_address) == {"a": 1}
    listener._release("a")
    assert dict(listener._by_address) == {}
