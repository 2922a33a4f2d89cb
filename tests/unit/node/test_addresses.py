"""The node's addresses: those given, else the name's or the default route's, as long as they are this machine's."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from nodeagent.node import addresses
from nodeagent.node.addresses import NodeAddresses, find_ips, usable
from nodeagent.testing import FakeClock


def test_given_addresses_are_taken_as_they_are() -> None:
    assert find_ips("n", [ip_address("10.0.0.1"), ip_address("fd00::1")]) == ["10.0.0.1", "fd00::1"]


@pytest.mark.parametrize("text", ["127.0.0.1", "169.254.1.1", "224.0.0.1", "0.0.0.0", "::1", "fe80::1"])
def test_addresses_nobody_else_reaches_are_passed_over(text: str) -> None:
    assert not usable(ip_address(text))


def test_a_name_that_is_an_address_of_another_machine_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "_from_routes", lambda family: [])

    assert find_ips("203.0.113.77", []) == []


def test_an_unspecified_address_chooses_the_family(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(addresses, "_from_name", lambda name, family: [])
    monkeypatch.setattr(addresses, "_from_routes", lambda family: asked.append(family) or [])

    find_ips("n", [ip_address("::")])

    assert asked == [6]


async def test_looks_again_now_and_then_and_keeps_what_was_found(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = [["10.0.0.1"], [], ["10.0.0.2"]]
    monkeypatch.setattr(addresses, "find_ips", lambda name, given: answers.pop(0))
    found = NodeAddresses("n", [], clock)
    seen = []
    for _ in range(5):
        seen.append([address.address for address in await found.current()])
        await clock.advance(30)

    assert seen == [["10.0.0.1", "n"]] * 4 + [["10.0.0.2", "n"]]
