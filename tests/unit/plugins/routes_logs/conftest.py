"""Requests to handlers without a connection."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.test_utils import make_mocked_request

from nodeagent.contracts.server import SENT_BYTES, SentBytes


class Body(AbstractStreamWriter):
    """Collects what a handler sends."""

    def __init__(self) -> None:
        self.sent = b""
        self.headers: dict[str, str] = {}
        self.compressed = False

    async def write(self, chunk: bytes | bytearray | memoryview) -> None:
        self.sent += bytes(chunk)

    async def write_eof(self, chunk: bytes = b"") -> None:
        self.sent += chunk

    async def drain(self) -> None:
        pass

    def enable_compression(self, encoding: str = "deflate", strategy: int | None = None) -> None:
        self.compressed = True

    def enable_chunking(self) -> None:
        pass

    async def write_headers(self, status_line: str, headers: Any) -> None:
        self.headers = dict(headers)


class Client:
    """Sends requests to a handler.

    :ivar encoding: value of the header ``Accept-Encoding``.
    :ivar counted: number of bytes that the last request counted.
    :ivar compressed: whether the last response is compressed.
    """

    def __init__(self) -> None:
        self.counted, self.encoding, self.compressed = 0, "", False
        self.headers: dict[str, str] = {}

    async def get(self, handler: Any, target: str, **info: str) -> tuple[int, str]:
        """Return status and text of the response."""
        count = SentBytes()
        token, body = SENT_BYTES.set(count), Body()
        try:
            headers = {"Accept-Encoding": self.encoding}
            request = make_mocked_request("GET", target, headers, match_info=info, writer=body)
            response = await handler(request)
        except web.HTTPException as error:
            return error.status, error.text or ""
        finally:
            SENT_BYTES.reset(token)
        self.counted, self.headers, self.compressed = count.count, body.headers, body.compressed
        text = body.sent.decode() or (response.text if isinstance(response, web.Response) else "")
        return response.status, text or ""


@pytest.fixture
def client() -> Client:
    return Client()
