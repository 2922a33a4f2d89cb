"""Envelope encryption with a key management service, version 1, in the format of kube-apiserver.

Stored values contain the encrypted data key, and the value under that key. kube-apiserver requests a data key per
value; here a data key is used until the next status, as in version 2, so that writes do not wait for the service.
"""

from __future__ import annotations

import hashlib
import struct

from apiserver_stub.storage.encryption.data_keys import DataKeys
from apiserver_stub.storage.encryption.key_service import Encrypted
from apiserver_stub.storage.encryption.transformers import (
    MARK,
    DecryptionError,
    Transformer,
    decrypt_cbc,
    decrypt_gcm,
    encrypt_gcm,
)

_LENGTH = struct.Struct(">H")
_KEY_BYTES = (16, 24, 32)


class KmsV1Transformer:
    """Transformer that encrypts with *data_keys*. Thread-safe."""

    def __init__(self, data_keys: DataKeys) -> None:
        self.data_keys = data_keys
        self.label = MARK + f"kms:v1:{data_keys.name}:".encode()
        self.identity = self.label + hashlib.sha256(b"").digest()[:8]

    @property
    def problem(self) -> str:
        return self.data_keys.problem

    def encrypt(self, data: bytes, full_key: bytes) -> bytes:
        key, encrypted = self.data_keys.current()
        return self.label + _LENGTH.pack(len(encrypted.source)) + encrypted.source + encrypt_gcm(key, data, full_key)

    def decrypt(self, stored: bytes, full_key: bytes) -> bytes:
        encrypted, data = self._parse(stored)
        key = self.data_keys.find(encrypted)
        if len(key) not in _KEY_BYTES:
            raise DecryptionError(f"data key has {len(key)} bytes")
        try:
            return decrypt_gcm(key, data, full_key)
        except DecryptionError:
            return decrypt_cbc(key, data)  # Releases before 1.25 wrote this format.

    def waits(self, stored: bytes) -> bool:
        """Return whether the service must decrypt the data key of *stored*."""
        try:
            return not self.data_keys.has(self._parse(stored)[0])
        except DecryptionError:
            return False

    def _parse(self, stored: bytes) -> tuple[Encrypted, bytes]:
        body = stored[len(self.label) :]
        start = _LENGTH.size
        end = start + _LENGTH.unpack(body[:start])[0] if len(body) >= start else 0
        if not start < end <= len(body):
            text = "failed to read uint16 length prefixed data"
            raise DecryptionError(f"invalid data encountered by envelope transformer: {text}")
        return Encrypted(body[start:end], ""), body[end:]

    def origin(self, stored: bytes) -> Transformer:
        return self
