"""Validation of cluster trust bundles."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from apiserver_stub.validation.trust_bundles import validate_bundle, validate_bundle_update


@cache
def certificate(ca: bool | None = True) -> str:
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(datetime(2024, 1, 1, tzinfo=UTC))
    builder = builder.not_valid_after(datetime(2124, 1, 1, tzinfo=UTC))
    if ca is not None:
        builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    return builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


@pytest.mark.parametrize(
    ("text", "details"),
    [
        (f"text before\n{certificate()}between\n", []),
        ("", ["at least one trust anchor must be provided"]),
        (certificate() * 2, ["duplicate trust anchor (indices [0 1])"]),
        (certificate(ca=False), ["entry 0 does not have the CA bit set"]),
        (certificate(ca=None), ["entry 0 does not have the CA bit set"]),
        (
            certificate() + certificate().replace("CERTIFICATE", "KEY"),
            ["entry 1 has bad block type: KEY"],
        ),
        (certificate().replace("-----\n", "-----\na: b\n\n", 1), ["entry 0 has PEM block headers"]),
        ("-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n", ["entry 0 does not parse as X.509"]),
        ("a" * (1 << 20) + "a", ["Too long: must have at most 1048576 bytes"]),
    ],
)
def test_errors_of_a_bundle_are_those_of_upstream(text: str, details: list[str]) -> None:
    messages = [cause.message for cause in validate_bundle({"trustBundle": text})]

    assert [message.removeprefix('Invalid value: "<value omitted>": ') for message in messages] == details


def test_signer_never_changes_and_old_certificates_stay_valid() -> None:
    old = {"signerName": "example.com/a", "trustBundle": "text"}

    assert validate_bundle_update(old, old) == []
    (cause,) = validate_bundle_update({**old, "signerName": "example.com/b"}, old)
    assert (cause.field, cause.message) == ("spec.signerName", 'Invalid value: "example.com/b": field is immutable')
