"""Envelope encryption with a key management service, version 2, in the format of kube-apiserver."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from apiserver_stub.storage.encryption.data_keys import DataKeys
from apiserver_stub.storage.encryption.key_service import Encrypted
from apiserver_stub.storage.encryption.transformers import (
    MARK,
    DecryptionError,
    EncryptionUnavailable,
    Transformer,
    decrypt_gcm,
    encrypt_gcm,
)

if TYPE_CHECKING:
    from apiserver_stub.storage.encryption.proto.kms_v2_pb2 import EncryptedObject

_INFO_BYTES = 32


class _Origin:
    """Transformer of a value under another key, which is only compared with the current one."""

    def __init__(self, label: bytes, identity: bytes) -> None:
        self.label, self.identity, self.problem = label, identity, ""

    def origin(self, stored: bytes) -> Transformer:
        return self

    def encrypt(self, data: bytes, full_key: bytes) -> bytes:
        raise EncryptionUnavailable("values are encrypted only with the current key")

    def decrypt(self, stored: bytes, full_key: bytes) -> bytes:
        raise DecryptionError("values are decrypted by the provider")


class KmsV2Transformer:
    """Transformer that encrypts with *data_keys*, which are seeds of a key per value. Thread-safe."""

    def __init__(self, data_keys: DataKeys) -> None:
        self.data_keys = data_keys
        self.label = MARK + f"kms:v2:{data_keys.name}:".encode()

    @property
    def identity(self) -> bytes:
        return self._identity_of(self.data_keys.key_id)

    @property
    def problem(self) -> str:
        return self.data_keys.problem

    def encrypt(self, data: bytes, full_key: bytes) -> bytes:
        from apiserver_stub.storage.encryption.proto import kms_v2_pb2 as pb

        seed, current = self.data_keys.current()
        info = os.urandom(_INFO_BYTES)
        stored = pb.EncryptedObject(
            encryptedData=info + encrypt_gcm(_derived(seed, info), data, full_key),
            keyID=current.key_id,
            encryptedDEKSource=current.source,
            annotations=current.annotations,
            encryptedDEKSourceType=pb.HKDF_SHA256_XNONCE_AES_GCM_SEED,
        )
        return self.label + stored.SerializeToString()

    def decrypt(self, stored: bytes, full_key: bytes) -> bytes:
        from apiserver_stub.storage.encryption.proto import kms_v2_pb2 as pb

        value = self._parse(stored)
        encrypted = _data_key_of(value)
        data, key = value.encryptedData, self.data_keys.find(encrypted)
        if value.encryptedDEKSourceType == pb.HKDF_SHA256_XNONCE_AES_GCM_SEED:
            info, data = data[:_INFO_BYTES], data[_INFO_BYTES:]
            key = _derived(key, info)
        elif value.encryptedDEKSourceType != pb.AES_GCM_KEY:
            raise DecryptionError(f"unknown type {value.encryptedDEKSourceType} of the data key")
        return decrypt_gcm(key, data, full_key)

    def waits(self, stored: bytes) -> bool:
        """Return whether the service must decrypt the data key of *stored*."""
        try:
            return not self.data_keys.has(_data_key_of(self._parse(stored)))
        except DecryptionError:
            return False

    def origin(self, stored: bytes) -> Transformer:
        key_id = self._parse(stored).keyID
        return self if key_id == self.data_keys.key_id else _Origin(self.label, self._identity_of(key_id))

    def _identity_of(self, key_id: str) -> bytes:
        return self.label + hashlib.sha256(key_id.encode()).digest()[:8]

    def _parse(self, stored: bytes) -> EncryptedObject:
        from google.protobuf.message import DecodeError

        from apiserver_stub.storage.encryption.proto import kms_v2_pb2 as pb

        try:
            return pb.EncryptedObject.FromString(stored[len(self.label) :])
        except DecodeError:
            raise DecryptionError("the stored data is not an encrypted object") from None


def _data_key_of(value: EncryptedObject) -> Encrypted:
    return Encrypted(value.encryptedDEKSource, value.keyID, dict(value.annotations))


def _derived(seed: bytes, info: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

    return HKDFExpand(SHA256(), 32, info).derive(seed)
