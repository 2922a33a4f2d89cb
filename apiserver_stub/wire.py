"""The last step of an answer: headers that every one has, compression, and writing what is long in pieces."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Sequence

from aiohttp import web
from multidict import CIMultiDict

from apiserver_stub.audit.trail import ID_KEY
from apiserver_stub.objects import new_uid
from apiserver_stub.reply import Rendered

_COMPRESS_FROM_BYTES = 128 << 10
_STREAM_FROM_BYTES = 1 << 20
_STALLED_SECONDS = 60.0
_GZIP_WINDOW = 31
_TEXTUAL_AGENTS = ("curl", "Wget", "Mozilla/5.0")


def audit_id(http: web.BaseRequest) -> str:
    """Return the name of this request in audit logs: the caller's, or a new one."""
    given: str = http.headers.get("Audit-ID") or http.get(ID_KEY) or new_uid()
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
    headers: CIMultiDict[str] = CIMultiDict(
        {"Audit-Id": audit_id(http), "Content-Type": rendered.content_type, "Cache-Control": "no-cache, private"}
    )
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
