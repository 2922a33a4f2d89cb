"""PEM certificates: decoding and normalization. No I/O."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator

_BLOCK = re.compile(r"-----BEGIN ([^\r\n]*)-----\s*\n(.*?)-----END \1-----", re.DOTALL)
_LINE = 64


def decode_blocks(text: str) -> Iterator[bytes]:
    """Yield the content of each valid PEM block; headers and the text between blocks are dropped."""
    for match in _BLOCK.finditer(text):
        lines = [line.strip() for line in match[2].splitlines()]
        try:
            yield base64.b64decode("".join(line for line in lines if ":" not in line), validate=True)
        except ValueError:
            continue


def encode_certificates(blocks: Iterable[bytes]) -> bytes:
    """Return *blocks* as PEM certificates."""
    return b"".join(_encode(block) for block in blocks)


def _encode(block: bytes) -> bytes:
    text = base64.b64encode(block)
    lines = [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
    return b"\n".join((b"-----BEGIN CERTIFICATE-----", *lines, b"-----END CERTIFICATE-----", b""))
