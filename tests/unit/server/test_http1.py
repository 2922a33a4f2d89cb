"""Tests for the HTTP/1.1 connections of the ports without TLS."""

from __future__ import annotations

import asyncio

import pytest

from nodeagent.server.http1 import MAX_HEAD_BYTES, BadRequest, ServerSide
from tests.request_smuggling import REQUESTS


class Writer:
    """Writer that drops the responses."""

    def write(self, data: bytes) -> None:
        pass

    async def drain(self) -> None:
        pass


async def targets(data: bytes) -> list[str]:
    """Return the targets of the requests in *data*, up to an invalid one."""
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    side = ServerSide(reader, Writer())
    found = []
    try:
        while (request := await side.request()) is not None:
            found.append(request[1])
            await side.respond(200, "ok")
    except BadRequest:
        pass
    return found


@pytest.mark.parametrize("request_bytes", REQUESTS.values(), ids=REQUESTS)
async def test_request_after_an_ambiguous_one_is_not_served(request_bytes):
    assert "/smuggled" not in await targets(request_bytes)


async def test_endless_head_is_rejected():
    assert await targets(b"GET / HTTP/1.1\r\nX: " + b"x" * 2 * MAX_HEAD_BYTES) == []
