"""Keys of service account tokens: their interface, and the keys in files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from apiserver_stub.authn import jwt
from apiserver_stub.authn.keys import PublicKey, SigningKey

_MAX_AGE_SECONDS = 3600


class SigningError(Exception):
    """A token cannot be signed, or the keys cannot be read; one line."""


class TokenKeys(Protocol):
    """Keys that sign and verify service account tokens."""

    @property
    def published(self) -> Sequence[PublicKey]:
        """Keys in the key set of the issuer, by which others verify tokens."""
        ...

    @property
    def max_age_seconds(self) -> int:
        """Time for which others may cache :attr:`published`."""
        ...

    @property
    def max_token_seconds(self) -> int:
        """Maximum lifetime of a token; 0 if unlimited."""
        ...

    async def verifying(self, key_id: str) -> Sequence[PublicKey]:
        """Return the keys that may have signed a token with *key_id* in its header, which may be empty."""
        ...

    async def sign(self, claims: dict[str, Any]) -> str:
        """Return a token with these *claims*.

        :raises SigningError: it cannot be signed.
        """
        ...


class FileKeys:
    """Keys that were read from files at startup.

    :param trusted: keys that verify tokens; duplicates are removed.
    """

    max_age_seconds = _MAX_AGE_SECONDS
    max_token_seconds = 0

    def __init__(self, signing_key: SigningKey, trusted: Iterable[PublicKey]) -> None:
        self._signing_key = signing_key
        self.published: Sequence[PublicKey] = tuple({key.key_id: key for key in trusted}.values())

    async def verifying(self, key_id: str) -> Sequence[PublicKey]:
        return self.published

    async def sign(self, claims: dict[str, Any]) -> str:
        return jwt.sign(self._signing_key, claims)
