"""PodCertificateSigning: require the permission ``sign`` on the signer of a pod certificate request.

Upstream enforces it in the validation of the kind; it is always enabled.
"""

from __future__ import annotations

from apiserver_stub.admission.permission_checks import SignerPermission, signer_of
from apiserver_stub.apimachinery.status import forbidden_value, invalid, quote
from apiserver_stub.verbs.admission import AdmissionRequest


class PodCertificateSigning(SignerPermission):
    """Require the permission ``sign`` on the signer for changes of the status."""

    name = "PodCertificateSigning"
    plural = "podcertificaterequests"
    subresource = "status"
    operations = ("UPDATE",)
    verb = "sign"

    async def validate(self, call: AdmissionRequest) -> None:
        old, user = call.old or {}, call.request.user
        signer = signer_of(old)
        if (old.get("status") or {}) == (call.obj.get("status") or {}) or await self.may_use(user, signer):
            return
        detail = f'User {quote(user.name)} is not permitted to "sign" for signer {quote(signer)}'
        resource, name = call.resource, call.target
        raise invalid(resource.group, resource.kind, name, [forbidden_value("spec.signerName", detail)])
