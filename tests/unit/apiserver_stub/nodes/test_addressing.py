"""Tests for the names in proxy paths and the addresses that a proxy may connect to."""

from __future__ import annotations

import pytest

from apiserver_stub.apimachinery.status import ApiError
from apiserver_stub.nodes.addressing import is_port, only_global, split_name


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("web", ("", "web", "")),
        ("web:80", ("", "web", "80")),
        ("web:", ("", "web", "")),
        ("https:web:http", ("https", "web", "http")),
        ("http:web:", ("http", "web", "")),
        (":web:80", ("", "web", "80")),
    ],
)
def test_name_has_optional_scheme_and_port(text: str, parts: tuple[str, str, str]) -> None:
    assert split_name(text, "pod") == parts


@pytest.mark.parametrize("text", ["", ":80", "https::80", "ftp:web:80", "HTTPS:web:80", "a:b:c:d"])
def test_invalid_name_is_rejected(text: str) -> None:
    with pytest.raises(ApiError) as error:
        split_name(text, "pod")

    assert (error.value.code, error.value.message) == (400, f'invalid pod request "{text}"')


@pytest.mark.parametrize("address", ["192.0.2.7", "10.0.0.1", "2001:db8::1", "::ffff:192.0.2.7", "fd00::1"])
def test_address_of_another_host_is_allowed(address: str) -> None:
    assert only_global(address) == address


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "::1",
        "::ffff:127.0.0.1",
        "169.254.169.254",
        "::ffff:169.254.169.254",
        "fe80::1",
        "224.0.0.1",
        "ff02::1",
        "0.0.0.0",
        "::",
        "::ffff:0.0.0.0",
        "255.255.255.255",
        "node",
        "",
    ],
)
def test_address_of_this_host_or_of_many_is_rejected(address: str) -> None:
    with pytest.raises(ApiError, match="address not allowed") as error:
        only_global(address)

    assert error.value.code == 400


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", True), ("65535", True), ("00080", True)]
    + [(text, False) for text in ("", "0", "65536", "000080", "-1", "8o", "٣", "http")],
)
def test_port_is_a_number_of_16_bits(text: str, expected: bool) -> None:
    assert is_port(text) is expected
