"""CertificateApproval admission plugin: require the permission ``approve`` on the signer of an approved request."""

from __future__ import annotations

from apiserver_stub.admission.permission_checks import SignerPermission, signer_of
from apiserver_stub.verbs.admission import AdmissionRequest


class CertificateApproval(SignerPermission):
    """Require the permission ``approve`` on the signer of an approved signing request.

    spec: admission.CertificateApproval
    """

    name = "CertificateApproval"
    order = 2600
    enabled_by_default = True
    subresource = "approval"
    operations = ("UPDATE",)
    verb = "approve"

    async def validate(self, call: AdmissionRequest) -> None:
        signer = signer_of(call.old)
        if not await self.may_use(call.request.user, signer):
            raise call.forbidden(f'user not permitted to approve requests with signerName "{signer}"')
