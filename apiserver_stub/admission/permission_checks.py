"""Permission checks on the signer of a certificate request or trust bundle."""

from __future__ import annotations

from typing import Self

from apiserver_stub.admission import AdmissionContext, AdmissionPlugin
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.apimachinery.status import qualified
from apiserver_stub.cel.authorization import Decide
from nodeagent.base.identity import Identity


class SignerPermission(AdmissionPlugin):
    """Base of plugins that require a permission on the signer of an object."""

    plural = "certificatesigningrequests"
    """The plural of the handled resource."""
    subresource = ""
    """The handled subresource; empty for the resource itself."""
    verb = ""
    """The verb on ``signers`` that is required."""

    def __init__(self, authorize: Decide, identity: Identity) -> None:
        self._authorize, self._group = authorize, identity.group("certificates")
        label = qualified(self.plural, self._group)
        self.resources = (f"{label}/{self.subresource}" if self.subresource else label,)

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.authorize, context.identity)

    async def may_use(self, user: User, signer: str) -> bool:
        """Return whether *user* has the permission on *signer*, or on all signers of its domain."""
        domain = signer.partition("/")[0]
        for name in (signer, f"{domain}/*"):
            info = RequestInfo(self.verb, "", self._group, "*", "signers", name=name)
            if (await self._authorize(user, info))[0]:
                return True
        return False


def signer_of(obj: Object | None) -> str:
    """Return ``spec.signerName``; empty without one."""
    return str(dig(obj, ("spec", "signerName")) or "")
