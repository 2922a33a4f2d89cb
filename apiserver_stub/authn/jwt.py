"""JSON web tokens with elliptic curve keys (ES256): signing and verifying, nothing about what they claim."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import msgspec

from nodeagent.base.tls import write_private

_HALF = 32


class TokenError(ValueError):
    """The text is no token that this key signed."""


class SigningKey:
    """A P-256 key that signs tokens."""

    def __init__(self, pem: bytes) -> None:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = serialization.load_pem_private_key(pem, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name != "secp256r1":
            raise TokenError("the signing key is no P-256 key")
        self._key = key
        der = key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.key_id = _base64(hashlib.sha256(der).digest())

    def public_jwk(self) -> dict[str, str]:
        """Return the public half as key sets carry it."""
        numbers = self._key.public_key().public_numbers()
        x, y = (_base64(number.to_bytes(_HALF, "big")) for number in (numbers.x, numbers.y))
        return {"use": "sig", "kty": "EC", "kid": self.key_id, "crv": "P-256", "alg": "ES256", "x": x, "y": y}

    @classmethod
    def load_or_create(cls, path: Path) -> SigningKey:
        """Return the key in *path*, which is generated when it is missing."""
        if not path.exists():
            from cryptography.hazmat.primitives import serialization
            from cryptography.hazmat.primitives.asymmetric import ec

            pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            write_private(path, pem)
        return cls(path.read_bytes())

    def sign(self, claims: dict[str, Any]) -> str:
        """Return a token with these *claims*."""
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        header = _base64(msgspec.json.encode({"alg": "ES256", "kid": self.key_id}))
        text = f"{header}.{_base64(msgspec.json.encode(claims))}"
        r, s = utils.decode_dss_signature(self._key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{text}.{_base64(r.to_bytes(_HALF, 'big') + s.to_bytes(_HALF, 'big'))}"

    def verify(self, token: str) -> dict[str, Any]:
        """Return the claims of *token*; times and audiences are the caller's to check.

        :raises TokenError: it is no token, or this key did not sign it.
        """
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        try:
            head, body, signature_text = token.split(".")
            header = msgspec.json.decode(_unbase64(head))
            signature = _unbase64(signature_text)
            if header.get("alg") != "ES256" or header.get("kid") != self.key_id or len(signature) != 2 * _HALF:
                raise TokenError("signed with another key or algorithm")
            pair = utils.encode_dss_signature(
                int.from_bytes(signature[:_HALF], "big"), int.from_bytes(signature[_HALF:], "big")
            )
            self._key.public_key().verify(pair, f"{head}.{body}".encode(), ec.ECDSA(hashes.SHA256()))
            claims = msgspec.json.decode(_unbase64(body))
        except (ValueError, AttributeError, InvalidSignature) as error:
            raise TokenError(f"not a token of this server: {error}") from error
        if not isinstance(claims, dict):
            raise TokenError("claims are no object")
        return claims


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _unbase64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
