"""Plugins that say the same to everything."""

from __future__ import annotations

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.verbs.admission import AdmissionRequest

_ALL = ("CREATE", "UPDATE", "DELETE", "CONNECT")


class AlwaysAdmit(AdmissionPlugin):
    """Has no objection (spec: admission.AlwaysAdmit)."""

    name = "AlwaysAdmit"
    operations = ()


class AlwaysDeny(AdmissionPlugin):
    """Refuses every change that a client asks for (spec: admission.AlwaysDeny)."""

    name = "AlwaysDeny"
    operations = _ALL

    async def validate(self, call: AdmissionRequest) -> None:
        raise call.refuse("admission control is denying all modifications")
