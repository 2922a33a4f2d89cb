"""Tests for the exchange of probes: usual responses are parsed as h11 parses them, and all others by h11."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import h11
import pytest

from nodeagent_plugins.probes import exchange as module
from nodeagent_plugins.probes.exchange import Response, encode_request, exchange

USUAL = [
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more",
    b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
    b"HTTP/1.0 500 Internal Server Error\r\nServer: x\r\ncontent-length:0\r\n\r\n",
    b"HTTP/1.1 302 Found\r\nLocation: \t/next \r\nLocation: /other\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 404\r\nX-Empty:\r\nConnection: close\r\nContent-Length: 3\r\n\r\nno!",
    b"HTTP/1.1 200 OK\r\nContent-Length: 50000\r\n\r\n" + b"x" * 50_000,
]
OTHERS = [
    b"HTTP/1.1 200 OK\r\n\r\nuntil the end",
    b"HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\nabc",
    b"HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nX: folded\r\n value\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 200 \xc3\xa4\r\nX: \xff\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
    b"HTTP/1.1 200 OK\r\nBad Name: x\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nX : y\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\nX: \0\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 600 OK\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 201 + b"Content-Length: 2\r\n\r\nok",
    b"SSH-2.0-x\r\n",
    b"",
]


class Writer:
    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data


class Connection:
    def __init__(self, *pieces: bytes) -> None:
        self.reader, self.writer = asyncio.StreamReader(), Writer()
        for piece in pieces:
            self.reader.feed_data(piece)
        self.reader.feed_eof()


async def result(raw: bytes) -> Response | str:
    connection: Any = Connection(raw)
    try:
        return await exchange(connection, b"GET / HTTP/1.1\r\n\r\n")
    except (ValueError, EOFError) as error:
        return repr(error)


@pytest.mark.parametrize("raw", [*USUAL, *OTHERS])
async def test_every_response_is_parsed_as_by_h11(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    found = await result(raw)
    monkeypatch.setattr(module, "_USUAL", re.compile(rb"(?!)"))

    assert found == await result(raw)


@pytest.mark.parametrize("raw", USUAL)
async def test_usual_responses_do_not_need_h11(raw: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(h11, "Connection")

    assert isinstance(await result(raw), Response)


async def test_body_is_read_to_its_end() -> None:
    connection: Any = Connection(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
    connection.reader = asyncio.StreamReader()
    connection.reader.feed_data(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")

    task = asyncio.create_task(exchange(connection, b""))
    await asyncio.sleep(0)
    connection.reader.feed_data(b"cd")

    assert (await task).body == b"abcd"


def test_request_has_one_host_and_stripped_values() -> None:
    headers = [("X-A", " b "), ("Host", "one"), ("host", "two"), ("Connection", "close")]

    assert encode_request("/a?b", headers) == (b"GET /a?b HTTP/1.1\r\nHost: one\r\nX-A: b\r\nConnection: close\r\n\r\n")
