"""Validation of pod certificate requests: the pod and the key for which a certificate is requested."""

from __future__ import annotations

import base64
from typing import Any

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_value, required, too_long
from apiserver_stub.validation.pod_certificates import SHORTEST_SECONDS, longest_seconds
from apiserver_stub.validation.signers import validate_signer_name
from apiserver_stub.validation.user_annotations import validate_user_annotations
from nodeagent.base.names import subdomain_problems
from nodeagent.base.release import Release
from nodeagent.base.tls import parse_errors

FIRST_RELEASE = Release(1, 34)
_UID_LIMIT_BYTES, _KEY_LIMIT_BYTES = 128, 10 << 10
_NAMED = ("pod", "serviceAccount", "node")
_KEY, _PROOF, _REQUEST = "pkixPublicKey", "proofOfPossession", "stubPKCS10Request"
_CURVES = ("secp256r1", "secp384r1", "secp521r1")
_OTHER_CURVES = {"secp224r1": "P-224"}
_MODULUS_BITS = (3072, 4096)
_UNKNOWN_KEY = "unknown public key type; supported types are Ed25519, ECDSA, and RSA"


def validate_pod_certificate_request(spec: Object) -> list[Cause]:
    """Return the errors in the spec of a new request."""
    signer = spec.get("signerName") or ""
    causes = validate_signer_name(signer, "spec.signerName")
    causes += validate_user_annotations(spec.get("unverifiedUserAnnotations"), "spec.unverifiedUserAnnotations")
    for kind in _NAMED:
        name, uid, field = spec.get(f"{kind}Name") or "", spec.get(f"{kind}UID") or "", f"spec.{kind}UID"
        causes += [invalid_value(f"spec.{kind}Name", name, problem) for problem in subdomain_problems(name)]
        if not uid:
            causes.append(invalid_value(field, uid, "must not be empty"))
        if len(uid.encode()) > _UID_LIMIT_BYTES:
            causes.append(too_long(field, _UID_LIMIT_BYTES, FIRST_RELEASE))
    if (seconds := spec.get("maxExpirationSeconds")) is None:
        return [*causes, required("spec.maxExpirationSeconds", "must be set")]
    longest = longest_seconds(signer)
    if not SHORTEST_SECONDS <= seconds <= longest:
        detail = f"must be in the range [{SHORTEST_SECONDS}, {longest}]"
        causes.append(invalid_value("spec.maxExpirationSeconds", seconds, detail))
    key, proof, request = (base64.b64decode(spec.get(name) or "") for name in (_KEY, _PROOF, _REQUEST))
    if request and not key and not proof:
        return causes + _validate_request(request)
    if key and proof and not request:
        return causes + _validate_key(key, proof, spec.get("podUID") or "")
    text = "exactly one of (stubPKCS10Request) or (pkixPublicKey, proofOfPossession) must be set"
    return [*causes, unspecified_value("spec", text)]


def unspecified_value(field: str, detail: str) -> Cause:
    """Return the error for an invalid value that the message omits."""
    return Cause("FieldValueInvalid", f"Invalid value: {detail}", field)


def requested_key(spec: Object) -> bytes:
    """Return the public key of a valid request, for which the certificate is issued, as SubjectPublicKeyInfo."""
    from cryptography import x509

    if request := base64.b64decode(spec.get(_REQUEST) or ""):
        return public_bytes(x509.load_der_x509_csr(request).public_key())
    return base64.b64decode(spec.get(_KEY) or "")


def public_bytes(key: Any) -> bytes:
    """Return a public key as SubjectPublicKeyInfo."""
    from cryptography.hazmat.primitives import serialization

    encoding, form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return bytes(key.public_bytes(encoding, form))


def _validate_request(request: bytes) -> list[Cause]:
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    field = f"spec.{_REQUEST}"
    if len(request) > _KEY_LIMIT_BYTES:
        return [too_long(field, _KEY_LIMIT_BYTES, FIRST_RELEASE)]
    try:
        parsed = x509.load_der_x509_csr(request)
        key = parsed.public_key()
        is_signed = parsed.is_signature_valid
    except UnsupportedAlgorithm:
        return [unspecified_value(field, _UNKNOWN_KEY)]
    except parse_errors():
        return [unspecified_value(field, "must be a valid PKCS#10 CSR")]
    if causes := _validate_key_type(key, field, "P256, P384, or P521"):
        return causes
    return [] if is_signed else [unspecified_value(field, "invalid signature")]


def _validate_key(content: bytes, proof: bytes, uid: str) -> list[Cause]:
    """Return the errors in a public key, and in the *proof* that the node has the private key."""
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_der_public_key

    field = f"spec.{_KEY}"
    for name, value in ((field, content), (f"spec.{_PROOF}", proof)):
        if len(value) > _KEY_LIMIT_BYTES:
            return [too_long(name, _KEY_LIMIT_BYTES, FIRST_RELEASE)]
    try:
        key = load_der_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        text = base64.b64encode(content).decode()
        return [invalid_value(field, text, "must be a valid PKIX-serialized public key")]
    if causes := _validate_key_type(key, field, "P256 or P384"):
        return causes
    try:
        _verify(key, proof, uid.encode())
    except InvalidSignature:
        return [unspecified_value(f"spec.{_PROOF}", "could not verify proof-of-possession signature")]
    return []


def _validate_key_type(key: object, field: str, curves: str) -> list[Cause]:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    match key:
        case ed25519.Ed25519PublicKey():
            return []
        case ec.EllipticCurvePublicKey():
            if key.curve.name in _CURVES:
                return []
            name = _OTHER_CURVES.get(key.curve.name, key.curve.name)
            return [invalid_value(field, f"curve {name}", f"elliptic public keys must use curve {curves}")]
        case rsa.RSAPublicKey():
            if key.key_size in _MODULUS_BITS:
                return []
            value, detail = f"{key.key_size}-bit modulus", "RSA keys must have modulus size 3072 or 4096"
            return [invalid_value(field, value, detail)]
    return [unspecified_value(field, _UNKNOWN_KEY)]


def _verify(key: Any, proof: bytes, content: bytes) -> None:
    """Verify that *proof* is the signature of *content*.

    :raises InvalidSignature: it is not.
    """
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa

    match key:
        case rsa.RSAPublicKey():
            scheme = padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.AUTO)
            key.verify(proof, content, scheme, hashes.SHA256())
        case ec.EllipticCurvePublicKey():
            key.verify(proof, content, ec.ECDSA(hashes.SHA256()))
        case _:
            key.verify(proof, content)
