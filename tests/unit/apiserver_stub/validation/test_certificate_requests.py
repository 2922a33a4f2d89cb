"""Validation of certificate signing requests."""

from __future__ import annotations

import base64
from functools import cache
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.validation.certificate_requests import validate_request, validate_request_update
from nodeagent.base.identity import Identity

APPROVED, DENIED = ({"type": type_, "status": "True"} for type_ in ("Approved", "Denied"))


@cache
def signing_request() -> bytes:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "jane")])
    builder = x509.CertificateSigningRequestBuilder().subject_name(name)
    return builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256()).public_bytes(Encoding.PEM)


def coded(text: bytes) -> str:
    return base64.b64encode(text).decode()


def request(*conditions: dict[str, str], certificate: bytes = b"", **spec: Any) -> dict[str, Any]:
    usual = {"request": coded(signing_request()), "signerName": "example.com/a", "usages": ["client auth"]}
    status = {"conditions": list(conditions), "certificate": coded(certificate)}
    return {"metadata": {"name": "a"}, "spec": {**usual, **spec}, "status": status}


def short(causes: list[Cause]) -> list[tuple[str, str]]:
    return [(cause.reason.removeprefix("FieldValue"), cause.field.removeprefix("spec.")) for cause in causes]


@pytest.mark.parametrize(
    ("spec", "errors"),
    [
        ({}, []),
        ({"request": ""}, [("Invalid", "request")]),
        (
            {"request": coded(b"-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n")},
            [("Invalid", "request")],
        ),
        ({"usages": []}, [("Required", "usages")]),
        ({"usages": ["any", "any", "all"]}, [("Duplicate", "usages[1]"), ("NotSupported", "usages[2]")]),
        ({"signerName": ""}, [("Required", "signerName")]),
        ({"signerName": "kubernetes.io/legacy-unknown"}, [("Invalid", "signerName")]),
        ({"expirationSeconds": 599}, [("Invalid", "expirationSeconds")]),
    ],
)
def test_errors_of_a_request_are_those_of_upstream(spec: dict[str, Any], errors: list[tuple[str, str]]) -> None:
    assert short(validate_request(request(**spec), Identity())) == errors


def test_request_with_a_wrong_signature_is_invalid() -> None:
    parsed = x509.load_pem_x509_csr(signing_request()).public_bytes(Encoding.DER)
    body = base64.encodebytes(parsed[:-1] + bytes([parsed[-1] ^ 1]))
    text = b"-----BEGIN CERTIFICATE REQUEST-----\n" + body + b"-----END CERTIFICATE REQUEST-----\n"

    assert short(validate_request(request(request=coded(text)), Identity())) == [("Invalid", "request")]


@pytest.mark.parametrize(
    ("conditions", "errors"),
    [
        ([{"type": "Ready", "status": "False"}], []),
        ([{}], [("Required", "type"), ("Required", "status")]),
        ([{"type": "Failed", "status": "False"}], [("NotSupported", "status")]),
        ([{"type": "Ready", "status": "No"}], [("NotSupported", "status")]),
    ],
)
def test_errors_of_a_condition_are_those_of_upstream(
    conditions: list[dict[str, str]], errors: list[tuple[str, str]]
) -> None:
    found = short(validate_request_update(request(*conditions), request(), "status", Identity()))

    assert found == [(reason, f"status.conditions[0].{field}") for reason, field in errors]


@pytest.mark.parametrize(
    ("new", "old", "subresource", "errors"),
    [
        ([APPROVED], [], "approval", []),
        ([APPROVED], [], "status", [("Forbidden", "status.conditions")]),
        ([], [APPROVED], "approval", [("Forbidden", "status.conditions")]),
        ([{**APPROVED, "reason": "r"}], [APPROVED], "status", [("Forbidden", "status.conditions")]),
        ([{**APPROVED, "reason": "r"}], [APPROVED], "approval", []),
        ([APPROVED, DENIED], [], "approval", [("Invalid", "status.conditions[1].type")]),
        ([APPROVED, DENIED], [DENIED, APPROVED], "approval", []),
        ([APPROVED, APPROVED], [APPROVED], "approval", [("Duplicate", "status.conditions[1].type")]),
    ],
)
def test_decisions_are_made_by_approval_only(
    new: list[Any], old: list[Any], subresource: str, errors: list[tuple[str, str]]
) -> None:
    assert short(validate_request_update(request(*new), request(*old), subresource, Identity())) == errors


@pytest.mark.parametrize(
    ("new", "old", "subresource", "errors"),
    [
        (b"text", b"", "status", [("Invalid", "status.certificate")]),
        (b"text", b"text", "status", []),
        (b"", b"text", "status", [("Forbidden", "status.certificate")]),
        (signing_request(), b"", "status", [("Invalid", "status.certificate")]),
        (b"", b"text", "approval", [("Forbidden", "status.certificate")]),
    ],
)
def test_certificate_is_set_once(new: bytes, old: bytes, subresource: str, errors: list[tuple[str, str]]) -> None:
    after, before = request(certificate=new), request(certificate=old)

    assert short(validate_request_update(after, before, subresource, Identity())) == errors


def test_block_without_a_certificate_is_invalid() -> None:
    new = request(certificate=b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n")

    (cause,) = validate_request_update(new, request(), "status", Identity())

    assert cause.field == "status.certificate"
    assert "found CERTIFICATE PEM block containing 0 certificates" in cause.message


def test_update_accepts_unchanged_invalid_values() -> None:
    old = request(usages=["all", "all"], signerName="kubernetes.io/legacy-unknown")

    assert validate_request_update(old, old, "", Identity()) == []
