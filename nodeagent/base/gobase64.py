"""Base64 as Go's ``encoding/base64`` decodes it: line breaks are ignored, errors name the offset. No I/O.

API objects carry bytes in this form, and clients see the errors. Go's decoder is not strict about the bits after the
last byte; a text that is stored must therefore be encoded again.
"""

from __future__ import annotations

import base64
import re

_CANONICAL_CHARACTERS = re.compile(r"[A-Za-z0-9+/]*={0,2}")
_STANDARD = {
    character: value
    for value, character in enumerate(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
}
_URL = {{ord("+"): ord("-"), ord("/"): ord("_")}.get(key, key): value for key, value in _STANDARD.items()}
_LINE_BREAKS = b"\r\n"
_PAD = ord("=")


class CorruptInput(ValueError):
    """A text is not base64; the message is Go's, with the offset in bytes."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"illegal base64 data at input byte {offset}")
        self.offset = offset


def decode(text: str) -> bytes:
    """Return the bytes that *text* encodes in the standard alphabet with padding.

    :raises CorruptInput: it is not base64.
    """
    if len(text) % 4 == 0 and _CANONICAL_CHARACTERS.fullmatch(text):
        return base64.b64decode(text)
    return _Decoder(text.encode("utf-8", "surrogatepass"), _STANDARD, padded=True).run()


def decode_url(text: str) -> bytes:
    """Return the bytes that *text* encodes in the URL alphabet without padding.

    :raises CorruptInput: it is not base64.
    """
    return _Decoder(text.encode("utf-8", "surrogatepass"), _URL, padded=False).run()


def encode_url(data: bytes) -> str:
    """Return *data* in the URL alphabet without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def canonical(text: str) -> str:
    """Return *text* as Go encodes the bytes that it decodes to.

    :raises CorruptInput: it is not base64.
    """
    if len(text) % 4 == 0 and text[-1:] != "=" and _CANONICAL_CHARACTERS.fullmatch(text):
        return text
    return base64.b64encode(decode(text)).decode()


class _Decoder:
    """One pass over a text, four characters at a time."""

    def __init__(self, data: bytes, alphabet: dict[int, int], *, padded: bool) -> None:
        self._data, self._alphabet, self._padded = data, alphabet, padded
        self._at = 0

    def run(self) -> bytes:
        found = bytearray()
        while self._at < len(self._data):
            found += self._quantum()
        return bytes(found)

    def _quantum(self) -> bytes:
        """Return up to three bytes and advance past the characters that they came from."""
        values: list[int] = []
        while len(values) < 4:
            if self._at == len(self._data):
                if values and (self._padded or len(values) == 1):
                    raise CorruptInput(self._at - len(values))
                break
            character = self._data[self._at]
            self._at += 1
            if (value := self._alphabet.get(character)) is not None:
                values.append(value)
            elif character not in _LINE_BREAKS:
                if not self._padded or character != _PAD:
                    raise CorruptInput(self._at - 1)
                self._finish(len(values))
                break
        bits = 0
        for value in values + [0] * (4 - len(values)):
            bits = bits << 6 | value
        return bits.to_bytes(3, "big")[: max(0, len(values) - 1)]

    def _finish(self, read: int) -> None:
        """Consume the padding after *read* characters of a quantum, of which one was consumed already."""
        if read < 2:
            raise CorruptInput(self._at - 1)
        if read == 2:
            self._skip_line_breaks()
            if self._at == len(self._data):
                raise CorruptInput(self._at)
            if self._data[self._at] != _PAD:
                raise CorruptInput(self._at - 1)
            self._at += 1
        self._skip_line_breaks()
        if self._at < len(self._data):
            raise CorruptInput(self._at)

    def _skip_line_breaks(self) -> None:
        while self._at < len(self._data) and self._data[self._at] in _LINE_BREAKS:
            self._at += 1
