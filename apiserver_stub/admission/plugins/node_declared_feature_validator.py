"""NodeDeclaredFeatureValidator admission plugin: reject changes of pods that need features which their node lacks."""

from __future__ import annotations

from typing import Self

from apiserver_stub.admission import AdmissionPlugin
from apiserver_stub.admission.context import AdmissionContext
from apiserver_stub.admission.listers import Lister
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.verbs.admission import AdmissionRequest


class NodeDeclaredFeatureValidator(AdmissionPlugin):
    """Reject resizes that need a feature which the node of the pod does not declare."""

    name = "NodeDeclaredFeatureValidator"
    order = 3170
    enabled_by_default = True
    feature_gate = "NodeDeclaredFeatures"
    resources = ("pods", "pods/resize")
    operations = ("UPDATE",)

    def __init__(self, lister: Lister) -> None:
        self._lister = lister

    @classmethod
    async def create(cls, context: AdmissionContext) -> Self:
        return cls(context.lister)

    async def validate(self, call: AdmissionRequest) -> None:
        spec, before = call.obj["spec"], (call.old or {}).get("spec") or {}
        name = spec.get("nodeName")
        if not name or spec == before or not (needed := _needed_features(spec, before)):
            return
        node = self._lister.find("core/nodes", name)
        if node is None:
            raise call.forbidden(f'node "{name}" not found')
        declared = dig(node, ("status", "declaredFeatures")) or ()
        if missing := [feature for feature in needed if feature not in declared]:
            text = f"pod update requires features {', '.join(missing)} which are not available on node"
            raise call.forbidden(f'{text} "{name}"')


def _needed_features(new: Object, old: Object) -> list[str]:
    """Return the features that the change of a pod's spec from *old* to *new* needs, in alphabetical order."""
    found = []
    if new.get("resources") != old.get("resources"):
        found.append("InPlacePodLevelResourcesVerticalScaling")
    pairs = zip(new.get("initContainers") or (), old.get("initContainers") or (), strict=False)
    if any(
        before.get("restartPolicy") != "Always" and after.get("resources") != before.get("resources")
        for after, before in pairs
    ):
        found.append("InPlacePodVerticalScalingInitContainers")
    return found
