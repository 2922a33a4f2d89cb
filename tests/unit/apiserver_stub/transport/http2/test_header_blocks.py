"""Tests for the conversion of HTTP/2 header blocks to HTTP/1.1; fields cannot inject lines."""

from __future__ import annotations

import pytest

from apiserver_stub.transport.http2.header_blocks import BadHeadError, request_lines, response_fields

GET = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"api:6443"), (b":path", b"/version?a=b")]


def test_request_is_converted_to_http_1() -> None:
    fields = [*GET, (b"accept", b"*/*"), (b"cookie", b"a=1"), (b"cookie", b"b=2")]
    lines = b"GET /version?a=b HTTP/1.1\r\nhost: api:6443\r\naccept: */*\r\ncookie: a=1; b=2\r\n\r\n"
    assert request_lines(fields, body=False) == (lines, False)


def test_body_is_chunked_unless_it_has_a_length() -> None:
    assert request_lines(GET, body=True)[1]
    assert b"transfer-encoding: chunked\r\n" in request_lines(GET, body=True)[0]
    lines, chunked = request_lines([*GET, (b"content-length", b"3")], body=True)
    assert not chunked
    assert b"content-length: 3\r\n" in lines and b"transfer-encoding" not in lines


def test_host_header_replaces_a_missing_authority() -> None:
    fields = [(b":method", b"GET"), (b":path", b"/"), (b"host", b"one")]
    assert b"host: one\r\n" in request_lines(fields, body=False)[0]
    assert b"host: api:6443\r\n" in request_lines([*GET, (b"host", b"one")], body=False)[0]


@pytest.mark.parametrize(
    "field",
    [
        (b"a", b"b\r\nc: d"),
        (b"a", b"b\nc: d"),
        (b"a", b"b\0"),
        (b"a: b\r\nc", b"d"),
        (b"a b", b"c"),
        (b"", b"c"),
        (b"transfer-encoding", b"chunked"),
        (b"connection", b"close"),
        (b":path", b"/ HTTP/1.1\r\n\r\nGET /"),
        (b":path", b"/a b"),
        (b":path", b"https://other/"),
        (b":path", b""),
        (b":authority", b"a\r\nb: c"),
        (b":method", b"GET /x HTTP/1.1"),
        (b":method", b""),
    ],
)
def test_fields_with_line_breaks_are_rejected(field: tuple[bytes, bytes]) -> None:
    with pytest.raises(BadHeadError):
        request_lines([*GET, field], body=False)


def test_connection_headers_of_a_response_are_removed() -> None:
    headers = [(b"Content-Type", b"text/plain"), (b"Transfer-Encoding", b"chunked"), (b"Audit-Id", b"x")]
    fields = [(b":status", b"200"), (b"content-type", b"text/plain"), (b"audit-id", b"x")]
    assert response_fields(200, headers) == (fields, False)
    assert response_fields(429, [(b"Connection", b"Close")]) == ([(b":status", b"429")], True)
    assert response_fields(200, [(b"Connection", b"keep-alive")]) == ([(b":status", b"200")], False)
