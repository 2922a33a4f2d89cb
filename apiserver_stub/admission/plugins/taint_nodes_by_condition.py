"""TaintNodesByCondition admission plugin: taint new nodes as not ready."""

from __future__ import annotations

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base import identity

NOT_READY = identity.current().label("not-ready", "node")


class TaintNodesByCondition(AdmissionPlugin):
    """Taint new nodes as not ready (spec: admission.TaintNodesByCondition).

    The node taint controller maintains the taints afterwards.
    """

    name = "TaintNodesByCondition"
    order = 1000
    enabled_by_default = True
    resources = ("nodes",)
    operations = ("CREATE",)

    async def admit(self, call: AdmissionRequest) -> None:
        spec = call.obj["spec"] = call.obj.get("spec") or {}
        taints = list(spec.get("taints") or ())
        if not any(item.get("key") == NOT_READY and item.get("effect") == "NoSchedule" for item in taints):
            spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]
