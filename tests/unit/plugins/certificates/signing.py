"""A CA that signs the certificate requests of tests."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID

from nodeagent.base.tls import generate_ca
from nodeagent.testing import FakeApi
from nodeagent_plugins.certificates.issuance import REQUESTS

START = datetime(2024, 1, 2, 15, 4, 5, tzinfo=UTC)
AUTHORITY = generate_ca("test-ca")
_USAGES = {"client auth": ExtendedKeyUsageOID.CLIENT_AUTH, "server auth": ExtendedKeyUsageOID.SERVER_AUTH}


def sign(request: Any, begin: datetime = START, life: timedelta = timedelta(hours=10)) -> bytes:
    """Return the certificate for a CertificateSigningRequest."""
    requested = x509.load_pem_x509_csr(base64.b64decode(request["spec"]["request"]))
    authority = x509.load_pem_x509_certificate(AUTHORITY.certificate)
    key = load_pem_private_key(AUTHORITY.key, None)
    usages = [_USAGES[usage] for usage in request["spec"]["usages"] if usage in _USAGES]
    builder = (
        x509.CertificateBuilder()
        .subject_name(requested.subject)
        .issuer_name(authority.subject)
        .public_key(requested.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + life)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
    )
    for extension in requested.extensions:
        builder = builder.add_extension(extension.value, extension.critical)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)  # type: ignore[arg-type]


def approve(api: FakeApi, request: Any, certificate: bytes) -> None:
    """Set the certificate in the status of *request*."""
    status = {
        "conditions": [{"type": "Approved", "status": "True"}],
        "certificate": base64.b64encode(certificate).decode(),
    }
    api.put(REQUESTS, {**request, "status": status})


def deny(api: FakeApi, request: Any, kind: str = "Denied") -> None:
    condition = {"type": kind, "status": "True", "message": "not this one"}
    api.put(REQUESTS, {**request, "status": {"conditions": [condition]}})
