"""Minimal HTTP/1.1 client on one TLS connection, which sends requests unchanged."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import ssl
import time
from dataclasses import dataclass
from urllib.parse import urlparse

from tests.api_fuzz.requests import FuzzRequest

HANG_SECONDS = 60.0
_WATCH_SECONDS = 0.05
_MOST_BODY_BYTES = 64 << 20


@dataclass(frozen=True)
class Reply:
    """Response to a request; code 0: none, see *error*."""

    code: int
    body: bytes = b""
    content_type: str = ""
    seconds: float = 0.0
    error: str = ""
    hung: bool = False
    """No response for :data:`HANG_SECONDS`."""


class Connection:
    """Connection to a server, opened again after each end.

    :param ca_file: CA certificate of the server; empty: none is verified.
    """

    def __init__(self, url: str, token: str, ca_file: str) -> None:
        parts = urlparse(url)
        self._host, self._port, self._token = parts.hostname or "", parts.port or 443, token
        self._tls = ssl.create_default_context(cafile=ca_file)
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.previous: FuzzRequest | None = None
        """The request before the last one, if it used the same TLS connection."""
        self._last: FuzzRequest | None = None

    async def send(self, request: FuzzRequest) -> Reply:
        """Send a request and return its response; a watch is ended by closing the connection."""
        started = time.monotonic()
        self.previous, self._last = self._last if self._streams else None, request
        try:
            async with asyncio.timeout(HANG_SECONDS):
                reply = await self._exchange(request, started)
        except TimeoutError:
            await self.close()
            return Reply(0, seconds=time.monotonic() - started, error="hang", hung=True)
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
            await self.close()
            return Reply(0, seconds=time.monotonic() - started, error=repr(error))
        return reply

    async def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None

    async def _exchange(self, request: FuzzRequest, started: float) -> Reply:
        if self._streams is None:
            self._streams = await asyncio.open_connection(self._host, self._port, ssl=self._tls, limit=1 << 20)
        reader, writer = self._streams
        writer.write(self._head(request) + request.body)
        while True:
            code, headers = await _read_head(reader)
            if code != 100:
                break
        body, ended = b"", True
        if request.method != "HEAD" and code not in (101, 204, 304):
            limit = _WATCH_SECONDS if request.is_watch else None
            with contextlib.suppress(TimeoutError):
                ended = False
                async with asyncio.timeout(limit):
                    body = await _read_body(reader, headers)
                    ended = True
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        if not ended or code == 101 or headers.get("connection", "").lower() == "close":
            await self.close()
        return Reply(code, body, headers.get("content-type", ""), time.monotonic() - started)

    def _head(self, request: FuzzRequest) -> bytes:
        lines = [f"{request.method} {request.path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {self._token}"]
        lines += [f"{name}: {value}" for name, value in request.headers]
        lines.append(f"Content-Length: {len(request.body)}")
        return "\r\n".join((*lines, "", "")).encode("latin-1", "replace")


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    line, *fields = head.rstrip("\r\n").split("\r\n")
    headers = {}
    for field in fields:
        name, _, value = field.partition(":")
        headers[name.lower()] = value.strip()
    return int(line.split(" ", 2)[1]), headers


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        pieces = []
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            pieces.append((await reader.readexactly(size + 2))[:-2])
        await reader.readuntil(b"\r\n")
        return b"".join(pieces)
    if "content-length" in headers:
        size = int(headers["content-length"])
        if size > _MOST_BODY_BYTES:
            raise ValueError(f"body of {size} bytes")
        return await reader.readexactly(size)
    return await reader.read()
