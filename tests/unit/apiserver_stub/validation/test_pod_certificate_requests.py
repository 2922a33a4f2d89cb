"""Tests for the validation of pod certificate requests: the proof that the node has the private key."""

from __future__ import annotations

import base64
from functools import cache
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.validation.pod_certificate_requests import public_bytes, validate_pod_certificate_request

SPEC = {
    "signerName": "example.com/a",
    **{f"{kind}{part}": "x" for kind in ("pod", "node", "serviceAccount") for part in ("Name", "UID")},
    "maxExpirationSeconds": 3600,
}


@cache
def private_key(kind: str) -> Any:
    match kind:
        case "ed25519":
            return ed25519.Ed25519PrivateKey.generate()
        case "rsa2048" | "rsa3072":
            return rsa.generate_private_key(65537, int(kind.removeprefix("rsa")))
        case _:
            return ec.generate_private_key({"p224": ec.SECP224R1(), "p256": ec.SECP256R1()}[kind])


def sign(kind: str, content: bytes) -> bytes:
    key = private_key(kind)
    if kind == "ed25519":
        return bytes(key.sign(content))
    if kind.startswith("rsa"):
        scheme = padding.PSS(padding.MGF1(hashes.SHA256()), 32)
        return bytes(key.sign(content, scheme, hashes.SHA256()))
    return bytes(key.sign(content, ec.ECDSA(hashes.SHA256())))


def problems(**changes: bytes) -> list[str]:
    spec: Object = {**SPEC, **{name: base64.b64encode(value).decode() for name, value in changes.items()}}
    return [f"{cause.field}: {cause.message}" for cause in validate_pod_certificate_request(spec)]


@pytest.mark.parametrize(
    ("kind", "signed", "expected"),
    [
        ("ed25519", b"x", ""),
        ("p256", b"x", ""),
        ("rsa3072", b"x", ""),
        ("p256", b"y", "spec.proofOfPossession: Invalid value: could not verify proof-of-possession signature"),
        (
            "rsa2048",
            b"x",
            'spec.pkixPublicKey: Invalid value: "2048-bit modulus": RSA keys must have modulus size 3072 or 4096',
        ),
        (
            "p224",
            b"x",
            'spec.pkixPublicKey: Invalid value: "curve P-224": elliptic public keys must use curve P256 or P384',
        ),
    ],
)
def test_proof_of_possession_signs_the_uid_of_the_pod(kind: str, signed: bytes, expected: str) -> None:
    public = public_bytes(private_key(kind).public_key())

    assert problems(pkixPublicKey=public, proofOfPossession=sign(kind, signed)) == ([expected] if expected else [])


def test_certificate_request_must_be_signed() -> None:
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    request = builder.sign(private_key("ed25519"), None).public_bytes(Encoding.DER)
    forged = request[:-1] + bytes([request[-1] ^ 1])

    assert problems(stubPKCS10Request=request) == []
    assert problems(stubPKCS10Request=forged) == ["spec.stubPKCS10Request: Invalid value: invalid signature"]


@pytest.mark.parametrize(
    ("size", "detail"),
    [(10 << 10, "must be a valid PKIX-serialized public key"), ((10 << 10) + 1, "Too long: may not be more")],
)
def test_size_of_keys_is_limited(size: int, detail: str) -> None:
    for changes in ({"pkixPublicKey": b"x" * size, "proofOfPossession": b"x"}, {"stubPKCS10Request": b"x" * size}):
        (problem,) = problems(**changes)
        expected = "must be a valid PKCS#10 CSR" if size == 10 << 10 and "stubPKCS10Request" in changes else detail
        assert expected in problem
    (problem,) = problems(pkixPublicKey=b"x", proofOfPossession=b"x" * size)
    assert ("spec.proofOfPossession: Too long" in problem) is (size > 10 << 10)
