"""New nodes take no pods until they are ready."""

from __future__ import annotations

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base import identity

NOT_READY = identity.current().label("not-ready", "node")


class TaintNodesByCondition(AdmissionPlugin):
    """Taints new nodes; a controller keeps the taints as the conditions are (spec: admission.TaintNodesByCondition)."""

    name = "TaintNodesByCondition"
    resources = ("nodes",)
    operations = ("CREATE",)

    async def admit(self, call: AdmissionRequest) -> None:
        spec = call.obj["spec"] = call.obj.get("spec") or {}
        taints = list(spec.get("taints") or ())
        if not any(item.get("key") == NOT_READY and item.get("effect") == "NoSchedule" for item in taints):
            spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]
