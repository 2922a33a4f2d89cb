"""Tests for the warnings about addresses: the errors of Go's strict parser, and forms that are not canonical."""

from __future__ import annotations

import pytest

from apiserver_stub.validation.address_warnings import cidr_warnings, ip_warnings

_IP = "f: IP address was accepted, but will be invalid in a future Kubernetes release: "
_CIDR = "f: IP prefix was accepted, but will be invalid in a future Kubernetes release: "


@pytest.mark.parametrize("text", ["10.0.0.1", "fd00::1", "::", "fe80::1%eth0", "::ffff:10.0.0.1", "1:2:3:4:5:6:7:0"])
def test_canonical_address_has_no_warning(text: str) -> None:
    assert ip_warnings("f", text) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("abc", "unable to parse IP"),
        ("%eth0", "missing IPv6 address"),
        ("010.0.0.1", "IPv4 field has octet with leading zero"),
        ("10.0.0.256", "IPv4 field has value >255"),
        ("10..0.1", 'IPv4 field must have at least one digit (at ".0.1")'),
        ("10.0.0.1.2", "IPv4 address too long"),
        ("10.0.0", "IPv4 address too short"),
        ("10.0.0.1:80", 'unexpected character (at ":80")'),
        ("fe80::1%", "zone must be a non-empty string"),
        ("12345::", 'IPv6 field has value >=2^16 (at "12345::")'),
        (":1", 'each colon-separated field must have at least one digit (at ":1")'),
        ("1:2.3.4.5", 'embedded IPv4 address must replace the final 2 fields of the address (at "2.3.4.5")'),
        ("::1.2.3", 'ParseAddr("1.2.3"): IPv4 address too short (at "1.2.3")'),
        ("1:g", 'each colon-separated field must have at least one digit (at "g")'),
        ("1g:2", 'unexpected character, want colon (at "g:2")'),
        ("1:2:", 'colon must be followed by more characters (at ":")'),
        ("1::2::3", 'multiple :: in address (at ":3")'),
        ("1:2:3:4:5:6:7:8:9", 'trailing garbage after address (at "9")'),
        ("1:2", "address string too short"),
        ("1:2:3:4::5:6:7:8", "the :: must expand to at least one field of zeros"),
    ],
)
def test_address_that_go_rejects_has_the_error_of_go(text: str, problem: str) -> None:
    assert ip_warnings("f", text) == [f'{_IP}ParseAddr("{text}"): {problem}']


def test_warning_of_address_contains_the_canonical_form() -> None:
    assert ip_warnings("f", "FD00::01") == [
        'f: IPv6 address "FD00::01" is not in RFC 5952 canonical format ("fd00::1"), which may cause controller '
        "apply-loops"
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("10.0.0.0/8", ""),
        ("10.0.0.0", "no '/'"),
        ("10.0.0/8", 'ParseAddr("10.0.0"): IPv4 address too short'),
        ("fe80::%a/8", "IPv6 zones cannot be present in a prefix"),
        ("10.0.0.0/x", 'bad bits after slash: "x"'),
        ("10.0.0.0/33", "prefix length out of range"),
    ],
)
def test_cidr_that_go_rejects_has_the_error_of_go(text: str, problem: str) -> None:
    expected = [f'{_CIDR}netip.ParsePrefix("{text}"): {problem}'] if problem else []

    assert cidr_warnings("f", text) == expected


def test_warning_of_cidr_contains_the_canonical_form() -> None:
    (warning,) = cidr_warnings("f", "fd00:0::/64")

    assert warning.startswith('f: IPv6 prefix "fd00:0::/64" is not in RFC 5952 canonical format ("fd00::/64")')
