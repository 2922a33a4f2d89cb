"""Validation of the status of pod certificate requests: the decision of the signer and the issued certificate."""

from __future__ import annotations

from datetime import datetime, timedelta

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import Cause, invalid_value, not_supported, required, too_long
from apiserver_stub.validation import pem
from apiserver_stub.validation.conditions import validate_conditions
from apiserver_stub.validation.pod_certificate_requests import (
    FIRST_RELEASE,
    public_bytes,
    requested_key,
    unspecified_value,
)
from nodeagent.base.tls import parse_errors

ISSUED, DENIED, FAILED = "Issued", "Denied", "Failed"
_DECISIONS = (ISSUED, DENIED, FAILED)
_CONDITIONS, _CHAIN = "status.conditions", "status.certificateChain"
_BEFORE, _AFTER, _REFRESH = "status.notBefore", "status.notAfter", "status.beginRefreshAt"
_CHAIN_LIMIT_BYTES = 100 << 10
_CLOCK_SKEW, _REFRESH_MARGIN, _SHORTEST = timedelta(minutes=5), timedelta(minutes=10), timedelta(hours=1)


def decision_of(request: Object) -> str:
    """Return the decision of the signer on *request*; empty while it is pending."""
    conditions = (request.get("status") or {}).get("conditions") or ()
    types = (item.get("type") for item in conditions if item.get("status") == "True")
    return next((type_ for type_ in types if type_ in _DECISIONS), "")


def validate_status_update(new: Object, old: Object, now: datetime) -> list[Cause]:
    """Return the errors in the change of a request's status."""
    status, before = new.get("status") or {}, old.get("status") or {}
    conditions = status.get("conditions") or []
    if causes := _validate_decisions(conditions) + validate_conditions(conditions, _CONDITIONS):
        return causes
    if decision_of(old):
        return _unequal(status, before, "immutable after PodCertificateRequest is issued, denied, or failed")
    decision = decision_of(new)
    if decision == ISSUED:
        return _validate_issued(status, old.get("spec") or {}, now)
    if decision:
        text = "non-condition status fields must be empty when denying or failing the PodCertificateRequest"
        return _unequal(status, {"conditions": conditions}, text)
    return _unequal(status, before, 'status is immutable unless transitioning to "Issued", "Denied", or "Failed"')


def _unequal(status: Object, expected: Object, detail: str) -> list[Cause]:
    return [unspecified_value("status", detail)] if status != expected else []


def _validate_decisions(conditions: list[Object]) -> list[Cause]:
    causes: list[Cause] = []
    count = 0
    for index, condition in enumerate(conditions):
        field, type_, state = f"{_CONDITIONS}.[{index}]", condition.get("type") or "", condition.get("status") or ""
        if type_ not in _DECISIONS:
            causes.append(not_supported(f"{field}.type", type_, _DECISIONS))
            continue
        count += 1
        if count > 1:
            detail = 'There may be at most one condition with type "Issued", "Denied", or "Failed"'
            causes.append(invalid_value(f"{field}.type", type_, detail))
        if state != "True":
            causes.append(not_supported(f"{field}.status", state, ("True",)))
    return causes


def _validate_issued(status: Object, spec: Object, now: datetime) -> list[Cause]:
    """Return the errors in the certificate chain of *status* and in the times that repeat those of its first one."""
    from cryptography import x509

    chain = status.get("certificateChain") or ""
    if len(chain.encode()) > _CHAIN_LIMIT_BYTES:
        return [too_long(_CHAIN, _CHAIN_LIMIT_BYTES, FIRST_RELEASE)]
    blocks = list(pem.blocks(chain.encode()))
    if not blocks:
        return [invalid_value(_CHAIN, chain, "issued certificate chain must contain at least one certificate")]
    leaf_block, *others = blocks
    if leaf_block.type != "CERTIFICATE":
        text = "issued certificate chain must consist entirely of CERTIFICATE PEM blocks"
        return [invalid_value(_CHAIN, chain, text)]
    try:
        leaf = x509.load_der_x509_certificate(leaf_block.content)
    except parse_errors():
        return [invalid_value(_CHAIN, chain, "leaf certificate does not parse as valid X.509")]
    causes = _validate_names(leaf)
    if public_bytes(leaf.public_key()) != requested_key(spec):
        return [*causes, invalid_value(_CHAIN, chain, "leaf certificate was not issued to the requested public key")]
    if causes := causes + _validate_times(status, leaf, spec["maxExpirationSeconds"], now):
        return causes
    for block in others:
        if block.type != "CERTIFICATE":
            text = "issued certificate chain must consist entirely of CERTFICATE PEM blocks"  # Spelled so upstream.
            return [invalid_value(_CHAIN, chain, text)]
        try:
            x509.load_der_x509_certificate(block.content)
        except parse_errors():
            return [invalid_value(_CHAIN, chain, "intermediate certificate does not parse as valid X.509")]
    return []


def _validate_names(leaf: object) -> list[Cause]:
    from cryptography import x509

    assert isinstance(leaf, x509.Certificate)
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except parse_errors(x509.ExtensionNotFound):
        return []
    causes = []
    for name in names.get_values_for_type(x509.DNSName):
        if not name:
            causes.append(invalid_value(_CHAIN, name, "leaf certificate should not contain empty DNSName"))
        if ".." in name:
            causes.append(invalid_value(_CHAIN, name, "leaf certificate's DNSName should not contain '..'"))
        if name.startswith(".") or name.endswith("."):
            causes.append(invalid_value(_CHAIN, name, "leaf certificate's DNSName should not start or end with '.'"))
    for address in names.get_values_for_type(x509.RFC822Name):
        local, _, domain = address.rpartition("@")
        if not local or not domain:
            causes.append(invalid_value(_CHAIN, address, "leaf certificate should not contain invalid EmailAddress"))
    return causes


def _validate_times(status: Object, leaf: object, longest_seconds: int, now: datetime) -> list[Cause]:
    from cryptography import x509

    assert isinstance(leaf, x509.Certificate)
    texts = [status.get(field.partition(".")[2]) for field in (_BEFORE, _AFTER, _REFRESH)]
    same = "must be present and consistent with the issued certificate"
    details = (same, same, "must be present and in the range [notbefore+10min, notafter-10min]")
    rules = zip((_BEFORE, _AFTER, _REFRESH), details, texts, strict=True)
    if causes := [required(field, detail) for field, detail, text in rules if not text]:
        return causes
    before, after, refresh = (datetime.fromisoformat(str(text)) for text in texts)
    issued, expires = leaf.not_valid_before_utc, leaf.not_valid_after_utc
    lifetime, longest = expires - issued, timedelta(seconds=longest_seconds)
    checks = (
        (before == issued, _BEFORE, before, "must be set to the NotBefore time encoded in the leaf certificate"),
        (
            abs(before - now) < _CLOCK_SKEW,
            _BEFORE,
            before,
            "must be set to within 5 minutes of kube-apiserver's current time",
        ),
        (after == expires, _AFTER, after, "must be set to the NotAfter time encoded in the leaf certificate"),
        (lifetime >= _SHORTEST, _CHAIN, lifetime, "leaf certificate lifetime must be >= 1 hour"),
        (
            lifetime <= longest,
            _CHAIN,
            lifetime,
            f"leaf certificate lifetime must be <= spec.maxExpirationSeconds ({longest_seconds})",
        ),
        (
            refresh >= before + _REFRESH_MARGIN,
            _REFRESH,
            refresh,
            "must be at least 10 minutes after status.notBefore",
        ),
        (
            refresh <= after - _REFRESH_MARGIN,
            _REFRESH,
            refresh,
            "must be at least 10 minutes before status.notAfter",
        ),
    )
    failed = next(((field, value, detail) for valid, field, value, detail in checks if not valid), None)
    return [] if failed is None else [invalid_value(failed[0], _shown(failed[1]), failed[2])]


def _shown(value: datetime | timedelta) -> str | int:
    """Return a time or a duration as upstream formats it in messages; durations are nanoseconds."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    return int(value.total_seconds()) * 1_000_000_000
