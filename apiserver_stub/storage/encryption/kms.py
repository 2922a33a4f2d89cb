"""Envelope encryption with a key management service, version 2, in the format of kube-apiserver.

A data key source is generated per key of the service and per process. It encrypts values without calls of the service;
values of other sources are decrypted with one call per source.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from apiserver_stub.storage.encryption.key_service import Encrypted, KeyService, KmsError
from apiserver_stub.storage.encryption.transformers import MARK, DecryptionError, EncryptionUnavailable, Transformer

if TYPE_CHECKING:
    from apiserver_stub.storage.encryption.proto.kms_v2_pb2 import EncryptedObject

_SEED_BYTES, _INFO_BYTES, _NONCE_BYTES = 32, 32, 12
_MAX_SOURCES = 1000
VALID_SECONDS = 180.0
"""Validity of the data key after the last successful status, so that a service that fails cannot be ignored."""


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


class KmsTransformer:
    """Transformer that encrypts with data keys which the service *name* protects. Thread-safe."""

    def __init__(self, name: str, service: KeyService, now: Callable[[], float] = time.monotonic) -> None:
        self.label = MARK + f"kms:v2:{name}:".encode()
        self._name, self._service, self._now = name, service, now
        self._lock = threading.Lock()
        self._seed, self._current = b"", Encrypted(b"", "")
        self._valid_until = -1.0
        self._failure = "its status is unknown"
        self._seeds: dict[tuple[bytes, str], bytes] = {}
        """Decrypted sources of stored values."""

    @property
    def identity(self) -> bytes:
        return self._identity_of(self._current.key_id)

    @property
    def problem(self) -> str:
        """Reason why values cannot be encrypted; empty if they can."""
        if self._now() <= self._valid_until:
            return ""
        return f"key management service {self._name}: {self._failure}"

    def refresh(self) -> str:
        """Request the status of the service, use a new data key if its key has changed, and return the problem.

        Blocks until the service responds.
        """
        try:
            key_id = self._service.key_id()
            if key_id != self._current.key_id:
                seed = os.urandom(_SEED_BYTES)
                encrypted = self._service.encrypt(seed)
                if encrypted.key_id != key_id and self._service.key_id() != encrypted.key_id:
                    raise KmsError("key ID of the encrypted data key differs from that of the status")
                with self._lock:
                    self._seed, self._current = seed, encrypted
                    self._remember(encrypted, seed)
            self._valid_until = self._now() + VALID_SECONDS
        except KmsError as error:
            self._failure = str(error)
            return f"key management service {self._name}: {error}"
        return ""

    def close(self) -> None:
        """Close the connection to the service."""
        self._service.close()

    def encrypt(self, data: bytes, full_key: bytes) -> bytes:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        from apiserver_stub.storage.encryption.proto import kms_v2_pb2 as pb

        with self._lock:
            seed, current, problem = self._seed, self._current, self.problem
        if problem:
            raise EncryptionUnavailable(problem)
        info, nonce = os.urandom(_INFO_BYTES), os.urandom(_NONCE_BYTES)
        encrypted = AESGCM(_derived(seed, info)).encrypt(nonce, data, full_key)
        stored = pb.EncryptedObject(
            encryptedData=info + nonce + encrypted,
            keyID=current.key_id,
            encryptedDEKSource=current.source,
            annotations=current.annotations,
            encryptedDEKSourceType=pb.HKDF_SHA256_XNONCE_AES_GCM_SEED,
        )
        return self.label + stored.SerializeToString()

    def decrypt(self, stored: bytes, full_key: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        from apiserver_stub.storage.encryption.proto import kms_v2_pb2 as pb

        value = self._parse(stored)
        data, key = value.encryptedData, self._source_of(value)
        if value.encryptedDEKSourceType == pb.HKDF_SHA256_XNONCE_AES_GCM_SEED:
            info, data = data[:_INFO_BYTES], data[_INFO_BYTES:]
            key = _derived(key, info)
        elif value.encryptedDEKSourceType != pb.AES_GCM_KEY:
            raise DecryptionError(f"unknown type {value.encryptedDEKSourceType} of the data key")
        try:
            return AESGCM(key).decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], full_key)
        except (InvalidTag, ValueError):
            raise DecryptionError("cipher: message authentication failed") from None

    def origin(self, stored: bytes) -> Transformer:
        key_id = self._parse(stored).keyID
        return self if key_id == self._current.key_id else _Origin(self.label, self._identity_of(key_id))

    def _identity_of(self, key_id: str) -> bytes:
        return self.label + hashlib.sha256(key_id.encode()).digest()[:8]

    def _parse(self, stored: bytes) -> EncryptedObject:
        from google.protobuf.message import DecodeError

        from apiserver_stub.storage.encryption.proto import kms_v2_pb2 as pb

        try:
            return pb.EncryptedObject.FromString(stored[len(self.label) :])
        except DecodeError:
            raise DecryptionError("the stored data is not an encrypted object") from None

    def _source_of(self, value: EncryptedObject) -> bytes:
        encrypted = Encrypted(value.encryptedDEKSource, value.keyID, dict(value.annotations))
        found = self._seeds.get((encrypted.source, encrypted.key_id))
        if found is not None:
            return found
        try:
            found = self._service.decrypt(encrypted)
        except KmsError as error:
            raise DecryptionError(str(error)) from error
        with self._lock:
            self._remember(encrypted, found)
        return found

    def _remember(self, encrypted: Encrypted, seed: bytes) -> None:
        if len(self._seeds) >= _MAX_SOURCES:
            self._seeds.pop(next(iter(self._seeds)))
        self._seeds[encrypted.source, encrypted.key_id] = seed


def _derived(seed: bytes, info: bytes) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

    return HKDFExpand(SHA256(), 32, info).derive(seed)
