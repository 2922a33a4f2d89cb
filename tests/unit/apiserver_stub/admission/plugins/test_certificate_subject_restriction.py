"""Tests for the CertificateSubjectRestriction admission plugin."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from apiserver_stub.admission.plugins.certificate_subject_restriction import CertificateSubjectRestriction
from apiserver_stub.apimachinery.status import ApiError
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.admission.conftest import make_call

CLIENT = "kubernetes.io/kube-apiserver-client"


def signing_request(*organizations: str) -> str:
    """Return an encoded signing request for a user in *organizations*."""
    names = [x509.NameAttribute(NameOID.COMMON_NAME, "system:masters")]
    names += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
    key = ec.generate_private_key(ec.SECP256R1())
    request = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(names)).sign(key, hashes.SHA256())
    return base64.b64encode(request.public_bytes(Encoding.PEM)).decode()


@pytest.mark.parametrize(
    ("signer", "organizations", "problem"),
    [
        (CLIENT, ["dev"], ""),
        (CLIENT, [], ""),
        (CLIENT, ["dev", "system:masters"], f"use of {CLIENT} signer with system:masters group is not allowed"),
        ("example.com/x", ["system:masters"], ""),
    ],
)
@pytest.mark.row("admission.CertificateSubjectRestriction")
async def test_client_certificates_are_not_for_superusers(signer: str, organizations: list[str], problem: str) -> None:
    spec = {"signerName": signer, "request": signing_request(*organizations)}

    assert await rejection(spec) == problem


@pytest.mark.parametrize("request_text", [None, "", "!", base64.b64encode(b"x").decode()])
async def test_request_that_cannot_be_parsed_is_rejected(request_text: str | None) -> None:
    assert (await rejection({"signerName": CLIENT, "request": request_text})).startswith("failed to parse CSR: ")


async def rejection(spec: Any) -> str:
    try:
        await CertificateSubjectRestriction(Identity()).validate(make_call({"metadata": {"name": "r"}, "spec": spec}))
    except ApiError as error:
        return error.message.partition("is forbidden: ")[2]
    return ""
