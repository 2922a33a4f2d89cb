"""Check of a certificate and its private key, with the messages of Go's crypto/tls."""

from __future__ import annotations

from typing import Any

from apiserver_stub.validation.pem import Block, blocks
from nodeagent.base.tls import parse_errors

_KEY = "PRIVATE KEY"


def key_pair_problem(certificates: bytes, key: bytes) -> str:
    """Return why a TLS server cannot use the PEM texts, or an empty text.

    Errors in the structure of a certificate are not distinguished.
    """
    found, skipped = _split(certificates, lambda kind: kind == "CERTIFICATE")
    if found is None:
        return _no_certificate(skipped)
    private, skipped = _split(key, lambda kind: kind == _KEY or kind.endswith(f" {_KEY}"))
    if private is None:
        return _no_key(skipped)
    return _mismatch(found.content, private.content)


def _split(text: bytes, selects: Any) -> tuple[Block | None, list[str]]:
    """Return the first block whose type *selects* accepts, and the types of the blocks before it."""
    skipped: list[str] = []
    for block in blocks(text):
        if selects(block.type):
            return block, skipped
        skipped.append(block.type)
    return None, skipped


def _no_certificate(skipped: list[str]) -> str:
    if not skipped:
        return "tls: failed to find any PEM data in certificate input"
    if len(skipped) == 1 and skipped[0].endswith(_KEY):
        text = "tls: failed to find certificate PEM data in certificate input, but did find a private key; "
        return f"{text}PEM inputs may have been switched"
    text = 'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the '
    return f"{text}following types: [{' '.join(skipped)}]"


def _no_key(skipped: list[str]) -> str:
    if not skipped:
        return "tls: failed to find any PEM data in key input"
    if skipped == ["CERTIFICATE"]:
        return "tls: found a certificate rather than a key in the PEM for the private key"
    text = 'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM blocks of '
    return f"{text}the following types: [{' '.join(skipped)}]"


def _mismatch(certificate: bytes, key: bytes) -> str:
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    try:
        public: Any = x509.load_der_x509_certificate(certificate).public_key()
    except UnsupportedAlgorithm:
        public = None
    except parse_errors():
        return "x509: malformed certificate"
    try:
        private: Any = load_der_private_key(key, None)
    except (UnsupportedAlgorithm, TypeError, ValueError):
        return "tls: failed to parse private key"
    kinds = (
        (rsa.RSAPublicKey, rsa.RSAPrivateKey),
        (ec.EllipticCurvePublicKey, ec.EllipticCurvePrivateKey),
        (ed25519.Ed25519PublicKey, ed25519.Ed25519PrivateKey),
    )
    if not isinstance(private, tuple(kind for _, kind in kinds)):
        return "tls: found unknown private key type in PKCS#8 wrapping"
    expected = next((kind for public_kind, kind in kinds if isinstance(public, public_kind)), None)
    if expected is None:
        return "tls: unknown public key algorithm"
    if not isinstance(private, expected):
        return "tls: private key type does not match public key type"
    return "" if private.public_key() == public else "tls: private key does not match public key"
