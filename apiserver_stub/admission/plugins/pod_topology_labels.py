"""PodTopologyLabels admission plugin: copy the zone and region of a node to the pods that are assigned to it."""

from __future__ import annotations

from typing import Self

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.listers import Lister
from apiserver_stub.apimachinery.objects import dig
from apiserver_stub.kinds.pod_binding import topology_labels
from apiserver_stub.verbs.admission import AdmissionRequest
from nodeagent.base.identity import Identity


class PodTopologyLabels(AdmissionPlugin):
    """Set the topology labels of the assigned node in new pods and bindings; a binding passes them to its pod."""

    name = "PodTopologyLabels"
    order = 3160
    enabled_by_default = True
    feature_gate = "PodTopologyLabelsAdmission"
    resources = ("pods", "pods/binding")
    operations = ("CREATE",)

    def __init__(self, lister: Lister, identity: Identity) -> None:
        self._lister, self._identity = lister, identity

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.lister, context.identity)

    async def admit(self, call: AdmissionRequest) -> None:
        if call.subresource:
            target = call.obj.get("target") or {}
            name = target.get("name") if target.get("kind") == "Node" else ""
        else:
            name = dig(call.obj, ("spec", "nodeName"))
        if not name:
            return
        if labels := topology_labels(self._lister.find("core/nodes", name), self._identity):
            metadata = call.obj.setdefault("metadata", {})
            metadata["labels"] = {**(metadata.get("labels") or {}), **labels}
