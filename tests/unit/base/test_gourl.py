"""Tests for the URL parser; the expected results are those of Go's net/url."""

from __future__ import annotations

import pytest

from nodeagent.base import gourl
from nodeagent.base.gourl import InvalidUrl, Url


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://example.com:8443/a?b#c", Url("https", "", None, "example.com:8443", "/a", "b", "c")),
        ("HTTPS://u:p@[::1]:1/", Url("https", "", "u:p", "[::1]:1", "/")),
        ("https://[fe80::1%25eth0]/", Url("https", "", None, "[fe80::1%25eth0]", "/")),
        ("mailto:a@b", Url("mailto", "a@b")),
        ("a.b/c", Url(path="a.b/c")),
        ("*", Url(path="*")),
        ("", Url()),
        ("https://é/", Url("https", host="é", path="/")),
        ("///a", Url(path="///a")),
        ("https://a%25b/", Url("https", host="a%25b", path="/")),
        ("https://a%80b/", Url("https", host="a%80b", path="/")),
        ("https://[::1]/", Url("https", host="[::1]", path="/")),
        ("a?", Url(path="a")),
    ],
)
def test_valid_url_is_split(text: str, url: Url) -> None:
    assert gourl.parse(text) == url


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a\nb", "net/url: invalid control character in URL"),
        (":80", "missing protocol scheme"),
        ("10.0.0.1:80", "first path segment in URL cannot contain colon"),
        ("https://a:port/", 'invalid port ":port" after host'),
        ("https://a b/", 'invalid character " " in host name'),
        ("https://[::1", "missing ']' in host"),
        ("https://a%20b", 'invalid URL escape "%20"'),
        ("https://a%7fb", 'invalid URL escape "%7f"'),
        ("https://a%b", 'invalid URL escape "%b"'),
        ("https://[a b%25eth0]/", 'invalid character " " in host name'),
        ("https://[::1]x/", 'invalid port "x" after host'),
        ("https://a/%zz", 'invalid URL escape "%zz"'),
        ("https://a{@b/", "net/url: invalid userinfo"),
    ],
)
def test_invalid_url_is_rejected_with_the_text_of_go(text: str, problem: str) -> None:
    with pytest.raises(InvalidUrl) as raised:
        gourl.parse(text)

    assert str(raised.value).endswith(f'": {problem}')


def test_request_target_is_an_absolute_url_or_path() -> None:
    assert gourl.parse_request("/a?b=c").path == "/a"
    assert gourl.parse_request("https://host/a").host == "host"
    assert gourl.parse_request("*").path == "*"
    for text, problem in [
        ("", "empty url"),
        ("a/b", "invalid URI for request"),
        ("host", "invalid URI for request"),
        (":a", "missing protocol scheme"),
    ]:
        with pytest.raises(InvalidUrl) as caught:
            gourl.parse_request(text)
        assert str(caught.value) == f'parse "{text}": {problem}'
