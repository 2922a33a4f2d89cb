"""JSON Web Tokens: decoding, signing and verification with PyJWT; claims are validated by the authenticators."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from apiserver_stub.authn.keys import ALGORITHMS, PublicKey, SigningKey
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from jwt.api_jws import PyJWS


@cache
def _signatures() -> PyJWS:
    """Return the implementation. Deferred: it loads an HTTP client, and the first token may be hours away."""
    from jwt.api_jws import PyJWS

    return PyJWS(algorithms=list(ALGORITHMS))


class TokenError(ValueError):
    """The text is not a token, or its signature is invalid."""


class Token(Struct, frozen=True):
    """Decoded token; its claims must not be trusted before :meth:`verify`."""

    header: dict[str, Any]
    claims: dict[str, Any]
    signed: bytes
    signature: bytes

    @property
    def key_id(self) -> str:
        key_id = self.header.get("kid")
        return key_id if isinstance(key_id, str) else ""

    def verify(self, keys: Iterable[PublicKey], algorithms: Iterable[str] | None = None) -> None:
        """Verify the signature with one of *keys* and one of *algorithms* (any that suits the key).

        :raises TokenError: the signature is invalid.
        """
        algorithm = self.header.get("alg")
        if not isinstance(algorithm, str) or (algorithms is not None and algorithm not in algorithms):
            raise TokenError(f"signed with unexpected algorithm {algorithm!r}")
        if not any(key.verifies(algorithm, self.signed, self.signature) for key in keys):
            raise TokenError("failed to verify signature")


def parse(text: str) -> Token:
    """Decode *text* without verification.

    :raises TokenError: it is not a token.
    """
    from jwt.exceptions import InvalidTokenError

    try:
        found = _signatures().decode_complete(text, options={"verify_signature": False})
        claims = msgspec.json.decode(found["payload"])
    except (InvalidTokenError, ValueError, RecursionError) as error:
        raise TokenError("malformed jwt") from error
    header = found["header"]
    if not isinstance(claims, dict) or "crit" in header:
        raise TokenError("malformed jwt")
    return Token(header, claims, text.rpartition(".")[0].encode(), found["signature"])


def sign(key: SigningKey, claims: dict[str, Any]) -> str:
    """Return a token with these *claims*."""
    headers = {"kid": key.public.key_id, "typ": None}  # Upstream's tokens have no type.
    return _signatures().encode(msgspec.json.encode(claims), key.private, key.algorithm, headers)
