"""Tests for the detection of node addresses."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from nodeagent.node import addresses
from nodeagent.node.addresses import NodeAddresses, find_ips, usable
from nodeagent.testing import FakeClock


def test_configured_addresses_are_used_unchanged() -> None:
    assert find_ips("n", [ip_address("10.0.0.1"), ip_address("fd00::1")]) == ["10.0.0.1", "fd00::1"]


@pytest.mark.parametrize("text", ["127.0.0.1", "169.254.1.1", "224.0.0.1", "0.0.0.0", "::1", "fe80::1"])
def test_unreachable_addresses_are_skipped(text: str) -> None:
    assert not usable(ip_address(text))


def test_node_name_that_is_a_remote_address_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "_from_routes", lambda family: [])

    assert find_ips("203.0.113.77", []) == []


def test_unspecified_address_selects_the_family(monkeypatch: pytest.MonkeyPatch) -> None:
    families: list[int] = []
    monkeypatch.setattr(addresses, "_from_name", lambda name, family: [])
    monkeypatch.setattr(addresses, "_from_routes", lambda family: families.append(family) or [])

    find_ips("n", [ip_address("::")])

    assert families == [6]


async def test_addresses_are_refreshed_and_kept_if_detection_fails(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = [["10.0.0.1"], [], ["10.0.0.2"]]
    monkeypatch.setattr(addresses, "find_ips", lambda name, given: results.pop(0))
    found = NodeAddresses("n", [], clock)
    seen = []
    for _ in range(5):
        seen.append([address.address for address in await found.current()])
        await clock.advance(30)

    assert seen == [["10.0.0.1", "n"]] * 4 + [["10.0.0.2", "n"]]


async def test_failed_detection_is_logged_once(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    results = [["10.0.0.1"], [], [], ["10.0.0.2"], []]
    monkeypatch.setattr(addresses, "find_ips", lambda name, given: results.pop(0))
    found = NodeAddresses("n", [], clock)
    logged = []
    while results:
        await found.current()
        logged.append(len(caplog.records))
        await clock.advance(60)

    assert logged == [0, 1, 1, 1, 2]
    assert caplog.messages[0] == "Failed to detect node addresses"
