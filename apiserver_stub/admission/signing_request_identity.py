"""Record the requesting user in a certificate signing request; always enabled."""

from __future__ import annotations

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.apimachinery.status import qualified
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity


class SigningRequestIdentity(AdmissionPlugin):
    """Set user name, groups, UID and extra of a signing request, overriding those of the request body."""

    name = "SigningRequestIdentity"
    operations = ("CREATE",)

    def __init__(self, identity: Identity) -> None:
        self.resources = (qualified("certificatesigningrequests", identity.group("certificates")),)

    async def admit(self, call: AdmissionRequest) -> None:
        spec, user = call.obj.setdefault("spec", {}), call.request.user
        spec["username"], spec["groups"] = user.name, list(user.groups)
        for name, value in (("uid", user.uid), ("extra", {key: list(item) for key, item in user.extra.items()})):
            if value:
                spec[name] = value
            else:
                spec.pop(name, None)
