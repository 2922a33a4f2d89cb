"""JSON web tokens: taken apart, signed and verified; nothing about what they claim."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from apiserver_stub.authn.keys import PublicKey, SigningKey


class TokenError(ValueError):
    """The text is no token, or no known key signed it."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token taken apart; what it claims is worth nothing before :meth:`verify`."""

    header: dict[str, Any]
    claims: dict[str, Any]
    signed: bytes
    signature: bytes

    @property
    def key_id(self) -> str:
        key_id = self.header.get("kid")
        return key_id if isinstance(key_id, str) else ""

    def verify(self, keys: Iterable[PublicKey], algorithms: Iterable[str] | None = None) -> None:
        """Return when one of *keys* signed the token with one of *algorithms* (any that its key is made for).

        :raises TokenError: none did.
        """
        algorithm = self.header.get("alg")
        if not isinstance(algorithm, str) or (algorithms is not None and algorithm not in algorithms):
            raise TokenError(f"signed with unexpected algorithm {algorithm!r}")
        if not any(key.verifies(algorithm, self.signed, self.signature) for key in keys):
            raise TokenError("failed to verify signature")


def parse(text: str) -> Token:
    """Take *text* apart.

    :raises TokenError: it is no token.
    """
    try:
        head, body, signature = text.split(".")
        header, claims = msgspec.json.decode(decode_part(head)), msgspec.json.decode(decode_part(body))
        token = Token(header, claims, f"{head}.{body}".encode(), decode_part(signature))
    except (ValueError, RecursionError) as error:
        raise TokenError("malformed jwt") from error
    if not isinstance(header, dict) or not isinstance(claims, dict) or "crit" in header:
        raise TokenError("malformed jwt")
    return token


def sign(key: SigningKey, claims: dict[str, Any]) -> str:
    """Return a token with these *claims*."""
    header = encode_part(msgspec.json.encode({"alg": key.algorithm, "kid": key.public.key_id}))
    text = f"{header}.{encode_part(msgspec.json.encode(claims))}"
    return f"{text}.{encode_part(key.sign(text.encode()))}"


def encode_part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode_part(text: str) -> bytes:
    """Return the bytes of one part.

    :raises ValueError: it is no unpadded base64url.
    """
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error
