"""CertificateSigning admission plugin: require the permission ``sign`` on the signer of a signed signing request."""

from __future__ import annotations

from typing import Self

from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.permission_checks import SignerPermission, signer_of
from apiserver_stub.apimachinery.objects import dig
from apiserver_stub.apimachinery.status import qualified
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base import identity

_GROUP = identity.current().group("certificates")
_REQUESTS = qualified("certificatesigningrequests", _GROUP)


class CertificateSigning(SignerPermission):
    """Require the permission ``sign`` on the signer of a signed signing request.

    spec: admission.CertificateSigning
    """

    name = "CertificateSigning"
    order = 2700
    enabled_by_default = True
    resources = (f"{_REQUESTS}/status",)
    operations = ("UPDATE",)
    verb = "sign"

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.authorize)

    async def validate(self, call: AdmissionRequest) -> None:
        old = call.old or {}
        same = (dig(old, ("status", name)) == dig(call.obj, ("status", name)) for name in ("certificate", "conditions"))
        signer = signer_of(old)
        if not all(same) and not await self.may_use(call.request.user, signer):
            raise call.forbidden(f'user not permitted to sign requests with signerName "{signer}"')
