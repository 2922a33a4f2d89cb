"""Writing of responses: common headers, compression, and streaming of long bodies."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from http.client import responses
from unicodedata import category

from aiohttp import HttpVersion11, web
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import SERVER_SOFTWARE
from multidict import CIMultiDict

from apiserver_stub.apimachinery.objects import new_uid
from apiserver_stub.transport.rendered import Rendered

ID_KEY = web.RequestKey("audit_id", str)
"""Audit ID of a request whose client sent none."""
_COMPRESS_FROM_BYTES = 128 << 10
_STREAM_FROM_BYTES = 1 << 20
STALLED_SECONDS = 60.0
"""Time after which a client that reads nothing is disconnected."""
_CANCEL_SECONDS = 1.0
_PIECE_BYTES = 256 << 10
"""Size of the pieces of a long body: backpressure of the connection applies between pieces."""
_SINGLE_WRITE_BYTES = 32 << 10
"""Size up to which a body is written without waiting for the client."""
_GZIP_WINDOW = 31
_MOST_WARNINGS, _WARNINGS_LENGTH, _WARNING_LENGTH = 100, 4096, 256
_PIECES_PER_SECOND = 20
_NOTHING: Mapping[str, str] = {}
_TEXTUAL_AGENTS = ("curl", "Wget", "Mozilla/5.0")


EXTRA_HEADERS: web.RequestKey[Mapping[str, str]] = web.RequestKey("extra_headers", Mapping)
"""Additional headers of the response, independent of its writer."""


class ApiRequest(web.BaseRequest):
    """A request whose response has no ``Server`` header of the HTTP library."""

    async def _prepare_hook(self, resp: web.StreamResponse) -> None:
        if resp.headers.get("Server") == SERVER_SOFTWARE:  # other values come from a proxied server
            del resp.headers["Server"]


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


def headers_of(http: web.BaseRequest, content_type: str) -> CIMultiDict[str]:
    """Return the headers common to all responses."""
    headers: CIMultiDict[str] = CIMultiDict(
        {"Audit-Id": audit_id(http), "Content-Type": content_type, "Cache-Control": "no-cache, private"}
    )
    if not content_type:
        del headers["Content-Type"]
    if EXTRA_HEADERS in http:
        headers.update(http[EXTRA_HEADERS])
    return headers


def audit_id(http: web.BaseRequest) -> str:
    """Return the audit ID of the request: the one that the client sent, or a new one."""
    requested: str = http.headers.get("Audit-ID") or ""
    if not requested or not requested.isascii() or not requested.isprintable():  # returned in a header
        return http.get(ID_KEY) or new_uid()
    return requested


def prefers_pretty(http: web.BaseRequest) -> bool:
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


class _Sent(web.StreamResponse):
    """Response that was already written."""

    async def prepare(self, request: web.BaseRequest) -> None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None

    @property
    def keep_alive(self) -> bool:
        return True


_SENT = _Sent()


def _send_single_write(http: web.BaseRequest, rendered: Rendered, size: int) -> bool:
    """Write a short response, headers and body, as a single TLS record, since each record is expensive.

    :returns: ``False`` if the response or the connection requires the general path; nothing was written.
    """
    transport = http.transport
    if (
        transport is None
        or transport.is_closing()
        or transport.get_write_buffer_size()
        or not http.keep_alive
        or http.version != HttpVersion11
        or http.method == "HEAD"
        or not rendered.content_type
    ):
        return False
    extra = "".join([f"{name}: {value}\r\n" for name, value in http.get(EXTRA_HEADERS, _NOTHING).items()])
    head = (
        f"HTTP/1.1 {rendered.code} {responses.get(rendered.code, '')}\r\nAudit-Id: {audit_id(http)}\r\n"
        f"Content-Type: {rendered.content_type}\r\nCache-Control: no-cache, private\r\n{extra}"
        f"Content-Length: {size}\r\nDate: {rfc822_formatted_time()}\r\n\r\n"
    )
    if not head.isascii():
        return False
    transport.write(b"".join((head.encode(), *rendered.pieces)))
    return True


async def send(
    http: web.BaseRequest, rendered: Rendered, warnings: Sequence[str], *, compress: bool
) -> web.StreamResponse:
    """Respond to *http*; with *compress*, a long body is compressed if the client accepts gzip."""
    pieces = rendered.pieces
    size = sum(map(len, pieces))
    if (
        size <= _SINGLE_WRITE_BYTES
        and not rendered.headers
        and not warnings
        and _send_single_write(http, rendered, size)
    ):
        return _SENT
    headers = headers_of(http, rendered.content_type)
    if rendered.headers:
        headers.update(rendered.headers)
    for text in truncated_warnings(warnings):
        headers.add("Warning", warning(text))
    if compress and size > _COMPRESS_FROM_BYTES and "gzip" in http.headers.get("Accept-Encoding", ""):
        pieces = await asyncio.to_thread(_gzip, pieces)
        size = sum(map(len, pieces))
        headers["Content-Encoding"] = "gzip"
        headers.add("Vary", "Accept-Encoding")
    if size < _STREAM_FROM_BYTES:
        response = web.Response(status=rendered.code, body=b"".join(pieces), headers=headers)
        if size > _SINGLE_WRITE_BYTES or (http.transport is not None and http.transport.get_write_buffer_size()):
            async with write_timeout(http):
                await response.prepare(http)
                await response.write_eof()
        return response
    stream = web.StreamResponse(status=rendered.code, headers=headers)
    stream.content_length = size
    await stream.prepare(http)
    for piece in pieces:
        async with write_timeout(http):
            await stream.write(piece)
    return stream


def write_chunk_immediately(http: web.BaseRequest, data: bytes) -> bool:
    """Write a short chunk of a chunked response as one TLS record; return ``False`` if earlier data is unsent."""
    transport = http.transport
    if (
        transport is None
        or transport.is_closing()
        or len(data) > _SINGLE_WRITE_BYTES
        or transport.get_write_buffer_size()
    ):
        return False
    transport.write(b"%x\r\n%b\r\n" % (len(data), data))
    return True


@asynccontextmanager
async def write_timeout(http: web.BaseRequest) -> AsyncIterator[None]:
    """Limit the time of writes to the client of *http* to :data:`STALLED_SECONDS`.

    :raises ConnectionResetError: the client read too slowly; its connection was aborted.
    """
    try:
        async with asyncio.timeout(STALLED_SECONDS):
            yield
    except TimeoutError:
        if http.transport is not None:
            http.transport.abort()
        await asyncio.sleep(_CANCEL_SECONDS)  # closing the connection cancels the request's task
        raise ConnectionResetError("the client does not read") from None


def _gzip(pieces: Sequence[bytes]) -> list[bytes]:
    compressor = zlib.compressobj(1, zlib.DEFLATED, _GZIP_WINDOW)
    return [compressed for piece in pieces if (compressed := compressor.compress(piece))] + [compressor.flush()]
