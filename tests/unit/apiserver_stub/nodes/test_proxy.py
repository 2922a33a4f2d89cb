"""Tests for the addresses that the proxy of nodes connects to."""

from __future__ import annotations

import socket
from types import SimpleNamespace

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.nodes import proxy
from apiserver_stub.nodes.agents import Unreachable
from apiserver_stub.nodes.endpoint import Endpoint
from apiserver_stub.nodes.proxy import _checked


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[list[str]]]:
    """Return the addresses of each query, by name."""
    known: dict[str, list[list[str]]] = {}

    async def getaddrinfo(host: str, port: object, **_options: object) -> list[tuple[object, ...]]:
        if not known.get(host):
            raise socket.gaierror("no such host")
        return [(0, 0, 0, "", (address, 0)) for address in known[host].pop(0)]

    loop = SimpleNamespace(getaddrinfo=getaddrinfo)
    monkeypatch.setattr(proxy, "asyncio", SimpleNamespace(get_running_loop=lambda: loop))
    return known


async def test_address_that_was_checked_is_the_one_to_connect_to(names: dict[str, list[list[str]]]) -> None:
    names["node"] = [["192.0.2.7"], ["127.0.0.1"]]  # The second query returns another address.

    found = await _checked(Endpoint("node", 10250), by_name=False)

    assert (found.host, found.port, found.server_name) == ("192.0.2.7", 10250, "node")
    assert len(names["node"]) == 1


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "::1", "fe80::1%eth0", "0.0.0.0", "224.0.0.1"])
async def test_name_with_an_address_of_this_host_is_rejected(names: dict[str, list[list[str]]], address: str) -> None:
    names["node"] = [["192.0.2.7", address]]

    with pytest.raises(ApiError, match="address not allowed"):
        await _checked(Endpoint("node", 10250), by_name=False)


async def test_name_that_only_the_egress_proxy_knows_is_passed_on(names: dict[str, list[list[str]]]) -> None:
    endpoint = Endpoint("node", 10250)

    assert await _checked(endpoint, by_name=True) == endpoint
    with pytest.raises(Unreachable, match="lookup node"):
        await _checked(endpoint, by_name=False)
