"""Validation of the pod certificates that projected volumes contain."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_value, not_supported, required
from apiserver_stub.validation.file_paths import validate_local_path
from apiserver_stub.validation.signers import validate_signer_name
from apiserver_stub.validation.user_annotations import validate_user_annotations

CERTIFICATE_PATHS = ("credentialBundlePath", "keyPath", "certificateChainPath")
_KEY_TYPES = ("RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519")
SHORTEST_SECONDS = 3600
_LONGEST_SECONDS, _LONGEST_KUBERNETES_SECONDS = 91 * 86400, 86400


def validate_pod_certificate(source: Object, field: str) -> list[Cause]:
    """Return the errors in the pod certificate at *field*, except for paths that other sources use."""
    signer = source.get("signerName") or ""
    causes = validate_signer_name(signer, f"{field}.signerName")
    causes += validate_user_annotations(source.get("userAnnotations"), f"{field}.userAnnotations")
    if (kind := source.get("keyType") or "") not in _KEY_TYPES:
        causes.append(not_supported(f"{field}.keyType", kind, _KEY_TYPES))
    if (seconds := source.get("maxExpirationSeconds")) is not None:
        causes += _validate_expiration(seconds, signer, f"{field}.maxExpirationSeconds")
    paths = [(name, path) for name in CERTIFICATE_PATHS if (path := source.get(name))]
    for name, path in paths:
        causes += validate_local_path(path, f"{field}.{name}")
    if not paths:
        detail = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath"
        causes.append(required(field, detail))
    return causes


def longest_seconds(signer: str) -> int:
    """Return the longest lifetime of a pod certificate that may be requested from *signer*."""
    domain = signer.partition("/")[0]
    is_kubernetes = domain == "kubernetes.io" or domain.endswith(".kubernetes.io")
    return _LONGEST_KUBERNETES_SECONDS if is_kubernetes else _LONGEST_SECONDS


def _validate_expiration(seconds: int, signer: str, field: str) -> list[Cause]:
    longest = longest_seconds(signer)
    if seconds < SHORTEST_SECONDS:
        detail = f"if provided, maxExpirationSeconds must be >= {SHORTEST_SECONDS}"
        return [invalid_value(field, seconds, detail)]
    if seconds > longest:
        return [invalid_value(field, seconds, f"if provided, maxExpirationSeconds must be <= {longest}")]
    return []
