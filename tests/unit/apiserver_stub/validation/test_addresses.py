"""Tests for the parsing of IP addresses."""

from __future__ import annotations

import pytest

from apiserver_stub.validation.addresses import parse_address


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("010.0.0.001", "10.0.0.1"),
        ("fd00::5", "fd00::5"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1%eth0", "None"),
        ("300.0.0.1", "None"),
        ("10.0.0", "None"),
        ("10.0.0.1/8", "None"),
        ("", "None"),
        ("::", "::"),
    ],
)
def test_addresses_as_in_go(text: str, parsed: str) -> None:
    assert str(parse_address(text)) == parsed
