"""Requests that other servers or proxies could frame differently, each followed by one that must not be served."""

from __future__ import annotations

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: node\r\n\r\n"
_LENGTH = b"%d" % len(SMUGGLED)
_CHUNK = b"%x" % len(SMUGGLED)


def _post(fields: bytes, body: bytes = SMUGGLED) -> bytes:
    return b"POST /first HTTP/1.1\r\nHost: node\r\n" + fields + b"\r\n\r\n" + body


REQUESTS = {
    "length and chunks": _post(
        b"Content-Length: " + _LENGTH + b"\r\nTransfer-Encoding: chunked", b"0\r\n\r\n" + SMUGGLED
    ),
    "chunks and length": _post(b"Transfer-Encoding: chunked\r\nContent-Length: 4", b"0\r\n\r\n" + SMUGGLED),
    "two lengths": _post(b"Content-Length: 0\r\nContent-Length: " + _LENGTH),
    "list of lengths": _post(b"Content-Length: 0, " + _LENGTH),
    "signed length": _post(b"Content-Length: +0"),
    "negative length": _post(b"Content-Length: -1"),
    "hexadecimal length": _post(b"Content-Length: 0x0"),
    "length of many digits": _post(b"Content-Length: 99999999999999999999999"),
    "space before colon": _post(b"Content-Length : 0"),
    "space before the first header": b"POST /first HTTP/1.1\r\n Host: node\r\n\r\n" + SMUGGLED,
    "unknown encoding": _post(b"Transfer-Encoding: xchunked", b"0\r\n\r\n" + SMUGGLED),
    "encoding after chunked": _post(b"Transfer-Encoding: chunked, identity", b"0\r\n\r\n" + SMUGGLED),
    "vertical tab in the encoding": _post(b"Transfer-Encoding: \x0bchunked", b"0\r\n\r\n" + SMUGGLED),
    "folded header": _post(
        b"X-One: 1\r\n Content-Length: 0\r\nTransfer-Encoding:\r\n chunked", b"0\r\n\r\n" + SMUGGLED
    ),
    "NUL in a header": _post(b"X-One: a\0b"),
    "CR in a header": _post(b"X-One: a\rContent-Length: " + _LENGTH),
    "size of a chunk with a prefix": _post(b"Transfer-Encoding: chunked", b"0x0\r\n\r\n" + SMUGGLED),
    "negative size of a chunk": _post(b"Transfer-Encoding: chunked", b"-1\r\n\r\n" + SMUGGLED),
    "overflowing size of a chunk": _post(b"Transfer-Encoding: chunked", b"10000000000000000\r\n\r\n" + SMUGGLED),
    "size of a chunk with a line feed": _post(b"Transfer-Encoding: chunked", b"1\na\r\n0\r\n\r\n" + SMUGGLED),
    "chunk extension with a line feed": _post(b"Transfer-Encoding: chunked", b"1;a\nb\r\na\r\n0\r\n\r\n" + SMUGGLED),
    "chunk without a line break": _post(b"Transfer-Encoding: chunked", b"1\r\naXX0\r\n\r\n" + SMUGGLED),
    "chunk that ends with a line feed": _post(b"Transfer-Encoding: chunked", b"1\r\na\n0\r\n\r\n" + SMUGGLED),
}
