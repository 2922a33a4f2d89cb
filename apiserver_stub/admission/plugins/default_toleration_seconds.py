"""DefaultTolerationSeconds admission plugin: tolerate nodes that are not ready or unreachable for a limited time."""

from __future__ import annotations

from typing import Self

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity


class DefaultTolerationSeconds(AdmissionPlugin):
    """Tolerate nodes that are not ready or unreachable for a limited time.

    spec: admission.DefaultTolerationSeconds, opt.default-not-ready-toleration-seconds,
    opt.default-unreachable-toleration-seconds
    """

    name = "DefaultTolerationSeconds"
    order = 1600
    enabled_by_default = True
    resources = ("pods",)

    def __init__(self, not_ready_seconds: int, unreachable_seconds: int, identity: Identity) -> None:
        self._seconds = {
            identity.label("not-ready", "node"): not_ready_seconds,
            identity.label("unreachable", "node"): unreachable_seconds,
        }

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        tolerations = context.default_tolerations
        return cls(tolerations.not_ready_seconds, tolerations.unreachable_seconds, context.identity)

    async def admit(self, call: AdmissionRequest) -> None:
        spec = call.obj["spec"]
        tolerations = list(spec.get("tolerations") or ())
        for key, seconds in self._seconds.items():
            if not any(
                item.get("key") in (None, "", key) and item.get("effect") in (None, "", "NoExecute")
                for item in tolerations
            ):
                toleration = {"key": key, "operator": "Exists", "effect": "NoExecute"}
                tolerations.append({**toleration, "tolerationSeconds": seconds})
        spec["tolerations"] = tolerations
