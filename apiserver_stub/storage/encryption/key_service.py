"""Interface of a key management service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import field

from nodeagent.base.structs import Struct


class KmsError(Exception):
    """The service is unreachable or unhealthy, or its response is invalid; one line without key material."""


class Encrypted(Struct, frozen=True):
    """A data key that the service encrypted."""

    source: bytes
    key_id: str
    annotations: Mapping[str, bytes] = field(default_factory=dict)


class KeyService(Protocol):
    """Key management service."""

    def key_id(self) -> str:
        """Return the ID of the current key.

        :raises KmsError: the service is unreachable or unhealthy.
        """
        ...

    def encrypt(self, data: bytes) -> Encrypted:
        """Return *data* encrypted with the current key.

        :raises KmsError: the request failed.
        """
        ...

    def decrypt(self, encrypted: Encrypted) -> bytes:
        """Return the plain data.

        :raises KmsError: the request failed.
        """
        ...

    def close(self) -> None:
        """Close the connection."""
        ...
