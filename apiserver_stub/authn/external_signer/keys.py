"""Keys of service account tokens that an external signer holds; their public halves are cached and refreshed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from apiserver_stub.authn.external_signer.metrics import SignerMetrics
from apiserver_stub.authn.external_signer.proto import external_jwt_pb2 as pb
from apiserver_stub.authn.keys import PublicKey, from_der
from apiserver_stub.authn.token_keys import SigningError
from apiserver_stub.telemetry.exposition import Page
from nodeagent.base.aio import Clock, TokenBucket
from nodeagent.base.gobase64 import CorruptInput, decode_url, encode_url
from nodeagent.base.structs import Struct

_log = logging.getLogger(__name__)

START_SECONDS = 60.0
"""Timeout of the first calls, during which the signer may still start."""
_SIGN_SECONDS, _FETCH_SECONDS = 10.0, 10.0
_RETRY_SECONDS = 10.0
_FETCH_QPS, _FETCH_BURST = 1.0, 10
"""Limit of fetches that tokens with unknown keys cause, since any client can send such tokens."""
_MIN_TOKEN_SECONDS = 600
_MAX_ID_BYTES = 1024
_ALGORITHMS = ("RS256", "ES256", "ES384", "ES512")


class _Header(Struct, frozen=True, forbid_unknown_fields=True):
    """First segment of a token."""

    alg: str = ""
    kid: str = ""
    typ: str = ""


class Signer(Protocol):
    """Service that signs tokens; each call ends within its timeout and raises :class:`SigningError` if it fails."""

    async def metadata(self, seconds: float) -> pb.MetadataResponse: ...
    async def fetch_keys(self, seconds: float) -> pb.FetchKeysResponse: ...
    async def sign(self, claims: str, seconds: float) -> pb.SignJWTResponse: ...


class ExternalKeys:
    """Keys of *signer*; usable after :meth:`load`, current while :meth:`run` runs."""

    def __init__(self, signer: Signer, clock: Clock, metrics: SignerMetrics) -> None:
        self._signer, self._clock, self._metrics = signer, clock, metrics
        self._trusted: Sequence[PublicKey] = ()
        self.published: Sequence[PublicKey] = ()
        self.max_token_seconds = 0
        self._next_at = clock.now()
        self._fetches, self._fetching = 0, asyncio.Lock()
        self._failure: SigningError | None = None
        """Error of the last fetch."""
        self._budget = TokenBucket(_FETCH_QPS, _FETCH_BURST, clock)

    @property
    def max_age_seconds(self) -> int:
        return max(0, int(self._next_at - self._clock.now()))

    async def load(self) -> None:
        """Read the properties and the keys of the signer.

        :raises SigningError: they cannot be read, or are invalid.
        """
        try:
            seconds = (await self._signer.metadata(START_SECONDS)).max_token_expiration_seconds
            await self._fetch(START_SECONDS)
        except SigningError as error:
            raise SigningError(f"while setting up external-jwt-signer: {error}") from error
        if seconds < _MIN_TOKEN_SECONDS:
            rule = f"is less than acceptable (min {_MIN_TOKEN_SECONDS}s)"
            raise SigningError(f"max token life supported by external-jwt-signer ({seconds}s) {rule}")
        self.max_token_seconds = seconds

    async def run(self) -> None:
        """Fetch the keys again whenever the signer suggests; while that fails, keep the previous ones."""
        while True:
            await self._clock.sleep_until(self._next_at)
            try:
                await self._fetch(_FETCH_SECONDS)
            except SigningError as error:
                _log.error(
                    "Failed to fetch keys of external JWT signer, keeping the previous ones", extra={"err": error}
                )
                await self._clock.sleep(_RETRY_SECONDS)

    async def verifying(self, key_id: str) -> Sequence[PublicKey]:
        """Return the keys with *key_id*, all if it is empty; an unknown key is fetched."""
        found = self._with_id(key_id)
        if not found and self._budget.try_take():
            try:
                await self._fetch(_FETCH_SECONDS)
            except SigningError as error:
                _log.error("Failed to fetch keys of external JWT signer", extra={"err": error})
            found = self._with_id(key_id)
        return found

    async def sign(self, claims: dict[str, Any]) -> str:
        try:
            token = await self._sign(claims)
        except SigningError as error:
            self._metrics.count_signing(error)
            raise
        self._metrics.count_signing(None)
        return token

    def show_on(self, page: Page) -> None:
        self._metrics.show_on(page)

    async def _sign(self, claims: dict[str, Any]) -> str:
        payload = encode_url(msgspec.json.encode(claims))
        try:
            response = await self._signer.sign(payload, _SIGN_SECONDS)
        except SigningError as error:
            raise SigningError(f"while signing jwt: {error}") from error
        try:
            key_id = _key_id_of(response.header)
        except ValueError as error:
            raise SigningError(f"while validating header: {error}") from error
        if any(key not in self.published for key in await self.verifying(key_id)):
            text = f"key used for signing JWT (kid: {key_id}) is excluded from OIDC discovery docs"
            raise SigningError(f"while validating header: {text}")
        if not response.signature:
            raise SigningError("empty signature returned")
        return f"{response.header}.{payload}.{response.signature}"

    def _with_id(self, key_id: str) -> Sequence[PublicKey]:
        return [key for key in self._trusted if key.key_id == key_id] if key_id else self._trusted

    async def _fetch(self, seconds: float) -> None:
        """Fetch the keys, or wait for a fetch in progress."""
        before = self._fetches
        async with self._fetching:
            if self._fetches == before:
                self._failure = None
                try:
                    self._adopt(await self._signer.fetch_keys(seconds))
                except SigningError as error:
                    self._failure = error
                self._metrics.count_fetch(self._failure)
                self._fetches += 1
            if self._failure is not None:
                raise self._failure

    def _adopt(self, response: pb.FetchKeysResponse) -> None:
        keys = _keys_of(response)
        self._trusted = tuple(key for key, _ in keys)
        self.published = tuple(key for key, excluded in keys if not excluded)
        self._next_at = self._clock.now() + response.refresh_hint_seconds
        data_time = response.data_timestamp
        self._metrics.set_data_time(data_time.seconds + data_time.nanos / 1e9)


def _keys_of(response: pb.FetchKeysResponse) -> list[tuple[PublicKey, bool]]:
    """Return the keys, and whether each is excluded from the key set of the issuer.

    :raises SigningError: the response is invalid.
    """
    if response.refresh_hint_seconds <= 0:
        raise SigningError(f"found invalid refresh hint ({response.refresh_hint_seconds}s)")
    if not response.keys:
        raise SigningError("found no keys")
    if not response.HasField("data_timestamp"):
        raise SigningError("invalid data timestamp: it is missing")
    found = []
    for item in response.keys:
        if not 0 < len(item.key_id.encode()) <= _MAX_ID_BYTES:
            raise SigningError(f'found invalid public key id "{item.key_id[:64]}"')
        key = from_der(item.key, item.key_id)
        if key is None:
            raise SigningError(f'while parsing external public keys: key "{item.key_id}" is not an RSA or ECDSA key')
        found.append((key, item.exclude_from_oidc_discovery))
    return found


def _key_id_of(header: str) -> str:
    """Return the key ID in the first segment of a token.

    :raises ValueError: the header is invalid.
    """
    try:
        fields = msgspec.json.decode(decode_url(header), type=_Header)
    except CorruptInput as error:
        raise ValueError(f"while unwrapping header: {error}") from error
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(f"while parsing header JSON: {error}") from error
    if fields.typ != "JWT":
        raise ValueError("bad type")
    if not fields.kid:
        raise ValueError("key id missing")
    if len(fields.kid.encode()) > _MAX_ID_BYTES:
        raise ValueError("key id longer than 1 kb")
    if fields.alg not in _ALGORITHMS:
        raise ValueError(f'bad signing algorithm "{fields.alg}"')
    return fields.kid
