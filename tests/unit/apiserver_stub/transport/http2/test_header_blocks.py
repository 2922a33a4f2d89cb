"""Fields become lines and lines fields, and no field becomes more than one line."""

from __future__ import annotations

import pytest

from apiserver_stub.transport.http2.header_blocks import BadHeadError, answer_fields, request_lines

GET = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"api:6443"), (b":path", b"/version?a=b")]


def test_a_request_is_written_as_http_1() -> None:
    fields = [*GET, (b"accept", b"*/*"), (b"cookie", b"a=1"), (b"cookie", b"b=2")]
    lines = b"GET /version?a=b HTTP/1.1\r\nhost: api:6443\r\naccept: */*\r\ncookie: a=1; b=2\r\n\r\n"
    assert request_lines(fields, body=False) == (lines, False)


def test_a_body_goes_in_chunks_unless_its_length_is_told() -> None:
    assert request_lines(GET, body=True)[1]
    assert b"transfer-encoding: chunked\r\n" in request_lines(GET, body=True)[0]
    lines, chunked = request_lines([*GET, (b"content-length", b"3")], body=True)
    assert not chunked
    assert b"content-length: 3\r\n" in lines and b"transfer-encoding" not in lines


def test_the_host_may_be_a_field_of_its_own() -> None:
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
def test_what_would_be_another_line_is_refused(field: tuple[bytes, bytes]) -> None:
    with pytest.raises(BadHeadError):
        request_lines([*GET, field], body=False)


def test_an_answer_loses_what_is_about_its_connection() -> None:
    headers = [(b"Content-Type", b"text/plain"), (b"Transfer-Encoding", b"chunked"), (b"Audit-Id", b"x")]
    fields = [(b":status", b"200"), (b"content-type", b"text/plain"), (b"audit-id", b"x")]
    assert answer_fields(200, headers) == (fields, False)
    assert answer_fields(429, [(b"Connection", b"Close")]) == ([(b":status", b"429")], True)
    assert answer_fields(200, [(b"Connection", b"keep-alive")]) == ([(b":status", b"200")], False)
