"""Validation of cluster trust bundles."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_value, too_long
from apiserver_stub.validation import pem
from apiserver_stub.validation.signers import validate_signer_name
from nodeagent.base.release import OLDEST, Release
from nodeagent.base.tls import parse_errors

_SIZE_LIMIT_BYTES = 1 << 20
_FIELD, _OMITTED = "spec.trustBundle", "<value omitted>"


def validate_bundle(spec: Object, release: Release = OLDEST) -> list[Cause]:
    """Return the errors in a new bundle."""
    return _validate_signer(spec) + _validate_anchors(spec.get("trustBundle") or "", release)


def validate_bundle_update(spec: Object, old: Object, release: Release = OLDEST) -> list[Cause]:
    """Return the errors in the change of a bundle; unchanged certificates are not parsed again."""
    causes, signer = _validate_signer(spec), spec.get("signerName") or ""
    if spec.get("trustBundle") != old.get("trustBundle"):
        causes += _validate_anchors(spec.get("trustBundle") or "", release)
    if signer != (old.get("signerName") or ""):
        causes.append(invalid_value("spec.signerName", signer, "field is immutable"))
    return causes


def _validate_signer(spec: Object) -> list[Cause]:
    signer = spec.get("signerName")
    return validate_signer_name(signer, "spec.signerName") if signer else []


def _validate_anchors(text: str, release: Release) -> list[Cause]:
    content = text.encode()
    if len(content) > _SIZE_LIMIT_BYTES:
        return [too_long(_FIELD, _SIZE_LIMIT_BYTES, release)]
    causes: list[Cause] = []
    anchors: dict[bytes, list[int]] = {}
    for index, block in enumerate(pem.blocks(content)):
        if problem := _problem(block):
            causes.append(invalid_value(_FIELD, _OMITTED, f"entry {index} {problem}"))
        else:
            anchors.setdefault(block.content, []).append(index)
    if causes:
        return causes
    if not anchors:
        causes.append(invalid_value(_FIELD, _OMITTED, "at least one trust anchor must be provided"))
    for indices in anchors.values():
        if len(indices) > 1:
            shown = " ".join(map(str, indices))
            causes.append(invalid_value(_FIELD, _OMITTED, f"duplicate trust anchor (indices [{shown}])"))
    return causes


def _problem(block: pem.Block) -> str:
    """Return the reason why *block* is not a CA certificate; empty if it is one."""
    from cryptography import x509

    if block.type != "CERTIFICATE":
        return f"has bad block type: {block.type}"
    if block.headers:
        return "has PEM block headers"
    try:
        constraints = x509.load_der_x509_certificate(block.content).extensions.get_extension_for_class(
            x509.BasicConstraints
        )
    except x509.ExtensionNotFound:
        return "does not have the CA bit set"
    except parse_errors():
        return "does not parse as X.509"
    return "" if constraints.value.ca else "does not have the CA bit set"
