"""Tests for the parsing of IP addresses."""

from __future__ import annotations

import pytest

from apiserver_stub.validation.addresses import family, parse_address, parse_cidr, validate_remote_address


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
        ("fd00::00005", "fd00::5"),
        ("::ffff:010.0.0.1", "10.0.0.1"),
    ],
)
def test_address_is_parsed_as_by_go(text: str, parsed: str) -> None:
    assert str(parse_address(text)) == parsed


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("10.0.0.1/8", "10.0.0.0/8"),
        ("010.0.0.0/08", "10.0.0.0/8"),
        ("fd00::1/64", "fd00::/64"),
        ("10.0.0.0/33", "None"),
        ("10.0.0.0/", "None"),
        ("10.0.0.0", "None"),
        ("10.0.0.0/+8", "None"),
    ],
)
def test_cidr_is_parsed_as_by_go(text: str, parsed: str) -> None:
    assert str(parse_cidr(text)) == parsed


def test_ipv4_mapped_cidr_is_ipv4() -> None:
    assert [family(block) for text in ("::ffff:10.0.0.0/104", "fd00::/64") if (block := parse_cidr(text))] == [
        "IPv4",
        "IPv6",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("10.0.0.1", ""),
        ("x", "must be a valid IP address"),
        ("0.0.0.0", "may not be unspecified (0.0.0.0)"),
        ("::ffff:127.0.0.1", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        ("fe80::1", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        ("ff05::2", ""),
        ("fd02::1", ""),
        ("ff12::1", "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ],
)
def test_remote_address_names_another_host(text: str, problem: str) -> None:
    causes = validate_remote_address(text, "ip")

    assert [cause.message.partition(f'"{text}": ')[2] for cause in causes] == [problem] * bool(problem)
