"""Filters by the claims of a pod, and the bindings that a scheduling decision requires. No I/O."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import field

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, dig
from apiserver_stub.scheduling.model import NodeInfo, PodInfo
from apiserver_stub.scheduling.node_filters import Rejection
from apiserver_stub.scheduling.volume_matching import (
    READ_WRITE_ONCE_POD,
    accessible_from,
    annotations_of,
    class_of,
    delays_binding,
    find_match,
    is_fully_bound,
)
from apiserver_stub.scheduling.volume_names import VolumeNames
from nodeagent.base.structs import MutableStruct

BINDING, RESTRICTIONS = "VolumeBinding", "VolumeRestrictions"
_NO_PROVISIONER = "no-provisioner"
_NODE_CONFLICT = "node(s) had volume node affinity conflict"
_NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
_MISSING_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_ONE_POD = "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode"


class VolumeState(MutableStruct):
    """Claims, volumes and storage classes of the cluster, by key."""

    names: VolumeNames
    label_domain: str
    claims: dict[str, Object] = field(default_factory=dict)
    volumes: dict[str, Object] = field(default_factory=dict)
    classes: dict[str, Object] = field(default_factory=dict)

    def clear(self) -> None:
        self.claims.clear()
        self.volumes.clear()
        self.classes.clear()


class BindingPlan(MutableStruct):
    """Bindings that a pod on one node requires."""

    static: list[tuple[Object, Object]] = field(default_factory=list)
    """Volumes with the claims to which they are to be bound."""
    provision: list[Object] = field(default_factory=list)
    """Claims for which a volume is to be created."""

    def __bool__(self) -> bool:
        return bool(self.static or self.provision)


class PodVolumes:
    """The claims of one pod, sorted by the progress of their binding.

    :ivar conflict: the reason why the pod fits on no node, ``None`` if its claims allow some.
    """

    def __init__(self, state: VolumeState, pod: PodInfo, other_pods: Mapping[str, PodInfo]) -> None:
        self._state, self._plans = state, dict[str, BindingPlan]()
        self._bound: list[Object] = []
        self._delayed: list[Object] = []
        self.conflict: Rejection | None = None
        reasons = [text for name, owned in pod.claims if (text := self._sort(pod, name, owned=owned))]
        if reasons:
            self.conflict = Rejection(BINDING, (reasons[0],))
        elif self._used_elsewhere(pod, other_pods):
            self.conflict = Rejection(RESTRICTIONS, (_ONE_POD,), resolvable=True)

    def check(self, pod: PodInfo, node: NodeInfo) -> Rejection | None:
        """Return why *node* cannot use the claims; otherwise record the plan for it."""
        location, reasons, missing = (node.name, node.labels), [], False
        for claim in self._bound:
            volume = self._state.volumes.get(claim["spec"]["volumeName"])
            if volume is None:
                missing = True
            elif not accessible_from(volume, node.labels, node.name) and _NODE_CONFLICT not in reasons:
                reasons.append(_NODE_CONFLICT)
        plan = BindingPlan()
        for claim in self._delayed:
            selected = annotations_of(claim).get(self._state.names.selected_node)
            taken = [volume["metadata"]["name"] for volume, _ in plan.static]
            match = None
            if selected in (None, node.name):
                match = find_match(
                    claim, self._state.volumes.values(), self._state.names, delayed=True, node=location, excluded=taken
                )
            if match is not None and selected is None:
                plan.static.append((match, claim))
            elif selected in (None, node.name) and self._can_provision(claim, node):
                plan.provision.append(claim)
            else:
                reasons.append(_NO_VOLUME)
                break
        if missing:
            reasons.append(_MISSING_VOLUME)
        if reasons:
            return Rejection(BINDING, tuple(reasons))
        self._plans[node.name] = plan
        return None

    def plan(self, node: str) -> BindingPlan:
        """Return the bindings for the pod on *node*, which :meth:`check` accepted."""
        return self._plans.get(node) or BindingPlan()

    def _sort(self, pod: PodInfo, name: str, *, owned: bool) -> str:
        """Sort a claim; return the reason why it cannot be used by any pod now."""
        claim = self._state.claims.get(objects.key_of(pod.namespace, name))
        if claim is None:
            if owned:
                return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
            return f'persistentvolumeclaim "{name}" not found'
        metadata = claim["metadata"]
        if dig(claim, ("status", "phase")) == "Lost":
            volume = dig(claim, ("spec", "volumeName")) or ""
            return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
        if "deletionTimestamp" in metadata:
            return f'persistentvolumeclaim "{name}" is being deleted'
        owners = metadata.get("ownerReferences") or ()
        if owned and not any(owner.get("controller") and owner.get("uid") == pod.uid for owner in owners):
            return f"PVC {pod.namespace}/{name} was not created for pod {pod.namespace}/{pod.name} (pod is not owner)"
        if is_fully_bound(claim, self._state.names):
            self._bound.append(claim)
        elif not dig(claim, ("spec", "volumeName")) and delays_binding(claim, self._state.classes, self._state.names):
            self._delayed.append(claim)
        else:
            return "pod has unbound immediate PersistentVolumeClaims"
        return ""

    def _used_elsewhere(self, pod: PodInfo, others: Mapping[str, PodInfo]) -> bool:
        exclusive = {
            claim["metadata"]["name"]
            for claim in (*self._bound, *self._delayed)
            if READ_WRITE_ONCE_POD in (dig(claim, ("spec", "accessModes")) or ())
        }
        return bool(exclusive) and any(
            other.namespace == pod.namespace and any(name in exclusive for name, _ in other.claims)
            for other in others.values()
        )

    def _can_provision(self, claim: Object, node: NodeInfo) -> bool:
        found = self._state.classes.get(class_of(claim, self._state.names))
        if found is None or found.get("provisioner") in (None, f"{self._state.label_domain}/{_NO_PROVISIONER}"):
            return False
        terms = found.get("allowedTopologies") or ()
        return not terms or any(_allows(term, node) for term in terms)


def _allows(term: Object, node: NodeInfo) -> bool:
    expressions = term.get("matchLabelExpressions") or ()
    return all(node.labels.get(each.get("key") or "") in (each.get("values") or ()) for each in expressions)
