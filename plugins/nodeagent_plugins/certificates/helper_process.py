"""Helper process that creates keys and certificate requests, and reads certificates.

A separate process, because the agent needs the libraries only a few times a year. Reads one JSON request from standard
input and writes one JSON response to standard output; imports nothing else of the agent.
"""

from __future__ import annotations

import base64
import json
import sys
from datetime import datetime
from ipaddress import ip_address
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_EXTENDED = {ExtendedKeyUsageOID.CLIENT_AUTH: "client auth", ExtendedKeyUsageOID.SERVER_AUTH: "server auth"}


def make_request(request: dict[str, Any]) -> dict[str, Any]:
    """Return a certificate request, with a new P-256 key unless ``key`` is a valid one (PEM)."""
    try:
        key: Any = load_pem_private_key(request["key"].encode(), None)
    except (ValueError, TypeError):
        key = ec.generate_private_key(ec.SECP256R1())
    subject = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in request["organizations"]]
    subject.append(x509.NameAttribute(NameOID.COMMON_NAME, request["common_name"]))
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    names: list[x509.GeneralName] = [x509.DNSName(name) for name in request["dns_names"]]
    names += [x509.IPAddress(ip_address(address)) for address in request["addresses"]]
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    public = key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return {
        "key": key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
        "request": builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode(),
        "public_key": base64.b64encode(public).decode(),
    }


def describe(request: dict[str, Any]) -> dict[str, Any]:
    """Return the content of the first certificate in ``pem``; empty if none matches the key."""
    data = request["pem"].encode()
    try:
        certificate = x509.load_pem_x509_certificate(data)
        key = load_pem_private_key(data, None)
        names = _extension(certificate, x509.SubjectAlternativeName)
        usages = _extension(certificate, x509.ExtendedKeyUsage)
    except (ValueError, TypeError, x509.InvalidVersion, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
        return {}
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if certificate.public_key().public_bytes(*form) != key.public_key().public_bytes(*form):
        return {}
    subject = certificate.subject
    return {
        "not_before": _epoch(certificate.not_valid_before_utc),
        "not_after": _epoch(certificate.not_valid_after_utc),
        "common_name": next((str(a.value) for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)), ""),
        "organizations": [str(a.value) for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)],
        "dns_names": names.get_values_for_type(x509.DNSName) if names else [],
        "addresses": [str(a) for a in names.get_values_for_type(x509.IPAddress)] if names else [],
        "usages": [_EXTENDED[usage] for usage in usages or () if usage in _EXTENDED],
    }


def _extension(certificate: x509.Certificate, kind: Any) -> Any:
    try:
        return certificate.extensions.get_extension_for_class(kind).value
    except x509.ExtensionNotFound:
        return None


def _epoch(time: datetime) -> float:
    return time.timestamp()


if __name__ == "__main__":
    requested = json.load(sys.stdin)
    json.dump({"make_request": make_request, "describe": describe}[requested.pop("action")](requested), sys.stdout)
