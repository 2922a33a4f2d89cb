"""Tests for HTTP/2 header blocks; fields cannot inject headers or lines."""

from __future__ import annotations

import pytest

from apiserver_stub.transport.http2.header_blocks import BadHeadError, request_head, response_fields

GET = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"api:6443"), (b":path", b"/version?a=b")]


def test_request_head_has_method_target_and_headers() -> None:
    fields = [
        *GET,
        (b"accept", b"*/*"),
        (b"cookie", b"a=1"),
        (b"cookie", b"b=2"),
        (b"x-a", b"1"),
        (b"x-a", b"\xc3\xa92"),
    ]

    method, target, headers = request_head(fields)

    assert (method, target) == ("GET", "/version?a=b")
    assert sorted(headers.items()) == [
        ("Host", "api:6443"),
        ("accept", "*/*"),
        ("cookie", "a=1; b=2"),
        ("x-a", "1"),
        ("x-a", "é2"),
    ]
    assert headers["Accept"] == "*/*"


def test_host_header_replaces_a_missing_authority() -> None:
    fields = [(b":method", b"GET"), (b":path", b"/"), (b"host", b"one")]
    assert request_head(fields).headers.getall("Host") == ["one"]
    assert request_head([*GET, (b"host", b"one")]).headers.getall("Host") == ["api:6443"]


@pytest.mark.parametrize(
    "field",
    [
        (b"a", b"b\r\nc: d"),
        (b"a", b"b\nc: d"),
        (b"a", b"b\0"),
        (b"a", b"b\x1b"),
        (b"a: b\r\nc", b"d"),
        (b"a b", b"c"),
        (b"", b"c"),
        (b"transfer-encoding", b"chunked"),
        (b"connection", b"close"),
        (b"content-length", b"+5"),
        (b":path", b"/ HTTP/1.1\r\n\r\nGET /"),
        (b":path", b"/a b"),
        (b":path", b"https://other/"),
        (b":path", b""),
        (b":authority", b"a\r\nb: c"),
        (b":method", b"GET /x HTTP/1.1"),
        (b":method", b""),
    ],
)
def test_invalid_fields_are_rejected(field: tuple[bytes, bytes]) -> None:
    with pytest.raises(BadHeadError):
        request_head([*GET, field])


def test_second_content_length_is_rejected() -> None:
    assert request_head([*GET, (b"content-length", b"5")]).headers["Content-Length"] == "5"
    with pytest.raises(BadHeadError):
        request_head([*GET, (b"content-length", b"5"), (b"content-length", b"5")])


def test_connection_headers_of_a_response_are_removed() -> None:
    headers = [("Content-Type", "text/plain"), ("Transfer-Encoding", "chunked"), ("Connection", "close"), ("Date", "x")]

    fields = response_fields(200, headers, 5)

    assert fields == [
        (b":status", b"200"),
        (b"content-type", b"text/plain"),
        (b"date", b"x"),
        (b"content-length", b"5"),
    ]
    assert b"content-length" not in dict(response_fields(204, [], 0))
