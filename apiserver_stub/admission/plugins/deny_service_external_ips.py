"""DenyServiceExternalIPs admission plugin: reject new external IPs of services."""

from __future__ import annotations

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.apimachinery.objects import dig
from apiserver_stub.verbs.admission import AdmissionRequest


class DenyServiceExternalIPs(AdmissionPlugin):
    """Reject new external IPs of services (spec: admission.DenyServiceExternalIPs)."""

    name = "DenyServiceExternalIPs"
    order = 3100
    enabled_by_default = False
    resources = ("services",)

    async def validate(self, call: AdmissionRequest) -> None:
        before = dig(call.old, ("spec", "externalIPs")) or ()
        if not set(dig(call.obj, ("spec", "externalIPs")) or ()).issubset(before):
            raise call.forbidden("Use of external IPs is denied by admission control")
