"""CertificateSigning admission plugin: require the permission ``sign`` on the signer of a signed signing request."""

from __future__ import annotations

from apiserver_stub.admission.permission_checks import SignerPermission, signer_of
from apiserver_stub.apimachinery.objects import dig
from apiserver_stub.verbs.admission import AdmissionRequest


class CertificateSigning(SignerPermission):
    """Require the permission ``sign`` on the signer of a signed signing request.

    spec: admission.CertificateSigning
    """

    name = "CertificateSigning"
    order = 2700
    enabled_by_default = True
    subresource = "status"
    operations = ("UPDATE",)
    verb = "sign"

    async def validate(self, call: AdmissionRequest) -> None:
        old = call.old or {}
        same = (dig(old, ("status", name)) == dig(call.obj, ("status", name)) for name in ("certificate", "conditions"))
        signer = signer_of(old)
        if not all(same) and not await self.may_use(call.request.user, signer):
            raise call.forbidden(f'user not permitted to sign requests with signerName "{signer}"')
