"""Tests for the selection of a proxy from the environment."""

from __future__ import annotations

import pytest

from nodeagent.base.proxy import proxy_from_environment, proxy_problem

PROXIES = {"HTTPS_PROXY": "http://secure:3128", "HTTP_PROXY": "http://plain:3128"}


@pytest.mark.parametrize(
    ("server", "proxy"),
    [
        ("https://api.example.com:6443", "http://secure:3128"),
        ("http://api.example.com:8080", "http://plain:3128"),
        ("https://127.0.0.2:6443", ""),
        ("https://localhost:6443", ""),
        ("https://[::1]:6443", ""),
    ],
)
def test_variable_follows_the_scheme_and_loopback_is_direct(server, proxy):
    assert proxy_from_environment(server, PROXIES) == proxy


@pytest.mark.parametrize(
    ("exceptions", "direct"),
    [
        ("*", True),
        ("example.com", True),
        (".example.com", True),
        ("*.example.com", True),
        ("API.EXAMPLE.COM", True),
        ("other.com, api.example.com:6443", True),
        ("api.example.com:443", False),
        (".api.example.com", False),
        ("ample.com", False),
        ("", False),
    ],
)
def test_no_proxy_excludes_names(exceptions, direct):
    found = proxy_from_environment("https://api.example.com:6443", {**PROXIES, "NO_PROXY": exceptions})

    assert (found == "") == direct


@pytest.mark.parametrize(
    ("exceptions", "direct"),
    [("192.0.2.0/24", True), ("192.0.2.7", True), ("192.0.2.7:6443", True), ("192.0.2.7:1", False)],
)
def test_no_proxy_excludes_addresses_and_networks(exceptions, direct):
    found = proxy_from_environment("https://192.0.2.7:6443", {**PROXIES, "no_proxy": exceptions})

    assert (found == "") == direct


def test_lower_case_variable_without_scheme_is_an_http_proxy():
    assert proxy_from_environment("https://api", {"https_proxy": "proxy:3128"}) == "http://proxy:3128"


@pytest.mark.parametrize(
    ("url", "valid"),
    [
        ("https://u:p@proxy", True),
        ("http://proxy:1", True),
        ("http://proxy:0", False),
        ("http://proxy:65536", False),
        ("ftp://proxy", False),
        ("http://", False),
    ],
)
def test_proxy_url_is_validated(url, valid):
    assert (proxy_problem(url) == "") == valid


def test_socks_proxy_is_reported_as_unsupported():
    assert "SOCKS" in proxy_problem("socks5://proxy:1080")
