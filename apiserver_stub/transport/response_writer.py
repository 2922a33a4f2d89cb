"""Common headers of responses, warnings, compression and rate limits."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Sequence
from unicodedata import category

from apiserver_stub.apimachinery.objects import new_uid
from apiserver_stub.transport.http import HttpRequest
from apiserver_stub.transport.rendered import Rendered

_COMPRESS_FROM_BYTES = 128 << 10
_PIECE_BYTES = 256 << 10
"""Size of the pieces of a long body: backpressure of the connection applies between pieces."""
_GZIP_WINDOW = 31
_MOST_WARNINGS, _WARNINGS_LENGTH, _WARNING_LENGTH = 100, 4096, 256
_PIECES_PER_SECOND = 20
_TEXTUAL_AGENTS = ("curl", "Wget", "Mozilla/5.0")


class RateLimitedWriter:
    """Limits a long response to *rate* bytes per second; 0: no limit (spec: opt.max-connection-bytes-per-sec)."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self._due = 0.0

    async def pieces(self, data: bytes) -> AsyncIterator[bytes]:
        """Yield *data* in pieces, each when the limit allows it."""
        if not self.rate:
            for start in range(0, len(data), _PIECE_BYTES):
                yield data[start : start + _PIECE_BYTES] if len(data) > _PIECE_BYTES else data
            return
        step = max(1, self.rate // _PIECES_PER_SECOND)
        loop = asyncio.get_running_loop()
        for start in range(0, len(data), step):
            if (wait := self._due - loop.time()) > 0:
                await asyncio.sleep(wait)
            piece = data[start : start + step]
            self._due = max(self._due, loop.time()) + len(piece) / self.rate
            yield piece


def headers_of(http: HttpRequest, content_type: str) -> list[tuple[str, str]]:
    """Return the headers common to all responses."""
    headers = [("Audit-Id", audit_id(http)), ("Cache-Control", "no-cache, private")]
    if content_type:
        headers.append(("Content-Type", content_type))
    if http.response_headers:
        headers.extend(http.response_headers.items())
    return headers


def audit_id(http: HttpRequest) -> str:
    """Return the audit ID of the request: the one that the client sent, or a new one."""
    if not http.audit_id:
        requested = http.headers.get("Audit-ID", "")
        # It is returned in a header.
        http.audit_id = requested if requested.isascii() and requested.isprintable() and requested else new_uid()
    return http.audit_id


def prefers_pretty(http: HttpRequest) -> bool:
    """Return whether the client is curl, Wget or a browser, which receive indented JSON by default."""
    return http.headers.get("User-Agent", "").startswith(_TEXTUAL_AGENTS)


def warning(text: str) -> str:
    """Return the value of a ``Warning`` header."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'


def _has_control(text: str) -> bool:
    """Return whether *text* has control characters, which are not allowed in headers."""
    return not text.isprintable() and any(category(character) == "Cc" for character in text)


def truncated_warnings(warnings: Sequence[str]) -> list[str]:
    """Return the warnings to send: no duplicates; above the size limit, the first ones, truncated."""
    unique = [text for text in dict.fromkeys(warnings) if text and not _has_control(text)][:_MOST_WARNINGS]
    if sum(map(len, unique)) <= _WARNINGS_LENGTH:
        return unique
    fits: list[str] = []
    left = _WARNINGS_LENGTH
    for text in unique:
        if left <= 0:
            break
        fits.append(text[:_WARNING_LENGTH])
        left -= len(fits[-1])
    return fits


def send(http: HttpRequest, rendered: Rendered, warnings: Sequence[str], *, compress: bool) -> Awaitable[None]:
    """Respond to *http*; with *compress*, a long body is compressed if the client accepts gzip.

    :raises ConnectionResetError: the client has disconnected, or does not read.
    """
    headers = headers_of(http, rendered.content_type)
    if rendered.headers:
        replaced = {name.lower() for name in rendered.headers}
        headers = [field for field in headers if field[0].lower() not in replaced]
        headers.extend(rendered.headers.items())
    if warnings:
        headers.extend(("Warning", warning(text)) for text in truncated_warnings(warnings))
    pieces = rendered.pieces
    if compress and "gzip" in http.headers.get("Accept-Encoding", "") and sum(map(len, pieces)) > _COMPRESS_FROM_BYTES:
        return _send_compressed(http, rendered.code, headers, pieces)
    return http.respond(rendered.code, headers, pieces)


async def _send_compressed(
    http: HttpRequest, code: int, headers: list[tuple[str, str]], pieces: Sequence[bytes]
) -> None:
    compressed = await asyncio.to_thread(_gzip, pieces)
    await http.respond(code, [*headers, ("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")], compressed)


def _gzip(pieces: Sequence[bytes]) -> list[bytes]:
    compressor = zlib.compressobj(1, zlib.DEFLATED, _GZIP_WINDOW)
    return [compressed for piece in pieces if (compressed := compressor.compress(piece))] + [compressor.flush()]
