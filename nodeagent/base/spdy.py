"""SPDY/3.1 frames for streams between clients and runtimes. No I/O.

Flow control is omitted, as in upstream clients: neither side waits for the window of the other.

Custom, since no maintained package implements SPDY.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from enum import IntEnum

from msgspec import field

from nodeagent.base.structs import Struct

VERSION = 3
FIN = 0x01
MAX_CONTROL_BYTES = 64 * 1024
MAX_HEADER_BYTES = 64 * 1024
MAX_DATA_BYTES = 4 * 1024 * 1024
HEAD_BYTES = 8
# Initial compression dictionary of both sides; each entry except the last run is preceded by its length.
_WORDS = """options|head|post|put|delete|trace|accept|accept-charset|accept-encoding|accept-language|accept-ranges|age|
allow|authorization|cache-control|connection|content-base|content-encoding|content-language|content-length|
content-location|content-md5|content-range|content-type|date|etag|expect|expires|from|host|if-match|if-modified-since|
if-none-match|if-range|if-unmodified-since|last-modified|location|max-forwards|pragma|proxy-authenticate|
proxy-authorization|range|referer|retry-after|server|te|trailer|transfer-encoding|upgrade|user-agent|vary|via|warning|
www-authenticate|method|get|status|200 OK|version|HTTP/1.1|url|public|set-cookie|keep-alive|origin""".replace("\n", "")
_RUN = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized"
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = b"".join(struct.pack("!I", len(word)) + word.encode() for word in _WORDS.split("|")) + _RUN.encode()


class Kind(IntEnum):
    """Kinds of frames; ``DATA`` is not a control frame."""

    DATA = 0
    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    HEADERS = 8
    WINDOW_UPDATE = 9


class SpdyError(Exception):
    """Invalid SPDY data, or data above a limit."""


class Frame(Struct, frozen=True):
    """One frame; of most kinds some fields stay empty."""

    kind: int
    stream: int = 0
    data: bytes = b""
    fin: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)


class Reader:
    """Decodes received data to frames."""

    def __init__(self) -> None:
        self._pending = b""
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Add *data* and yield the frames that are complete.

        :raises SpdyError: the connection is unusable.
        """
        self._pending += data
        while len(self._pending) >= HEAD_BYTES:
            first, rest = struct.unpack("!II", self._pending[:HEAD_BYTES])
            flags, length = rest >> 24, rest & 0xFFFFFF
            control = bool(first >> 31)
            if length > (MAX_CONTROL_BYTES if control else MAX_DATA_BYTES):
                raise SpdyError(f"frame of {length} bytes is too large")
            if len(self._pending) < HEAD_BYTES + length:
                return
            body = self._pending[HEAD_BYTES : HEAD_BYTES + length]
            self._pending = self._pending[HEAD_BYTES + length :]
            if not control:
                yield Frame(Kind.DATA, first & 0x7FFFFFFF, body, bool(flags & FIN))
                continue
            if first >> 16 & 0x7FFF != VERSION:
                raise SpdyError(f"unsupported version {first >> 16 & 0x7FFF}")
            yield self._control(first & 0xFFFF, bool(flags & FIN), body)

    def _control(self, kind: int, fin: bool, body: bytes) -> Frame:
        leads = {Kind.SYN_STREAM: 10, Kind.SYN_REPLY: 4, Kind.HEADERS: 4}
        if kind in leads:
            lead = leads[Kind(kind)]
            if len(body) < lead:
                raise SpdyError("frame without a stream ID")
            stream = struct.unpack("!I", body[:4])[0] & 0x7FFFFFFF
            return Frame(kind, stream, fin=fin, headers=self._headers(body[lead:]))
        if kind == Kind.RST_STREAM and len(body) == 8:
            return Frame(kind, struct.unpack("!I", body[:4])[0] & 0x7FFFFFFF)
        return Frame(kind, data=body)

    def _headers(self, packed: bytes) -> dict[str, str]:
        try:
            text = self._inflate.decompress(packed, MAX_HEADER_BYTES)
            if self._inflate.unconsumed_tail:
                raise SpdyError("too many headers")
            (count,) = struct.unpack_from("!I", text)
            words, at = [], 4
            for _ in range(2 * count):
                (length,) = struct.unpack_from("!I", text, at)
                words.append(text[at + 4 : at + 4 + length].decode("utf-8", "replace"))
                at += 4 + length
        except (zlib.error, struct.error) as error:
            raise SpdyError(f"invalid headers: {error}") from error
        return dict(zip(words[::2], words[1::2], strict=True))


class Writer:
    """Encodes frames; they must be sent in the order in which they are encoded."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def data(self, stream: int, data: bytes, *, fin: bool = False) -> bytes:
        return struct.pack("!II", stream, (FIN if fin else 0) << 24 | len(data)) + data

    def syn_stream(self, stream: int, headers: Mapping[str, str]) -> bytes:
        """Open a stream."""
        return self._control(Kind.SYN_STREAM, struct.pack("!IIH", stream, 0, 0) + self._headers(headers))

    def syn_reply(self, stream: int) -> bytes:
        """Accept a stream."""
        return self._control(Kind.SYN_REPLY, struct.pack("!I", stream) + self._headers({}))

    def ping(self, body: bytes) -> bytes:
        """Respond to a ping."""
        return self._control(Kind.PING, body)

    def goaway(self, last_stream: int) -> bytes:
        """Announce a regular end of the connection."""
        return self._control(Kind.GOAWAY, struct.pack("!II", last_stream, 0))

    def _control(self, kind: Kind, body: bytes) -> bytes:
        return struct.pack("!II", 1 << 31 | VERSION << 16 | kind, len(body)) + body

    def _headers(self, headers: Mapping[str, str]) -> bytes:
        words = [word.encode() for pair in headers.items() for word in pair]
        text = struct.pack("!I", len(headers)) + b"".join(struct.pack("!I", len(word)) + word for word in words)
        return self._deflate.compress(text) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
