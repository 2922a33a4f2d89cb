"""CertificateSubjectRestriction admission plugin: reject client certificate requests for the superuser group."""

from __future__ import annotations

import base64
from typing import Self

from apiserver_stub.admission import AdmissionContext, AdmissionPlugin
from apiserver_stub.apimachinery.status import qualified
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity
from nodeagent.base.tls import parse_errors

_MASTERS = "system:masters"


class CertificateSubjectRestriction(AdmissionPlugin):
    """Reject client certificate requests for the superuser group (spec: admission.CertificateSubjectRestriction)."""

    name = "CertificateSubjectRestriction"
    order = 2900
    enabled_by_default = True
    operations = ("CREATE",)

    def __init__(self, identity: Identity) -> None:
        self.resources = (qualified("certificatesigningrequests", identity.group("certificates")),)
        self._client_signer = identity.label("kube-apiserver-client")

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.identity)

    async def validate(self, call: AdmissionRequest) -> None:
        spec = call.obj.get("spec") or {}
        if spec.get("signerName") != self._client_signer:
            return
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        try:
            text = base64.b64decode(str(spec.get("request") or ""), validate=True)
            subject = x509.load_pem_x509_csr(text).subject
        except parse_errors() as error:
            raise call.forbidden(f"failed to parse CSR: {error}") from error
        for organization in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME):
            if organization.value == _MASTERS:
                raise call.forbidden(f"use of {self._client_signer} signer with {_MASTERS} group is not allowed")
