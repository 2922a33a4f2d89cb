"""Tests for the validation of the status of pod certificate requests: the certificate must match the request."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtensionOID

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.validation.pod_certificate_requests import public_bytes
from apiserver_stub.validation.pod_certificate_status import validate_status_update

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
KEY, OTHER_KEY = ed25519.Ed25519PrivateKey.generate(), ed25519.Ed25519PrivateKey.generate()


def chain(
    start: datetime = NOW, lifetime: timedelta = HOUR, key: Any = KEY, dns: str = "a.example.com", email: str = "a@b"
) -> str:
    name = x509.Name([])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(start).not_valid_after(start + lifetime)
    builder = builder.add_extension(alternative_names(dns, email), critical=False)
    return builder.sign(key, None).public_bytes(Encoding.PEM).decode()


def alternative_names(dns: str, email: str) -> x509.UnrecognizedExtension:
    """Return the subject alternative names in DER: the library rejects some invalid ones."""
    names = b"".join(bytes([tag, len(name)]) + name.encode() for tag, name in ((0x82, dns), (0x81, email)))
    return x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, bytes([0x30, len(names)]) + names)


def condition(type_: str) -> Object:
    return {"type": type_, "status": "True", "reason": "R", "lastTransitionTime": "2026-01-02T03:04:05Z"}


def status(
    text: str, start: datetime = NOW, end: datetime = NOW + HOUR, refresh: datetime = NOW + 30 * MINUTE
) -> Object:
    times = {"notBefore": start, "notAfter": end, "beginRefreshAt": refresh}
    shown = {name: time.strftime("%Y-%m-%dT%H:%M:%SZ") for name, time in times.items()}
    return {"conditions": [condition("Issued")], "certificateChain": text, **shown}


def problems(new: Object, old: Object | None = None) -> list[str]:
    key = base64.b64encode(public_bytes(KEY.public_key())).decode()
    request = {"spec": {"pkixPublicKey": key, "maxExpirationSeconds": 3600}}
    causes = validate_status_update({**request, "status": new}, {**request, "status": old or {}}, NOW)
    return [f"{cause.field}: {cause.message.rpartition(': ')[2]}" for cause in causes]


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (status(chain()), ""),
        (
            status(chain(key=OTHER_KEY)),
            "status.certificateChain: leaf certificate was not issued to the requested public key",
        ),
        (
            status(chain(), NOW + MINUTE),
            "status.notBefore: must be set to the NotBefore time encoded in the leaf certificate",
        ),
        (
            status(chain(NOW - 6 * MINUTE), NOW - 6 * MINUTE, NOW + 54 * MINUTE),
            "status.notBefore: must be set to within 5 minutes of kube-apiserver's current time",
        ),
        (
            status(chain(), end=NOW + 2 * HOUR),
            "status.notAfter: must be set to the NotAfter time encoded in the leaf certificate",
        ),
        (
            status(chain(lifetime=59 * MINUTE), end=NOW + 59 * MINUTE),
            "status.certificateChain: leaf certificate lifetime must be >= 1 hour",
        ),
        (
            status(chain(lifetime=2 * HOUR), end=NOW + 2 * HOUR),
            "status.certificateChain: leaf certificate lifetime must be <= spec.maxExpirationSeconds (3600)",
        ),
        (
            status(chain(), refresh=NOW + 9 * MINUTE),
            "status.beginRefreshAt: must be at least 10 minutes after status.notBefore",
        ),
        (
            status(chain(), refresh=NOW + 51 * MINUTE),
            "status.beginRefreshAt: must be at least 10 minutes before status.notAfter",
        ),
        (status(chain(), refresh=NOW + 10 * MINUTE), ""),
        (status(chain(), refresh=NOW + 50 * MINUTE), ""),
        (
            status(chain(dns="a..b")),
            "status.certificateChain: leaf certificate's DNSName should not contain '..'",
        ),
        (
            status(chain() + "-----BEGIN CERTIFICATE-----\nYWJj\n-----END CERTIFICATE-----\n"),
            "status.certificateChain: intermediate certificate does not parse as valid X.509",
        ),
    ],
)
def test_issued_certificate_matches_the_request(new: Object, expected: str) -> None:
    assert problems(new) == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("dns", "email", "expected"),
    [
        ("", "a@b", "leaf certificate should not contain empty DNSName"),
        (".a", "a@b", "leaf certificate's DNSName should not start or end with '.'"),
        ("a.", "a@b", "leaf certificate's DNSName should not start or end with '.'"),
        ("a", "@b", "leaf certificate should not contain invalid EmailAddress"),
        ("a", "a@", "leaf certificate should not contain invalid EmailAddress"),
        ("a", "a", "leaf certificate should not contain invalid EmailAddress"),
    ],
)
def test_names_of_the_certificate_are_validated(dns: str, email: str, expected: str) -> None:
    assert problems(status(chain(dns=dns, email=email))) == [f"status.certificateChain: {expected}"]


def test_decided_status_is_immutable() -> None:
    issued = status(chain())
    denied = {"conditions": [condition("Denied")]}

    assert problems(denied) == []
    assert problems(denied, issued) == ["status: immutable after PodCertificateRequest is issued, denied, or failed"]
