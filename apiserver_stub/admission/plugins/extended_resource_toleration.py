"""ExtendedResourceToleration admission plugin: tolerate the taints of nodes with requested extended resources."""

from __future__ import annotations

from typing import Self

from apiserver_stub.admission import AdmissionContext, AdmissionPlugin
from apiserver_stub.admission.pod_fields import containers
from apiserver_stub.admission.tolerations import is_extended
from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity


class ExtendedResourceToleration(AdmissionPlugin):
    """Tolerate the taints of nodes that are dedicated to requested extended resources.

    spec: admission.ExtendedResourceToleration
    """

    name = "ExtendedResourceToleration"
    order = 1900
    enabled_by_default = False
    resources = ("pods",)

    def __init__(self, identity: Identity) -> None:
        self._label_domain = identity.label_domain

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.identity)

    async def admit(self, call: AdmissionRequest) -> None:
        spec = call.obj["spec"]
        requested = {
            name
            for _, container in containers(spec, "initContainers", "containers")
            for name in (container.get("resources") or {}).get("requests") or ()
            if is_extended(name, self._label_domain)
        }
        added: list[Object] = [
            {"key": name, "operator": "Exists", "effect": "NoSchedule"} for name in sorted(requested)
        ]
        if added:
            tolerations = list(spec.get("tolerations") or ())
            present = [(item.get("key"), item.get("operator"), item.get("effect")) for item in tolerations]
            spec["tolerations"] = tolerations + [
                item for item in added if (item["key"], item["operator"], item["effect"]) not in present
            ]
