"""Permission checks on the signer of a certificate request or trust bundle."""

from __future__ import annotations

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.apimachinery.request import RequestInfo, User
from apiserver_stub.cel.authorization import Decide
from nodeagent.base import identity

_GROUP = identity.current().group("certificates")


class SignerPermission(AdmissionPlugin):
    """Base of plugins that require a permission on the signer of an object."""

    verb = ""
    """The verb on ``signers`` that is required."""

    def __init__(self, authorize: Decide) -> None:
        self._authorize = authorize

    async def may_use(self, user: User, signer: str) -> bool:
        """Return whether *user* has the permission on *signer*, or on all signers of its domain."""
        domain = signer.partition("/")[0]
        for name in (signer, f"{domain}/*"):
            info = RequestInfo(self.verb, "", _GROUP, "*", "signers", name=name)
            if (await self._authorize(user, info))[0]:
                return True
        return False


def signer_of(obj: Object | None) -> str:
    """Return ``spec.signerName``; empty without one."""
    return str(dig(obj, ("spec", "signerName")) or "")
