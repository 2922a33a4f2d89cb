"""Tests for the address that the server advertises."""

from __future__ import annotations

import socket
from collections.abc import Mapping

import pytest

from apiserver_stub.options import parse
from apiserver_stub.server.advertised_address import advertised_address


class Probe:
    """Datagram socket on a host with *addresses* of the interface of the default route, by address family."""

    def __init__(self, addresses: Mapping[int, str], family: int) -> None:
        self._address = addresses.get(family)

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def connect(self, remote: tuple[str, int]) -> None:
        if self._address is None:
            raise OSError("Network is unreachable")

    def getsockname(self) -> tuple[str | None, int]:
        return self._address, 1


BOTH = {socket.AF_INET: "192.0.2.7", socket.AF_INET6: "2001:db8::7"}


@pytest.mark.parametrize(
    ("arguments", "routes", "expected"),
    [
        (["--bind-address=192.0.2.1", "--advertise-address=192.0.2.2"], BOTH, "192.0.2.2"),
        (["--bind-address=192.0.2.1"], BOTH, "192.0.2.1"),
        (["--bind-address=0.0.0.0"], BOTH, "192.0.2.7"),
        (["--bind-address=::"], BOTH, "2001:db8::7"),
        (["--bind-address=0.0.0.0"], {}, "127.0.0.1"),
        (["--bind-address=::"], {}, "::1"),
    ],
)
def test_address_is_configured_or_that_of_the_default_route(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], routes: Mapping[int, str], expected: str
) -> None:
    monkeypatch.setattr(socket, "socket", lambda family, kind: Probe(routes, family))

    assert advertised_address(parse(arguments)) == expected
