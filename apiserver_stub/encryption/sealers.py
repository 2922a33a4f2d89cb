"""What seals one value with one key, in the forms that other servers on the same store read and write.

``cryptography`` and ``nacl`` are imported when a key of theirs is made.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from nodeagent.base.secret import Secret

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from nacl.secret import SecretBox

MARK = b"k8s:enc:"
"""What every sealed value starts with."""
_BLOCK = 16
_NONCE = 12


class Unreadable(Exception):
    """Stored bytes cannot be read: no key fits, or they were changed."""


class Sealer(Protocol):
    """One way to write a value; ``label`` is what the stored bytes start with, ``identity`` tells keys apart."""

    label: bytes
    identity: bytes

    def seal(self, data: bytes, place: bytes) -> bytes:
        """Return what to store for *data* at the full key *place*."""
        ...

    def open(self, stored: bytes, place: bytes) -> bytes:
        """Return what was sealed.

        :raises Unreadable: the bytes are of another key, or damaged.
        """
        ...


class Identity:
    """Stores values as they are."""

    label = identity = b""

    def seal(self, data: bytes, place: bytes) -> bytes:
        return data

    def open(self, stored: bytes, place: bytes) -> bytes:
        if stored.startswith(MARK):
            raise Unreadable("identity transformer tried to read encrypted data")
        return stored


IDENTITY: Sealer = Identity()


class _Keyed:
    def __init__(self, form: str, name: str, key: Secret[bytes]) -> None:
        self.label = MARK + f"{form}:v1:{name}:".encode()
        self.identity = self.label + hashlib.sha256(key.reveal()).digest()[:8]


class AesCbc(_Keyed):
    """AES in CBC mode: 16 bytes IV, padded text."""

    def __init__(self, name: str, key: Secret[bytes]) -> None:
        super().__init__("aescbc", name, key)
        self._key = key

    def seal(self, data: bytes, place: bytes) -> bytes:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        start = os.urandom(_BLOCK)
        missing = _BLOCK - len(data) % _BLOCK
        cipher = Cipher(algorithms.AES(self._key.reveal()), modes.CBC(start)).encryptor()
        return self.label + start + cipher.update(data + bytes([missing]) * missing) + cipher.finalize()

    def open(self, stored: bytes, place: bytes) -> bytes:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        sealed = stored[len(self.label) :]
        if len(sealed) < 2 * _BLOCK or len(sealed) % _BLOCK:
            raise Unreadable("the stored data is not a multiple of the block size")
        cipher = Cipher(algorithms.AES(self._key.reveal()), modes.CBC(sealed[:_BLOCK])).decryptor()
        padded = cipher.update(sealed[_BLOCK:]) + cipher.finalize()
        missing = padded[-1]
        if not 1 <= missing <= _BLOCK or padded[-missing:] != bytes([missing]) * missing:
            raise Unreadable("invalid padding on input")
        return padded[:-missing]


class AesGcm(_Keyed):
    """AES in GCM mode, bound to its place: 12 bytes nonce, text, tag."""

    def __init__(self, name: str, key: Secret[bytes]) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        super().__init__("aesgcm", name, key)
        self._cipher: AESGCM = AESGCM(key.reveal())

    def seal(self, data: bytes, place: bytes) -> bytes:
        nonce = os.urandom(_NONCE)
        return self.label + nonce + self._cipher.encrypt(nonce, data, place)

    def open(self, stored: bytes, place: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        sealed = stored[len(self.label) :]
        try:
            return self._cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], place)
        except (InvalidTag, ValueError):
            raise Unreadable("cipher: message authentication failed") from None


class Secretbox(_Keyed):
    """XSalsa20 and Poly1305: 24 bytes nonce, box."""

    def __init__(self, name: str, key: Secret[bytes]) -> None:
        from nacl.secret import SecretBox

        super().__init__("secretbox", name, key)
        self._box: SecretBox = SecretBox(key.reveal())

    def seal(self, data: bytes, place: bytes) -> bytes:
        return self.label + bytes(self._box.encrypt(data))

    def open(self, stored: bytes, place: bytes) -> bytes:
        from nacl.exceptions import CryptoError

        try:
            return bytes(self._box.decrypt(stored[len(self.label) :]))
        except (CryptoError, ValueError):
            raise Unreadable("output array too small or message authentication failed") from None


KINDS: dict[str, tuple[Callable[[str, Secret[bytes]], Sealer], tuple[int, ...]]] = {
    "aesgcm": (AesGcm, (16, 24, 32)),
    "aescbc": (AesCbc, (16, 24, 32)),
    "secretbox": (Secretbox, (32,)),
}
"""Provider → what makes a sealer of a key's name and bytes, and how many bytes its keys may have."""
