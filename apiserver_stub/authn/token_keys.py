"""Keys of service account tokens: their interface, and the keys in files."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from apiserver_stub.authn import jwt
from apiserver_stub.authn.keys import PublicKey, SigningKey
from apiserver_stub.telemetry.exposition import Page

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

    def show_on(self, page: Page) -> None:
        """Add the metrics of the keys to *page*."""


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

    def show_on(self, page: Page) -> None:
        """Add nothing: calls in the process have no metrics."""


class GeneratedKey:
    """The key that the server generates, which is missing or valid; parsed when it is first used.

    A server may use no tokens, and the libraries for keys need 10 MiB.
    """

    max_age_seconds = _MAX_AGE_SECONDS
    max_token_seconds = 0

    def __init__(self, path: Path) -> None:
        SigningKey.create_missing(path)
        self._path, self._data = path, path.read_bytes()

    @cached_property
    def _keys(self) -> FileKeys:
        key = SigningKey.parse(self._data, self._path)
        return FileKeys(key, [key.public])

    @property
    def published(self) -> Sequence[PublicKey]:
        return self._keys.published

    async def verifying(self, key_id: str) -> Sequence[PublicKey]:
        return await (await self._parsed()).verifying(key_id)

    async def sign(self, claims: dict[str, Any]) -> str:
        return await (await self._parsed()).sign(claims)

    def show_on(self, page: Page) -> None:
        """Add nothing, as :class:`FileKeys`."""

    async def _parsed(self) -> FileKeys:
        return self._keys if "_keys" in vars(self) else await asyncio.to_thread(lambda: self._keys)
