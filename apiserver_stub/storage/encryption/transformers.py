"""Transformers: encryption of one value with one key, in the formats of kube-apiserver.

``cryptography`` and ``nacl`` are imported only if one of their algorithms is configured.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from nodeagent.base.secret import Secret

if TYPE_CHECKING:
    from nacl.secret import SecretBox

MARK = b"k8s:enc:"
"""Prefix of every encrypted value."""
_BLOCK = 16
_NONCE = 12


class DecryptionError(Exception):
    """A stored value cannot be decrypted: no key matches, or it was modified."""


class EncryptionUnavailable(OSError):
    """Values cannot be encrypted now, because the key management service is unavailable."""


class Transformer(Protocol):
    """Encryption algorithm with a key; ``label`` is the prefix of stored values, ``identity`` distinguishes keys."""

    label: bytes

    @property
    def identity(self) -> bytes: ...

    @property
    def problem(self) -> str:
        """Reason why values cannot be encrypted now; empty if they can."""
        ...

    def encrypt(self, data: bytes, full_key: bytes) -> bytes:
        """Return the stored value of *data* at *full_key*.

        :raises EncryptionUnavailable: the key is unavailable.
        """
        ...

    def decrypt(self, stored: bytes, full_key: bytes) -> bytes:
        """Return the plain value.

        :raises DecryptionError: the value was encrypted with another key, or is damaged.
        """
        ...

    def origin(self, stored: bytes) -> Transformer:
        """Return the transformer with the key that encrypted the decryptable value *stored*."""
        ...


class Identity:
    """Transformer that stores values unencrypted."""

    label = b""
    identity = b""
    problem = ""

    def origin(self, stored: bytes) -> Transformer:
        return self

    def encrypt(self, data: bytes, full_key: bytes) -> bytes:
        return data

    def decrypt(self, stored: bytes, full_key: bytes) -> bytes:
        if stored.startswith(MARK):
            raise DecryptionError("identity transformer tried to read encrypted data")
        return stored


IDENTITY: Transformer = Identity()


class _Keyed:
    problem = ""

    def __init__(self, form: str, name: str, key: Secret[bytes]) -> None:
        self.label = MARK + f"{form}:v1:{name}:".encode()
        self.identity = self.label + hashlib.sha256(key.reveal()).digest()[:8]

    def encrypt(self, data: bytes, full_key: bytes) -> bytes:
        raise NotImplementedError

    def decrypt(self, stored: bytes, full_key: bytes) -> bytes:
        raise NotImplementedError

    def origin(self, stored: bytes) -> Transformer:
        return self


def decrypt_cbc(key: bytes, encrypted: bytes) -> bytes:
    """Return the plain text of 16 bytes IV and padded text in CBC mode.

    :raises DecryptionError: the key does not match, or the value is damaged.
    """
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    if len(encrypted) < 2 * _BLOCK or len(encrypted) % _BLOCK:
        raise DecryptionError("the stored data is not a multiple of the block size")
    cipher = Cipher(algorithms.AES(key), modes.CBC(encrypted[:_BLOCK])).decryptor()
    padded = cipher.update(encrypted[_BLOCK:]) + cipher.finalize()
    padding = padded[-1]
    if not 1 <= padding <= _BLOCK or padded[-padding:] != bytes([padding]) * padding:
        raise DecryptionError("invalid padding on input")
    return padded[:-padding]


def encrypt_gcm(key: bytes, data: bytes, full_key: bytes) -> bytes:
    """Return 12 bytes nonce, text and tag in GCM mode, authenticated with the full key."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(_NONCE)
    return nonce + AESGCM(key).encrypt(nonce, data, full_key)


def decrypt_gcm(key: bytes, encrypted: bytes, full_key: bytes) -> bytes:
    """Return the plain text of the output of :func:`encrypt_gcm`.

    :raises DecryptionError: the keys do not match, or the value is damaged.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        return AESGCM(key).decrypt(encrypted[:_NONCE], encrypted[_NONCE:], full_key)
    except (InvalidTag, ValueError):
        raise DecryptionError("cipher: message authentication failed") from None


class AesCbc(_Keyed):
    """AES in CBC mode: 16 bytes IV, padded text."""

    def __init__(self, name: str, key: Secret[bytes]) -> None:
        super().__init__("aescbc", name, key)
        self._key = key

    def encrypt(self, data: bytes, full_key: bytes) -> bytes:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        start = os.urandom(_BLOCK)
        padding = _BLOCK - len(data) % _BLOCK
        cipher = Cipher(algorithms.AES(self._key.reveal()), modes.CBC(start)).encryptor()
        return self.label + start + cipher.update(data + bytes([padding]) * padding) + cipher.finalize()

    def decrypt(self, stored: bytes, full_key: bytes) -> bytes:
        return decrypt_cbc(self._key.reveal(), stored[len(self.label) :])


class AesGcm(_Keyed):
    """AES in GCM mode, authenticated with the full key: 12 bytes nonce, text, tag."""

    def __init__(self, name: str, key: Secret[bytes]) -> None:
        super().__init__("aesgcm", name, key)
        self._key = key

    def encrypt(self, data: bytes, full_key: bytes) -> bytes:
        return self.label + encrypt_gcm(self._key.reveal(), data, full_key)

    def decrypt(self, stored: bytes, full_key: bytes) -> bytes:
        return decrypt_gcm(self._key.reveal(), stored[len(self.label) :], full_key)


class Secretbox(_Keyed):
    """XSalsa20 and Poly1305: 24 bytes nonce, box."""

    def __init__(self, name: str, key: Secret[bytes]) -> None:
        from nacl.secret import SecretBox

        super().__init__("secretbox", name, key)
        self._box: SecretBox = SecretBox(key.reveal())

    def encrypt(self, data: bytes, full_key: bytes) -> bytes:
        return self.label + bytes(self._box.encrypt(data))

    def decrypt(self, stored: bytes, full_key: bytes) -> bytes:
        from nacl.exceptions import CryptoError

        try:
            return bytes(self._box.decrypt(stored[len(self.label) :]))
        except (CryptoError, ValueError):
            raise DecryptionError("output array too small or message authentication failed") from None


KINDS: dict[str, tuple[Callable[[str, Secret[bytes]], Transformer], tuple[int, ...]]] = {
    "aesgcm": (AesGcm, (16, 24, 32)),
    "aescbc": (AesCbc, (16, 24, 32)),
    "secretbox": (Secretbox, (32,)),
}
"""Provider → factory of a transformer from the name and bytes of a key, and the allowed key sizes in bytes."""
