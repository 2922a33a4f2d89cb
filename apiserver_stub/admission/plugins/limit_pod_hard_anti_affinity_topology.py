"""LimitPodHardAntiAffinityTopology admission plugin: restrict required pod anti-affinity to the host name."""

from __future__ import annotations

from typing import Self

from apiserver_stub.admission import AdmissionContext, AdmissionPlugin
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity


class LimitPodHardAntiAffinityTopology(AdmissionPlugin):
    """Restrict required pod anti-affinity to the host name (spec: admission.LimitPodHardAntiAffinityTopology)."""

    name = "LimitPodHardAntiAffinityTopology"
    order = 600
    enabled_by_default = False
    resources = ("pods",)

    def __init__(self, identity: Identity) -> None:
        self._hostname = identity.label("hostname")

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.identity)

    async def validate(self, call: AdmissionRequest) -> None:
        anti_affinity = (call.obj["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
        for term in anti_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            key = term.get("topologyKey") or ""
            if key != self._hostname:
                text = f"affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} "
                raise call.forbidden(f"{text}but only key {self._hostname} is allowed")
