"""AlwaysDeny admission plugin: reject every write."""

from __future__ import annotations

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.verbs.admission import AdmissionRequest

_ALL = ("CREATE", "UPDATE", "DELETE", "CONNECT")


class AlwaysDeny(AdmissionPlugin):
    """Reject every write (spec: admission.AlwaysDeny)."""

    name = "AlwaysDeny"
    order = 3600
    enabled_by_default = False
    deprecated = True
    operations = _ALL

    async def validate(self, call: AdmissionRequest) -> None:
        raise call.forbidden("admission control is denying all modifications")
