"""Discovery document and key set of an issuer, fetched on demand and again for an unknown key ID.

Redirects are not followed, and key sets are fetched only over TLS. Sizes and durations of responses are limited.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import ssl
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import msgspec

from apiserver_stub.authn import jwt
from apiserver_stub.authn.keys import PublicKey, from_jwk
from nodeagent.base.aio import Clock, TaskOwner, TokenBucket

if TYPE_CHECKING:
    from apiserver_stub.egress.dialing import Dialer

_log = logging.getLogger(__name__)

RETRY_SECONDS = 10.0
_TIMEOUT_SECONDS = 30.0
_MAX_BYTES = 1 << 20
_REFRESH_QPS, _REFRESH_BURST = 0.5, 10
"""Rate limit for requests to the issuer, which unauthenticated clients can cause."""


class IssuerError(Exception):
    """The issuer is unavailable or its response is invalid."""


class Fetcher(Protocol):
    """Fetches small JSON documents over HTTP."""

    async def fetch(self, url: str, bearer: str = "") -> bytes:
        """Return the body of *url*.

        :raises IssuerError: it cannot be fetched.
        """
        ...


class HttpsFetcher:
    """Fetches documents over TLS.

    :param ca_bundle: certificates (PEM) for the verification of the server; empty for that of the system.
    :param dialer: opens the connections; direct ones by default.
    """

    def __init__(self, ca_bundle: str, dialer: Dialer | None = None) -> None:
        """Load the CA bundle.

        :raises ssl.SSLError: it is not valid PEM.
        """
        self._context, self._dialer = ssl.create_default_context(cadata=ca_bundle or None), dialer

    async def fetch(self, url: str, bearer: str = "") -> bytes:
        import aiohttp  # Deferred: many modules, for servers with an issuer.

        from apiserver_stub.egress.connector import new_session

        if urlsplit(url).scheme != "https":
            raise IssuerError(f"{url}: not an https URL")
        headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
        try:
            async with (
                new_session(self._dialer) as session,
                session.get(
                    url, headers=headers, ssl=self._context, allow_redirects=False, timeout=timeout
                ) as response,
            ):
                if response.status != 200:
                    raise IssuerError(f"{url}: unexpected status {response.status}")
                data = b""
                async for piece in response.content.iter_any():
                    data += piece
                    if len(data) > _MAX_BYTES:
                        raise IssuerError(f"{url}: response exceeds {_MAX_BYTES} bytes")
                return data
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            raise IssuerError(f"{url}: {type(error).__name__}: {error}") from error


class KeySet:
    """Keys of *issuer*.

    :param discovery_url: URL of the discovery document; empty for the one below the URL of the issuer.
    """

    def __init__(self, issuer: str, fetcher: Fetcher, tasks: TaskOwner, clock: Clock, discovery_url: str = "") -> None:
        self._discovery_url = discovery_url or f"{issuer.rstrip('/')}/.well-known/openid-configuration"
        self._issuer, self._fetcher, self._tasks, self._clock = issuer, fetcher, tasks, clock
        self.fetched_at: dict[str, float] = {}
        """Times of the last fetches of the keys by result, ``success`` or ``failure`` (seconds since the epoch)."""
        self.digest = ""
        """Hash of the fetched key set; empty without one."""
        self._address = ""
        self._keys: list[PublicKey] = []
        self._budget = TokenBucket(_REFRESH_QPS, _REFRESH_BURST, clock)
        self._refreshing: asyncio.Task[None] | None = None

    @property
    def ready(self) -> bool:
        """``True`` once the discovery document was read."""
        return bool(self._address)

    async def discover(self) -> None:
        """Read the discovery document, with retries until it succeeds."""
        while not self._address:
            try:
                await self.discover_once()
            except IssuerError as error:
                _log.error("oidc authenticator: initializing plugin", extra={"err": error})
                await self._clock.sleep(RETRY_SECONDS)

    async def discover_once(self) -> None:
        """Read the discovery document.

        :raises IssuerError: it cannot be read or is that of another issuer.
        """
        url = self._discovery_url
        document = _object(await self._fetcher.fetch(url), url)
        if document.get("issuer") != self._issuer:
            raise IssuerError(f"issuer did not match: expected {self._issuer!r}, got {document.get('issuer')!r}")
        address = document.get("jwks_uri")
        if not isinstance(address, str) or urlsplit(address).scheme != "https":
            raise IssuerError(f"{url}: jwks_uri must be an https URL")
        self._address = address

    async def verify(self, token: jwt.Token, algorithms: tuple[str, ...]) -> None:
        """Verify the signature of *token*; without a matching key, fetch the key set again.

        :raises TokenError: no key matches.
        :raises IssuerError: the keys cannot be read.
        """
        if self._verified(token, algorithms):
            return
        if not self._budget.try_take():
            raise jwt.TokenError("failed to verify signature: the keys were read just now")
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = self._tasks.start(self._read_keys(), "key-set")
        await asyncio.shield(self._refreshing)
        if not self._verified(token, algorithms):
            raise jwt.TokenError("failed to verify signature")

    def _verified(self, token: jwt.Token, algorithms: tuple[str, ...]) -> bool:
        key_id = token.key_id
        keys = [key for key in self._keys if not key_id or key.key_id == key_id]
        try:
            token.verify(keys, algorithms)
        except jwt.TokenError:
            return False
        return True

    async def _read_keys(self) -> None:
        try:
            data = await self._fetcher.fetch(self._address)
            document = _object(data, self._address)
        except IssuerError as error:
            self._fetched("failure")
            _log.error("Failed to read issuer keys", extra={"err": error})
            return
        self._fetched("success")
        self.digest = sha256_text(data)
        entries = document.get("keys")
        parsed = [from_jwk(entry) for entry in entries] if isinstance(entries, list) else []
        self._keys = [key for key in parsed if key is not None]

    def _fetched(self, result: str) -> None:
        self.fetched_at[result] = self._clock.wall().timestamp()


def sha256_text(data: bytes) -> str:
    """Return the SHA-256 hash of *data* in the format of metric labels."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _object(data: bytes, url: str) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        raise IssuerError(f"{url}: invalid JSON response: {error}") from error
    if not isinstance(document, dict):
        raise IssuerError(f"{url}: invalid response: not an object")
    return document
