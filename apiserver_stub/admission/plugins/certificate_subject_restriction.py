"""CertificateSubjectRestriction admission plugin: reject client certificate requests for the superuser group."""

from __future__ import annotations

import base64
import binascii

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.apimachinery.status import qualified
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base import identity

_GROUP = identity.current().group("certificates")
_REQUESTS = qualified("certificatesigningrequests", _GROUP)
_CLIENT_SIGNER = identity.current().label("kube-apiserver-client")
_MASTERS = "system:masters"


class CertificateSubjectRestriction(AdmissionPlugin):
    """Reject client certificate requests for the superuser group (spec: admission.CertificateSubjectRestriction)."""

    name = "CertificateSubjectRestriction"
    order = 2900
    enabled_by_default = True
    resources = (_REQUESTS,)
    operations = ("CREATE",)

    async def validate(self, call: AdmissionRequest) -> None:
        spec = call.obj.get("spec") or {}
        if spec.get("signerName") != _CLIENT_SIGNER:
            return
        from cryptography import x509
        from cryptography.x509.oid import NameOID

        try:
            text = base64.b64decode(str(spec.get("request") or ""), validate=True)
            subject = x509.load_pem_x509_csr(text).subject
        except (ValueError, binascii.Error) as error:
            raise call.forbidden(f"failed to parse CSR: {error}") from error
        for organization in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME):
            if organization.value == _MASTERS:
                raise call.forbidden(f"use of {_CLIENT_SIGNER} signer with {_MASTERS} group is not allowed")
