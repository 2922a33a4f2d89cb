"""LimitPodHardAntiAffinityTopology admission plugin: restrict required pod anti-affinity to the host name."""

from __future__ import annotations

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base import identity

_HOSTNAME = identity.current().label("hostname")


class LimitPodHardAntiAffinityTopology(AdmissionPlugin):
    """Restrict required pod anti-affinity to the host name (spec: admission.LimitPodHardAntiAffinityTopology)."""

    name = "LimitPodHardAntiAffinityTopology"
    order = 600
    enabled_by_default = False
    resources = ("pods",)

    async def validate(self, call: AdmissionRequest) -> None:
        anti_affinity = (call.obj["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
        for term in anti_affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            key = term.get("topologyKey") or ""
            if key != _HOSTNAME:
                text = f"affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey {key} "
                raise call.forbidden(f"{text}but only key {_HOSTNAME} is allowed")
