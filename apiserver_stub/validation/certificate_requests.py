"""Validation of certificate signing requests."""

from __future__ import annotations

import base64
from collections.abc import Iterator

from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.status import Cause, duplicate, forbidden_value, invalid_value, not_supported, required
from apiserver_stub.validation import pem
from apiserver_stub.validation.conditions import STATUSES
from apiserver_stub.validation.signers import validate_signer_name
from nodeagent.base.identity import Identity
from nodeagent.base.structs import Struct
from nodeagent.base.tls import parse_errors

DECISIONS = ("Approved", "Denied")
_TRUE_ONLY = (*DECISIONS, "Failed")
_SHORTEST_SECONDS = 600
_SIGNING_REQUEST, _CERTIFICATE = "CERTIFICATE REQUEST", "CERTIFICATE"
_EXCLUSIVE = "Approved and Denied conditions are mutually exclusive"
_USAGES = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)


class _Tolerance(Struct, frozen=True):
    """Errors that an update may keep, as the stored request has them already."""

    both_decisions: bool = False
    legacy_signer: bool = False
    duplicate_types: bool = False
    empty_types: bool = False
    any_certificate: bool = False
    duplicate_usages: bool = False
    unknown_usages: bool = False


_NONE = _Tolerance()


def validate_request(new: Object, identity: Identity) -> list[Cause]:
    """Return the errors in a new request."""
    return _validate(new, _NONE, identity)


def validate_request_update(new: Object, old: Object, subresource: str, identity: Identity) -> list[Cause]:
    """Return the errors in the change of a request, of its status or of its approval."""
    causes = _validate(new, _tolerance(new, old, identity), identity)
    field = "status.conditions"
    for type_ in _TRUE_ONLY:
        if len(_conditions(new, type_)) < len(_conditions(old, type_)):
            causes.append(forbidden_value(field, f'updates may not remove a condition of type "{type_}"'))
    if subresource != "approval":
        for type_ in DECISIONS:
            after, before = _conditions(new, type_), _conditions(old, type_)
            if len(after) > len(before):
                causes.append(forbidden_value(field, f'updates may not add a condition of type "{type_}"'))
            elif len(after) == len(before) and after != before:
                causes.append(forbidden_value(field, f'updates may not modify a condition of type "{type_}"'))
    stored, field = _certificate(old), "status.certificate"
    if _certificate(new) != stored:
        if subresource != "status":
            causes.append(forbidden_value(field, "updates may not set certificate content"))
        elif stored:
            causes.append(forbidden_value(field, "updates may not modify existing certificate content"))
    return causes


def _validate(new: Object, tolerance: _Tolerance, identity: Identity) -> list[Cause]:
    spec = new.get("spec") or {}
    request, signer = spec.get("request") or "", spec.get("signerName") or ""
    problem = _request_problem(base64.b64decode(request))
    causes = [invalid_value("spec.request", request, problem)] if problem else []
    causes += _validate_usages(spec.get("usages") or [], tolerance)
    if not tolerance.legacy_signer and signer == identity.label("legacy-unknown"):
        detail = "the legacy signerName is not allowed via this API version"
        causes.append(invalid_value("spec.signerName", signer, detail))
    else:
        causes += validate_signer_name(signer, "spec.signerName")
    if (seconds := spec.get("expirationSeconds")) is not None and seconds < _SHORTEST_SECONDS:
        detail = "may not specify a duration less than 600 seconds (10 minutes)"
        causes.append(invalid_value("spec.expirationSeconds", seconds, detail))
    causes += _validate_conditions(dig(new, ("status", "conditions")) or [], tolerance)
    if not tolerance.any_certificate and (problem := _certificate_problem(_certificate(new))):
        causes.append(invalid_value("status.certificate", "<certificate data>", problem))
    return causes


def _validate_usages(usages: list[str], tolerance: _Tolerance) -> Iterator[Cause]:
    if not usages:
        yield required("spec.usages")
    for index, usage in enumerate(usages):
        if usage not in _USAGES and not tolerance.unknown_usages:
            yield not_supported(f"spec.usages[{index}]", usage, _USAGES)
        if usage in usages[:index] and not tolerance.duplicate_usages:
            yield duplicate(f"spec.usages[{index}]", usage)


def _validate_conditions(conditions: list[Object], tolerance: _Tolerance) -> list[Cause]:
    causes: list[Cause] = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        field, type_ = f"status.conditions[{index}]", condition.get("type") or ""
        status = condition.get("status") or ""
        allowed = ("True",) if type_ in _TRUE_ONLY else STATUSES
        if not type_ and not tolerance.empty_types:
            causes.append(required(f"{field}.type"))
        if not status:
            causes.append(required(f"{field}.status"))
        elif status not in allowed:
            causes.append(not_supported(f"{field}.status", status, allowed))
        if type_ in DECISIONS and not tolerance.both_decisions and seen & (set(DECISIONS) - {type_}):
            causes.append(invalid_value(f"{field}.type", type_, _EXCLUSIVE))
        if type_ in seen and not tolerance.duplicate_types:
            causes.append(duplicate(f"{field}.type", type_))
        seen.add(type_)
    return causes


def _tolerance(new: Object, old: Object, identity: Identity) -> _Tolerance:
    spec = old.get("spec") or {}
    usages: list[str] = spec.get("usages") or []
    types = [condition.get("type") or "" for condition in dig(old, ("status", "conditions")) or ()]
    stored = _certificate(old)
    return _Tolerance(
        both_decisions=set(DECISIONS) <= set(types),
        legacy_signer=spec.get("signerName") == identity.label("legacy-unknown"),
        duplicate_types=len(set(types)) < len(types),
        empty_types="" in types,
        any_certificate=_certificate(new) == stored or bool(_certificate_problem(stored)),
        duplicate_usages=len(set(usages)) < len(usages),
        unknown_usages=any(usage not in _USAGES for usage in usages),
    )


def _conditions(obj: Object, type_: str) -> list[Object]:
    return [item for item in dig(obj, ("status", "conditions")) or () if item.get("type") == type_]


def _certificate(obj: Object) -> bytes:
    return base64.b64decode(dig(obj, ("status", "certificate")) or "")


def common_name(request: bytes) -> str:
    """Return the common name in the subject of *request*, in PEM; empty without one.

    :raises ValueError: *request* is malformed.
    """
    from cryptography import x509

    block = next(pem.blocks(request), None)
    if block is None or block.type != _SIGNING_REQUEST:
        raise ValueError("PEM block type must be CERTIFICATE REQUEST")
    try:
        names = x509.load_der_x509_csr(block.content).subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)
    except parse_errors() as error:
        raise ValueError(str(error)) from error
    return str(names[-1].value) if names else ""


def _request_problem(text: bytes) -> str:
    """Return the reason why *text* is not a signed request in PEM; empty if it is one."""
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm

    block = next(pem.blocks(text), None)
    if block is None or block.type != _SIGNING_REQUEST:
        return "PEM block type must be CERTIFICATE REQUEST"
    try:
        request = x509.load_der_x509_csr(block.content)
        return "" if request.is_signature_valid else "x509: invalid signature"
    except parse_errors(UnsupportedAlgorithm) as error:
        return str(error)


def _certificate_problem(text: bytes) -> str:
    """Return the reason why *text* is not a list of certificates in PEM; empty if it is one, or empty."""
    if not text:
        return ""
    found = list(pem.blocks(text))
    for block in found:
        if block.type != _CERTIFICATE:
            return f'only CERTIFICATE PEM blocks are allowed, found "{block.type}"'
        if block.headers:
            return "no PEM block headers are permitted"
        if problem := _der_problem(block.content):
            return problem
    return "" if found else "must contain at least one CERTIFICATE PEM block"


def _der_problem(content: bytes) -> str:
    """Return the reason why *content* is not one or more certificates in DER."""
    from cryptography import x509

    if not content:
        return "found CERTIFICATE PEM block containing 0 certificates"
    try:
        while content:
            size = _der_size(content)
            x509.load_der_x509_certificate(content[:size])
            content = content[size:]
    except parse_errors() as error:
        return str(error)
    return ""


def _der_size(content: bytes) -> int:
    """Return the size of the first DER value, in bytes; that of *content* if it is malformed."""
    if len(content) < 2 or content[1] < 0x80:
        return 2 + content[1] if len(content) > 1 else len(content)
    count = content[1] & 0x7F
    return 2 + count + int.from_bytes(content[2 : 2 + count])
