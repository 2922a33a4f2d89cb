"""TaintNodesByCondition admission plugin: taint new nodes as not ready."""

from __future__ import annotations

from typing import Self

from apiserver_stub.admission import AdmissionContext, AdmissionPlugin
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity


class TaintNodesByCondition(AdmissionPlugin):
    """Taint new nodes as not ready (spec: admission.TaintNodesByCondition).

    The node taint controller maintains the taints afterwards.
    """

    name = "TaintNodesByCondition"
    order = 1000
    enabled_by_default = True
    resources = ("nodes",)
    operations = ("CREATE",)

    def __init__(self, identity: Identity) -> None:
        self._not_ready = identity.label("not-ready", "node")

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.identity)

    async def admit(self, call: AdmissionRequest) -> None:
        spec = call.obj["spec"] = call.obj.get("spec") or {}
        taints = list(spec.get("taints") or ())
        if not any(item.get("key") == self._not_ready and item.get("effect") == "NoSchedule" for item in taints):
            spec["taints"] = [*taints, {"key": self._not_ready, "effect": "NoSchedule"}]
