"""The last step of an answer: headers that every one has, compression, and writing what is long in pieces."""

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
"""Who reads nothing for so long is cut off."""
_GONE_SECONDS = 1.0
_PIECE_BYTES = 256 << 10
"""A connection holds the sender up from its second piece on, so that one is not as long as all of it."""
_AT_ONCE_BYTES = 32 << 10
"""What a connection takes without waiting for its client."""
_GZIP_WINDOW = 31
_MOST_WARNINGS, _WARNINGS_LENGTH, _WARNING_LENGTH = 100, 4096, 256
_PIECES_A_SECOND = 20
_NOTHING: Mapping[str, str] = {}
_TEXTUAL_AGENTS = ("curl", "Wget", "Mozilla/5.0")


EXTRA_HEADERS: web.RequestKey[Mapping[str, str]] = web.RequestKey("extra_headers", Mapping)
"""What the answer says besides, whoever writes it."""


class ApiRequest(web.BaseRequest):
    """A request whose answer does not tell which libraries it was made with."""

    async def _prepare_hook(self, resp: web.StreamResponse) -> None:
        if resp.headers.get("Server") == SERVER_SOFTWARE:  # another one is that of a server behind this one
            del resp.headers["Server"]


class RateLimitedWriter:
    """Slows a long answer down to *rate* bytes a second; 0 is no limit (spec: opt.max-connection-bytes-per-sec)."""

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self._due = 0.0

    async def pieces(self, data: bytes) -> AsyncIterator[bytes]:
        """Yield *data* piece by piece, each when it may go."""
        if not self.rate:
            for start in range(0, len(data), _PIECE_BYTES):
                yield data[start : start + _PIECE_BYTES] if len(data) > _PIECE_BYTES else data
            return
        step = max(1, self.rate // _PIECES_A_SECOND)
        loop = asyncio.get_running_loop()
        for start in range(0, len(data), step):
            if (wait := self._due - loop.time()) > 0:
                await asyncio.sleep(wait)
            piece = data[start : start + step]
            self._due = max(self._due, loop.time()) + len(piece) / self.rate
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
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{escaped}"'


def _has_control(text: str) -> bool:
    """Return whether *text* has control characters, which headers do not carry."""
    return not text.isprintable() and any(category(character) == "Cc" for character in text)


def fitting(warnings: Sequence[str]) -> list[str]:
    """Return what of *warnings* is told: each once, and where they are many their beginnings, the first ones."""
    found = [text for text in dict.fromkeys(warnings) if text and not _has_control(text)][:_MOST_WARNINGS]
    if sum(map(len, found)) <= _WARNINGS_LENGTH:
        return found
    fits: list[str] = []
    left = _WARNINGS_LENGTH
    for text in found:
        if left <= 0:
            break
        fits.append(text[:_WARNING_LENGTH])
        left -= len(fits[-1])
    return fits


class _Sent(web.StreamResponse):
    """An answer that is on its way already."""

    async def prepare(self, request: web.BaseRequest) -> None:
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        return None

    @property
    def keep_alive(self) -> bool:
        return True


_SENT = _Sent()


def _send_at_once(http: web.BaseRequest, rendered: Rendered, size: int) -> bool:
    """Write a short answer in one piece, head and body: as one record of TLS, which is what most of a write costs.

    :returns: whether it was as simple as that.
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
    """Answer *http*; with *compress* what is long goes out in gzip to who takes it."""
    pieces = rendered.pieces
    size = sum(map(len, pieces))
    if size <= _AT_ONCE_BYTES and not rendered.headers and not warnings and _send_at_once(http, rendered, size):
        return _SENT
    headers = headers_of(http, rendered.content_type)
    if rendered.headers:
        headers.update(rendered.headers)
    for text in fitting(warnings):
        headers.add("Warning", warning(text))
    if compress and size > _COMPRESS_FROM_BYTES and "gzip" in http.headers.get("Accept-Encoding", ""):
        pieces = await asyncio.to_thread(_gzip, pieces)
        size = sum(map(len, pieces))
        headers["Content-Encoding"] = "gzip"
        headers.add("Vary", "Accept-Encoding")
    if size < _STREAM_FROM_BYTES:
        whole = web.Response(status=rendered.code, body=b"".join(pieces), headers=headers)
        if size > _AT_ONCE_BYTES or (http.transport is not None and http.transport.get_write_buffer_size()):
            async with patience(http):
                await whole.prepare(http)
                await whole.write_eof()
        return whole
    response = web.StreamResponse(status=rendered.code, headers=headers)
    response.content_length = size
    await response.prepare(http)
    for piece in pieces:
        async with patience(http):
            await response.write(piece)
    return response


def write_chunk_at_once(http: web.BaseRequest, data: bytes) -> bool:
    """Write a short chunk of a chunked answer as one record of TLS, unless what was written before still waits."""
    transport = http.transport
    if transport is None or transport.is_closing() or len(data) > _AT_ONCE_BYTES or transport.get_write_buffer_size():
        return False
    transport.write(b"%x\r\n%b\r\n" % (len(data), data))
    return True


@asynccontextmanager
async def patience(http: web.BaseRequest) -> AsyncIterator[None]:
    """Wait for the client of *http* to read, and for so long only.

    :raises ConnectionResetError: it did not; its connection is cut.
    """
    try:
        async with asyncio.timeout(STALLED_SECONDS):
            yield
    except TimeoutError:
        if http.transport is not None:
            http.transport.abort()
        await asyncio.sleep(_GONE_SECONDS)  # the end of the connection cancels what its request does
        raise ConnectionResetError("the client does not read") from None


def _gzip(pieces: Sequence[bytes]) -> list[bytes]:
    compressor = zlib.compressobj(1, zlib.DEFLATED, _GZIP_WINDOW)
    return [compressed for piece in pieces if (compressed := compressor.compress(piece))] + [compressor.flush()]
