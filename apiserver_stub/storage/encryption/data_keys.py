"""Data keys that a key management service protects.

The current key encrypts values without calls of the service; values under other keys are decrypted with one call per
key.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from apiserver_stub.storage.encryption.key_service import Encrypted, KeyService, KmsError
from apiserver_stub.storage.encryption.transformers import DecryptionError, EncryptionUnavailable

_KEY_BYTES = 32
CAPACITY = 1000
"""Number of decrypted keys that are cached by default."""
VALID_SECONDS = 180.0
"""Validity of the data key after the last successful status, so that a service that fails cannot be ignored."""


class DataKeys:
    """Data keys of the service *name*. Thread-safe.

    :param always_new: whether each successful status renews the key, because keys of the service have no ID.
    :param capacity: number of decrypted keys that are cached; 0 or less disables the cache.
    """

    def __init__(
        self,
        name: str,
        service: KeyService,
        now: Callable[[], float] = time.monotonic,
        *,
        always_new: bool = False,
        capacity: int = CAPACITY,
    ) -> None:
        self.name = name
        self._service, self._now, self._always_new, self._capacity = service, now, always_new, capacity
        self._lock = threading.Lock()
        self._key, self._encrypted = b"", Encrypted(b"", "")
        self._valid_until = -1.0
        self._failure = "its status is unknown"
        self._found: dict[tuple[bytes, str], bytes] = {}
        """Decrypted keys of stored values."""

    @property
    def key_id(self) -> str:
        """ID of the service's key that protects the current key."""
        return self._encrypted.key_id

    @property
    def problem(self) -> str:
        """Reason why values cannot be encrypted; empty if they can."""
        if self._now() <= self._valid_until:
            return ""
        return f"key management service {self.name}: {self._failure}"

    def refresh(self) -> str:
        """Request the status of the service, use a new data key if its key has changed, and return the problem.

        Blocks until the service responds.
        """
        try:
            key_id = self._service.key_id()
            if self._always_new or key_id != self._encrypted.key_id:
                key = os.urandom(_KEY_BYTES)
                encrypted = self._service.encrypt(key)
                if encrypted.key_id != key_id and self._service.key_id() != encrypted.key_id:
                    raise KmsError("key ID of the encrypted data key differs from that of the status")
                with self._lock:
                    self._key, self._encrypted = key, encrypted
                    self._remember(encrypted, key)
            self._valid_until = self._now() + VALID_SECONDS
        except KmsError as error:
            self._failure = str(error)
            return f"key management service {self.name}: {error}"
        return ""

    def current(self) -> tuple[bytes, Encrypted]:
        """Return the current data key, plain and encrypted.

        :raises EncryptionUnavailable: the service failed for too long.
        """
        with self._lock:
            key, encrypted, problem = self._key, self._encrypted, self.problem
        if problem:
            raise EncryptionUnavailable(problem)
        return key, encrypted

    def has(self, encrypted: Encrypted) -> bool:
        """Return whether the plain form of the data key is cached."""
        return (encrypted.source, encrypted.key_id) in self._found

    def find(self, encrypted: Encrypted) -> bytes:
        """Return the plain data key of a stored value.

        :raises DecryptionError: the service failed.
        """
        found = self._found.get((encrypted.source, encrypted.key_id))
        if found is not None:
            return found
        try:
            found = self._service.decrypt(encrypted)
        except KmsError as error:
            raise DecryptionError(str(error)) from error
        with self._lock:
            self._remember(encrypted, found)
        return found

    def close(self) -> None:
        """Close the connection to the service."""
        self._service.close()

    def _remember(self, encrypted: Encrypted, key: bytes) -> None:
        if self._capacity <= 0:
            return
        if len(self._found) >= self._capacity:
            self._found.pop(next(iter(self._found)))
        self._found[encrypted.source, encrypted.key_id] = key
