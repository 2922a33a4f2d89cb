"""Tests for the CertificateSubjectRestriction admission plugin."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from apiserver_stub.admission.plugins.certificate_subject_restriction import CertificateSubjectRestriction
from apiserver_stub.apimachinery.status import ApiError
from nodeagent.base.identity import Identity
from tests.unit.apiserver_stub.admission.conftest import make_call
from tests.unit.apiserver_stub.admission.signing_requests import signing_request

CLIENT = "kubernetes.io/kube-apiserver-client"


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
    spec = {"signerName": signer, "request": signing_request("system:masters", *organizations)}

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
