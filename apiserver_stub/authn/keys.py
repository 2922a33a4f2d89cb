"""RSA and ECDSA keys for signing and verification of tokens, from PEM files and JSON Web Key sets."""

from __future__ import annotations

import hashlib
import re
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nodeagent.base.atomic_file import write_private
from nodeagent.base.gobase64 import encode_url
from nodeagent.base.structs import Struct
from nodeagent.base.tls import parse_errors

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512")
_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
_BLOCK = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.+?-----END \1-----", re.DOTALL)


class KeyFileError(ValueError):
    """A file of keys cannot be read or holds none."""


class PublicKey:
    """The public half of a key.

    *key_id* and *algorithm*, if set, come from a key set.
    """

    def __init__(
        self, key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey, *, key_id: str | None = None, algorithm: str = ""
    ) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec

        self._key, self._given_id, self._algorithm = key, key_id, algorithm
        self._curve = _CURVES[key.curve.name] if isinstance(key, ec.EllipticCurvePublicKey) else ""

    @cached_property
    def key_id(self) -> str:
        """Return the name of the key: the digest of its DER form, unless a key set gave it one."""
        from cryptography.hazmat.primitives import serialization

        if self._given_id is not None:
            return self._given_id
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        return encode_url(hashlib.sha256(self._key.public_bytes(serialization.Encoding.DER, form)).digest())

    @property
    def algorithm(self) -> str:
        """Return the algorithm that this server signs with when the key is its own."""
        return self._curve or "RS256"

    def jwk(self) -> dict[str, Any]:
        """Return the key as a member of a JSON Web Key set."""
        found = algorithms()[self.algorithm].to_jwk(self._key, as_dict=True)
        found.pop("key_ops", None)
        return {"use": "sig", "alg": self.algorithm, "kid": self.key_id, **found}

    def verifies(self, algorithm: str, data: bytes, signature: bytes) -> bool:
        """Return whether *signature* of *data* was made with this key; *algorithm* must suit the key."""
        from jwt.exceptions import InvalidKeyError

        if algorithm not in ALGORITHMS or self._algorithm not in ("", algorithm):
            return False
        if (algorithm[0] == "E") is not bool(self._curve):
            return False
        found = algorithms()[algorithm]
        try:
            verified: bool = found.verify(data, found.prepare_key(self._key), signature)
        except (InvalidKeyError, ValueError):
            return False
        return verified


class SigningKey(Struct, frozen=True):
    """A private key and the public half that verifies what it signed."""

    private: Any
    public: PublicKey

    def __repr__(self) -> str:
        return f"SigningKey({self.public.key_id})"

    @property
    def algorithm(self) -> str:
        return self.public.algorithm

    @classmethod
    def load(cls, path: Path) -> SigningKey:
        """Return the first private key in *path*.

        :raises KeyFileError: it cannot be read or holds no key that can sign tokens.
        """
        try:
            data = path.read_bytes()
        except OSError as error:
            raise KeyFileError(f"error reading private key file {path}: {error}") from error
        return cls.parse(data, path)

    @classmethod
    def parse(cls, data: bytes, path: Path) -> SigningKey:
        """Return the first private key in *data*, the content of *path*.

        :raises KeyFileError: it holds no key that can sign tokens.
        """
        found = next((key for key in map(_private, _blocks(data)) if key is not None), None)
        if found is None:
            rule = "data does not contain a valid RSA or ECDSA private key"
            raise KeyFileError(f"error reading private key file {path}: {rule}")
        return cls(found, PublicKey(found.public_key()))

    @classmethod
    def load_or_create(cls, path: Path) -> SigningKey:
        """Return the key in *path*, which is generated when it is missing."""
        cls.create_missing(path)
        return cls.load(path)

    @staticmethod
    def create_missing(path: Path) -> None:
        """Generate the key in *path* when it is missing."""
        if not path.exists():
            from cryptography.hazmat.primitives import serialization
            from cryptography.hazmat.primitives.asymmetric import ec

            pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            write_private(path, pem)


def load_public_keys(path: Path) -> list[PublicKey]:
    """Return every key in *path*: public keys, private keys, certificates.

    :raises KeyFileError: it cannot be read or holds none.
    """
    try:
        found = [key for key in map(_public, _blocks(path.read_bytes())) if key is not None]
    except OSError as error:
        raise KeyFileError(f"error reading public key file {path}: {error}") from error
    if not found:
        rule = "data does not contain any valid RSA or ECDSA public keys"
        raise KeyFileError(f"error reading public key file {path}: {rule}")
    return found


def from_der(data: bytes, key_id: str) -> PublicKey | None:
    """Return the key in the DER form *data*, ``None`` for one that cannot verify tokens."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    try:
        key: Any = serialization.load_der_public_key(data)
    except parse_errors(UnsupportedAlgorithm):
        return None
    return PublicKey(key, key_id=key_id) if _usable(key) else None


def from_jwk(jwk: Any) -> PublicKey | None:
    """Return the key of one entry of a key set, ``None`` for one that cannot verify tokens."""
    from jwt.exceptions import InvalidKeyError

    if not isinstance(jwk, dict) or jwk.get("use", "sig") != "sig":
        return None
    key_id, algorithm, kind = jwk.get("kid", ""), jwk.get("alg", ""), jwk.get("kty", "")
    if not (isinstance(key_id, str) and isinstance(algorithm, str) and isinstance(kind, str)):
        return None
    family = {"RSA": "RS256", "EC": "ES256"}.get(kind)
    if family is None or "d" in jwk:
        return None
    try:
        key: Any = algorithms()[family].from_jwk(jwk)
    except (InvalidKeyError, KeyError, ValueError, TypeError, AttributeError):
        return None
    return PublicKey(key, key_id=key_id, algorithm=algorithm) if _usable(key) else None


@cache
def algorithms() -> dict[str, Any]:
    """Return the signature algorithms by name."""
    from jwt.algorithms import get_default_algorithms

    return get_default_algorithms()


def _blocks(data: bytes) -> list[bytes]:
    return [match.group(0) for match in _BLOCK.finditer(data)]


def _private(block: bytes) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    try:
        key = serialization.load_pem_private_key(block, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if _usable(key) else None


def _public(block: bytes) -> PublicKey | None:
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    try:
        if b"CERTIFICATE" in block[:40]:
            key: Any = x509.load_pem_x509_certificate(block).public_key()
        elif (private := _private(block)) is not None:
            key = private.public_key()
        else:
            key = serialization.load_pem_public_key(block)
    except parse_errors(UnsupportedAlgorithm):
        return None
    return PublicKey(key) if _usable(key) else None


def _usable(key: object) -> bool:
    from cryptography.hazmat.primitives.asymmetric import ec, rsa

    if isinstance(key, ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey):
        return key.curve.name in _CURVES
    return isinstance(key, rsa.RSAPrivateKey | rsa.RSAPublicKey)
