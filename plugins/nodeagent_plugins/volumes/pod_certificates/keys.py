"""Private keys of pods and the proofs of their possession. CPU-bound: generating an RSA key can last seconds."""

from __future__ import annotations

from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa

_RSA_BITS = {"RSA3072": 3072, "RSA4096": 4096}
_CURVES: dict[str, type[ec.EllipticCurve]] = {
    "ECDSAP256": ec.SECP256R1,
    "ECDSAP384": ec.SECP384R1,
    "ECDSAP521": ec.SECP521R1,
}
_PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


@dataclass(frozen=True, slots=True)
class PodKey:
    """A new private key and the fields of a request for its certificate."""

    private_pem: bytes = field(repr=False)
    """PKCS #8."""
    stub_request: bytes
    """PKCS #10 request without names (DER), for servers since 1.36."""
    public_der: bytes
    signed_pod_uid: bytes
    """Signature of the pod's UID, for earlier servers, together with the public key."""


def generate_key(kind: str, pod_uid: str) -> PodKey:
    """Return a key of a type of the API.

    :raises ValueError: *kind* is unknown.
    """
    key: _PrivateKey
    if kind in _RSA_BITS:
        key = rsa.generate_private_key(65537, _RSA_BITS[kind])
    elif kind in _CURVES:
        key = ec.generate_private_key(_CURVES[kind]())
    elif kind == "ED25519":
        key = ed25519.Ed25519PrivateKey.generate()
    else:
        raise ValueError(f'unknown key type "{kind}"')
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([])).sign(key, _digest(key))
    der, public = serialization.Encoding.DER, key.public_key()
    return PodKey(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        request.public_bytes(der),
        public.public_bytes(der, serialization.PublicFormat.SubjectPublicKeyInfo),
        _sign(key, pod_uid.encode()),
    )


def _digest(key: _PrivateKey) -> hashes.SHA256 | hashes.SHA384 | hashes.SHA512 | None:
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return None
    bits = key.curve.key_size if isinstance(key, ec.EllipticCurvePrivateKey) else 256
    return hashes.SHA256() if bits <= 256 else hashes.SHA384() if bits <= 384 else hashes.SHA512()


def _sign(key: _PrivateKey, data: bytes) -> bytes:
    if isinstance(key, rsa.RSAPrivateKey):
        pss = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.MAX_LENGTH)
        return key.sign(data, pss, hashes.SHA256())
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.sign(data, ec.ECDSA(hashes.SHA256()))
    return key.sign(data)
