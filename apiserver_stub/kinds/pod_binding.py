"""Binding of pods to nodes. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from nodeagent.base.gates import FeatureGates
from nodeagent.base.identity import Identity
from nodeagent.base.structs import Struct

_SCHEDULED = "PodScheduled"


class BindingRules(Struct, frozen=True):
    """Effects of a binding that depend on feature gates."""

    copies_labels: bool = False
    """The pod receives the topology labels of its node, and all labels of the Binding."""
    clears_nomination: bool = False
    """The nominated node is removed from the status."""

    @classmethod
    def of(cls, gates: FeatureGates) -> BindingRules:
        return cls(gates.enabled("PodTopologyLabelsAdmission"), gates.enabled("ClearingNominatedNodeNameAfterBinding"))


def topology_labels(node: Object | None, identity: Identity) -> dict[str, str]:
    """Return the labels of *node* that its pods receive."""
    labels = ((node or {}).get("metadata") or {}).get("labels") or {}
    keys = [identity.label(name, "topology") for name in ("zone", "region")]
    return {key: labels[key] for key in keys if key in labels}


def bound(pod: Object, node: str, rules: BindingRules, labels: Mapping[str, str] | None = None) -> Object:
    """Return *pod* assigned to *node*, with the *labels* of the Binding if the rules require it."""
    conditions = list(dig(pod, ("status", "conditions")) or ())
    index = next((i for i, item in enumerate(conditions) if item.get("type") == _SCHEDULED), len(conditions))
    old = conditions[index] if index < len(conditions) else {}
    since = old.get("lastTransitionTime") if old.get("status") == "True" else objects.now()
    conditions[index : index + 1] = [
        {"type": _SCHEDULED, "status": "True", "lastProbeTime": None, "lastTransitionTime": since}
    ]
    metadata, status = pod["metadata"], {**pod.get("status", {}), "conditions": conditions}
    if rules.copies_labels and labels:
        metadata = {**metadata, "labels": {**(metadata.get("labels") or {}), **labels}}
    if rules.clears_nomination:
        status.pop("nominatedNodeName", None)
    return {**pod, "metadata": metadata, "spec": {**pod["spec"], "nodeName": node}, "status": status}
