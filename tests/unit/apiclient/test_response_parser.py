"""Tests for the parser of responses on one connection."""

from __future__ import annotations

import pytest

from nodeagent.apiclient.response_parser import MAX_HEAD_BYTES, ResponseParser
from nodeagent.apiclient.transport import ConnectionLost

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def parsed(*pieces: bytes) -> ResponseParser:
    parser = ResponseParser()
    parser.expect()
    for piece in pieces:
        parser.feed(piece)
    return parser


def test_response_is_parsed_byte_by_byte() -> None:
    parser = parsed(*(OK[index : index + 1] for index in range(len(OK))))

    assert parser.head is not None
    assert (parser.head.status, parser.head.headers) == (200, {"content-length": "2"})
    assert (bytes(parser.body), parser.complete, parser.reusable) == (b"ok", True, True)


def test_next_response_starts_without_the_previous_one() -> None:
    parser = parsed(OK)
    parser.expect()
    before = (parser.head, bytes(parser.body), parser.complete)
    parser.feed(b"HTTP/1.1 404 Not Found\r\nX: y\r\nContent-Length: 0\r\n\r\n")

    assert before == (None, b"", False)
    assert parser.head is not None
    assert (parser.head.status, parser.head.headers) == (404, {"x": "y", "content-length": "0"})
    assert parser.reusable


@pytest.mark.parametrize(
    "response",
    [
        OK + b"more",
        OK + OK,
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok",
    ],
    ids=["excess", "second", "close", "old", "incomplete"],
)
def test_connection_is_not_reusable_after_other_data_or_a_close(response: bytes) -> None:
    parser = parsed(response)

    assert bytes(parser.body) == b"ok"
    assert not parser.reusable


def test_end_of_the_connection_is_that_of_a_body_without_length() -> None:
    parser = parsed(b"HTTP/1.1 200 OK\r\n\r\nsome")
    complete = parser.complete
    parser.feed(b" text")
    parser.feed(b"")

    assert not complete
    assert (bytes(parser.body), parser.complete, parser.reusable) == (b"some text", True, False)


@pytest.mark.parametrize(
    ("pieces", "problem"),
    [
        ([b""], "server disconnected"),
        ([b"HTTP/1.1 200 OK\r\nA: b", b""], "server disconnected"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok", b""], "invalid response: .*closed before"),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok", b""], "invalid response: .*closed before"),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n"], "invalid response"),
        ([b"SSH-2.0-x\r\n"], "invalid response: Expected HTTP/"),
        ([b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"], "invalid response"),
        ([b"HTTP/1.1 101 Switching Protocols\r\n\r\n"], "invalid response"),
        (
            [b"HTTP/1.1 200 OK\r\n", *[b"A: " + b"x" * 1000 + b"\r\n"] * (MAX_HEAD_BYTES // 1000 + 1)],
            "the head is over",
        ),
        ([b"HTTP/1.1 100 Continue\r\n\r\n" * (MAX_HEAD_BYTES // 25 + 1)], "the head is over"),
    ],
)
def test_invalid_response_is_a_lost_connection(pieces: list[bytes], problem: str) -> None:
    with pytest.raises(ConnectionLost, match=problem):
        parsed(*pieces)


@pytest.mark.parametrize("status", [204, 304])
def test_some_statuses_have_no_body(status: int) -> None:
    parser = parsed(b"HTTP/1.1 %d X\r\n\r\n" % status)

    assert (bytes(parser.body), parser.complete, parser.reusable) == (b"", True, True)
