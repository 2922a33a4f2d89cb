"""The last step of an answer: headers that every one has, compression, and writing what is long in pieces."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence

from aiohttp import web
from multidict import CIMultiDict

from apiserver_stub.audit.trail import ID_KEY
from apiserver_stub.objects import new_uid
from apiserver_stub.reply import Rendered

_COMPRESS_FROM_BYTES = 128 << 10
_STREAM_FROM_BYTES = 1 << 20
_STALLED_SECONDS = 60.0
_GZIP_WINDOW = 31
_PIECES_A_SECOND = 20
_TEXTUAL_AGENTS = ("curl", "Wget", "Mozilla/5.0")


EXTRA_HEADERS: web.RequestKey[Mapping[str, str]] = web.RequestKey("extra_headers", Mapping)
"""What the answer says besides, whoever writes it."""


class Pace:
    """Slows a long answer down to *rate* bytes a second; 0 is no limit (spec: opt.max-connection-bytes-per-sec)."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._due = 0.0

    async def pieces(self, data: bytes) -> AsyncIterator[bytes]:
        """Yield *data* piece by piece, each when it may go."""
        if not self._rate:
            yield data
            return
        step = max(1, self._rate // _PIECES_A_SECOND)
        loop = asyncio.get_running_loop()
        for start in range(0, len(data), step):
            if (wait := self._due - loop.time()) > 0:
                await asyncio.sleep(wait)
            piece = data[start : start + step]
            self._due = max(self._due, loop.time()) + len(piece) / self._rate
            yield piece


def headers_of(http: web.BaseRequest, content_type: str) -> CIMultiDict[str]:
    """Return the headers that every answer has."""
    headers: CIMultiDict[str] = CIMultiDict(
        {"Audit-Id": audit_id(http), "Content-Type": content_type, "Cache-Control": "no-cache, private"}
    )
    if not content_type:
        del headers["Content-Type"]
    if EXTRA_HEADERS in http:
        headers.update(http[EXTRA_HEADERS])
    return headers


def audit_id(http: web.BaseRequest) -> str:
    """Return the name of this request in audit logs: the caller's, or a new one."""
    given: str = http.headers.get("Audit-ID") or ""
    if not given or not given.isascii() or not given.isprintable():  # it goes back in a header
        given = http.get(ID_KEY) or new_uid()
    return given


def wants_pretty(http: web.BaseRequest) -> bool:
    """Return whether somebody reads the answer who did not say how it should look."""
    return http.headers.get("User-Agent", "").startswith(_TEXTUAL_AGENTS)


def warning(text: str) -> str:
    """Return the value of a ``Warning`` header."""
    line = "".join(character if character.isprintable() else " " for character in text)
    escaped = line.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'


async def send(
    http: web.BaseRequest, rendered: Rendered, warnings: Sequence[str], *, compress: bool
) -> web.StreamResponse:
    """Answer *http*; with *compress* what is long goes out in gzip to who takes it."""
    headers = headers_of(http, rendered.content_type)
    if rendered.headers:
        headers.update(rendered.headers)
    for text in warnings:
        headers.add("Warning", warning(text))
    pieces = rendered.pieces
    size = sum(map(len, pieces))
    if compress and size > _COMPRESS_FROM_BYTES and "gzip" in http.headers.get("Accept-Encoding", ""):
        pieces = await asyncio.to_thread(_gzip, pieces)
        size = sum(map(len, pieces))
        headers["Content-Encoding"], headers["Vary"] = "gzip", "Accept-Encoding"
    if size < _STREAM_FROM_BYTES:
        return web.Response(status=rendered.code, body=b"".join(pieces), headers=headers)
    response = web.StreamResponse(status=rendered.code, headers=headers)
    response.content_length = size
    await response.prepare(http)
    for piece in pieces:
        async with asyncio.timeout(_STALLED_SECONDS):
            await response.write(piece)
    return response


def _gzip(pieces: Sequence[bytes]) -> list[bytes]:
    compressor = zlib.compressobj(1, zlib.DEFLATED, _GZIP_WINDOW)
    return [compressed for piece in pieces if (compressed := compressor.compress(piece))] + [compressor.flush()]
