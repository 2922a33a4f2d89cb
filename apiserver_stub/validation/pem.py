"""PEM blocks as Go's encoding/pem finds them: text around and between blocks, and malformed blocks, are skipped.

Custom, since ``cryptography`` rejects files that Go accepts.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator

from msgspec import field

from nodeagent.base.structs import Struct

_BEGIN, _END, _DASHES = b"\n-----BEGIN ", b"\n-----END ", b"-----"
_BASE64 = re.compile(rb"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_IGNORED = b" \t\r\n"


class Block(Struct, frozen=True):
    """A PEM block: the type of its delimiters, its headers, and its decoded content."""

    type: str
    content: bytes
    headers: dict[str, str] = field(default_factory=dict)


def blocks(text: bytes) -> Iterator[Block]:
    """Yield the well-formed blocks of *text* in their order."""
    rest = text
    while True:
        if rest.startswith(_BEGIN[1:]):
            rest = rest[len(_BEGIN) - 1 :]
        elif (start := rest.find(_BEGIN)) >= 0:
            rest = rest[start + len(_BEGIN) :]
        else:
            return
        line, rest = _line(rest)
        if not line.endswith(_DASHES):
            continue
        found, rest = _block(line.removesuffix(_DASHES), rest)
        if found is not None:
            yield found
        elif not rest:
            return


def _block(kind: bytes, rest: bytes) -> tuple[Block | None, bytes]:
    """Return the block of a type whose content follows, and the text behind the block or its headers."""
    headers: dict[str, str] = {}
    while True:
        if not rest:
            return None, b""
        line, behind = _line(rest)
        name, colon, value = line.partition(b":")
        if not colon:
            break
        headers[name.strip().decode(errors="replace")] = value.strip().decode(errors="replace")
        rest = behind
    if not headers and rest.startswith(_END[1:]):
        end, trailer = 0, len(_END) - 1
    else:
        end = rest.find(_END)
        trailer = end + len(_END)
    if end < 0:
        return None, rest
    last, closing = rest[trailer:], kind + _DASHES
    if not last.startswith(closing) or _line(last[len(closing) :])[0]:
        return None, rest
    content = rest[:end].translate(None, _IGNORED)
    if not _BASE64.fullmatch(content):
        return None, rest
    _, behind = _line(rest[end + len(_END) - 1 :])
    return Block(kind.decode(errors="replace"), base64.b64decode(content), headers), behind


def _line(text: bytes) -> tuple[bytes, bytes]:
    """Return the first line without the white space at its end, and the text behind it."""
    line, _, rest = text.partition(b"\n")
    return line.removesuffix(b"\r").rstrip(b" \t"), rest
