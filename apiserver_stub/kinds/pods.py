"""Pods: strategy and declaration of the resource."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from apiserver_stub.apimachinery import objects
from apiserver_stub.apimachinery.objects import Object, decode, dig, encode
from apiserver_stub.apimachinery.status import Cause
from apiserver_stub.defaulting.pod_spec import POD, POD_STATUS, drop_annotations, init_annotations
from apiserver_stub.kinds.columns import AGE, NAME, at
from apiserver_stub.kinds.disabled_fields import drop_from_pod, drop_from_status
from apiserver_stub.kinds.observed_generations import keep_observed_generations
from apiserver_stub.kinds.pod_status import ready_containers, restarts, row_conditions, shown_status
from apiserver_stub.kinds.registry import PROXY_VERBS, Column, Resource, Strategy, Subresource
from apiserver_stub.schema import field_validation, shapes
from apiserver_stub.validation.affinity import affinity_terms
from apiserver_stub.validation.apparmor import apparmor_warnings, copy_apparmor_profiles
from apiserver_stub.validation.pod import validate_new_pod
from apiserver_stub.validation.pod_annotations import keys
from apiserver_stub.validation.pod_exemptions import options_for_update
from apiserver_stub.validation.pod_options import FIELD_GATES, PodOptions
from apiserver_stub.validation.pod_qos import qos_class
from apiserver_stub.validation.pod_resize import resized, validate_pod_resize
from apiserver_stub.validation.pod_status import QOS_CLASS_KEPT, validate_pod_status
from apiserver_stub.validation.pod_update import validate_ephemeral_update, validate_pod_update
from apiserver_stub.validation.pod_warnings import pod_status_warnings, pod_warnings
from nodeagent.base.names import label_problems
from nodeagent.base.release import OLDEST, Release

if TYPE_CHECKING:
    from apiserver_stub.kinds.settings import KindSettings
    from nodeagent.base.gates import FeatureGates
    from nodeagent.base.identity import Identity

_IDENTITY = ("uid", "resourceVersion")
_CHANGED_BY_RESIZE = (*_IDENTITY, "managedFields")
_FINISHED = ("Succeeded", "Failed")
_APPARMOR_FIELDS_ONLY = Release(1, 34)
"""First release that does not copy AppArmor profiles from fields to annotations."""
_RESIZED_BY_SUBRESOURCE = Release(1, 32)
"""First release in which plain updates cannot change resources."""
_GENERATION = Release(1, 33)
"""First release that counts the generation of pods, and keeps observed generations."""
_GATED_SINCE = Release(1, 32)
"""First release in which the condition of gated pods has a transition time."""
_GATED = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "lastTransitionTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
"""Condition of a pod whose scheduling gates block scheduling."""


def pod_options(
    gates: FeatureGates, identity: Identity, *, allow_privileged: bool, release: Release = OLDEST
) -> PodOptions:
    """Return the validation options of pod templates."""
    return PodOptions(
        identity,
        allow_privileged=allow_privileged,
        allow_host_ips=gates.enabled("PodHostIPs"),
        allow_scheduling_changes=gates.enabled("PodSchedulingReadiness"),
        allow_resize=gates.enabled("InPlacePodVerticalScaling"),
        resize_by_update=release < _RESIZED_BY_SUBRESOURCE,
        release=release,
        features=frozenset(gate for gate in FIELD_GATES if gates.enabled(gate)),
        any_deletion_cost=not gates.enabled("PodDeletionCost"),
    )


class PodStrategy(Strategy):
    """Pods; once bound, a pod is removed when its node reports that it has terminated."""

    graceful = True
    # Kubelets of old releases corrupt owner references, which breaks garbage collection.
    status_keeps = ("deletionTimestamp", "ownerReferences")

    def __init__(
        self, gates: FeatureGates, identity: Identity, *, allow_privileged: bool = True, release: Release = OLDEST
    ) -> None:
        """Create the strategy; containers may be privileged only if *allow_privileged* (spec: opt.allow-privileged)."""
        self._gates, self._identity = gates, identity
        self._init_annotations = init_annotations(identity)
        self._apparmor_prefix = keys(identity).apparmor_prefix
        self._options = replace(
            pod_options(gates, identity, allow_privileged=allow_privileged, release=release), is_pod=True
        )
        self._resizes = gates.enabled("InPlacePodVerticalScaling")
        self._resizes_pod_level = gates.enabled("InPlacePodLevelResourcesVerticalScaling")
        self.counted = ("spec",) if self._resizes or release >= _GENERATION else ()
        self._merges_spread_keys = gates.enabled("MatchLabelKeysInPodTopologySpreadSelectorMerge")
        self._selects_by_keys = gates.enabled("MatchLabelKeysInPodAffinity")

    def default(self, new: Object) -> None:
        drop_annotations(new["metadata"], self._init_annotations)
        POD.apply(new)

    def default_status(self, new: Object) -> None:
        POD_STATUS.apply(new.setdefault("status", {}))

    def warnings_as_sent(self, new: Object) -> list[str]:
        return apparmor_warnings(new, self._apparmor_prefix) if "AppArmorFields" in self._options.features else []

    def prepare_create(self, new: Object) -> None:
        spec = new["spec"]
        drop_from_pod(self._gates, self._apparmor_prefix, new)
        new["status"] = {"phase": "Pending", "qosClass": dig(new, ("status", "qosClass")) or qos_class(spec)}
        if "AppArmorFields" in self._options.features:
            to_annotations = self._options.release < _APPARMOR_FIELDS_ONLY
            copy_apparmor_profiles(new, self._apparmor_prefix, to_annotations=to_annotations)
        if spec.get("schedulingGates"):
            since = objects.now() if self._options.release >= _GATED_SINCE else None
            new["status"]["conditions"] = [{**_GATED, "lastTransitionTime": since}]
        if self._selects_by_keys and (affinity := spec.get("affinity")):
            labels = new["metadata"].get("labels") or {}
            for term in affinity_terms(affinity):
                _select_by_keys(term, labels)
        if self._merges_spread_keys:
            for constraint in spec.get("topologySpreadConstraints") or ():
                _select_by_keys(constraint, new["metadata"].get("labels") or {})

    def validate(self, new: Object) -> list[Cause]:
        return validate_new_pod(new, self._options)

    def prepare_update(self, new: Object, old: Object, subresource: str) -> None:
        if subresource == "ephemeralcontainers":
            self.default(new)
            sent = new["metadata"]
            metadata = {**old["metadata"], **{name: sent[name] for name in _IDENTITY if name in sent}}
            spec = {name: value for name, value in old["spec"].items() if name != "ephemeralContainers"}
            if added := new["spec"].get("ephemeralContainers"):
                spec["ephemeralContainers"] = added
            new.clear()
            new.update({**old, "metadata": metadata, "spec": spec})
            drop_from_pod(self._gates, self._apparmor_prefix, new, old)
            return
        if subresource == "resize":
            POD.apply(new)
            sent = new["metadata"]
            metadata = {**old["metadata"], **{name: sent[name] for name in _CHANGED_BY_RESIZE if name in sent}}
            spec = resized(new, old, pod_level=self._resizes_pod_level)
            new.clear()
            new.update({**old, "metadata": metadata, "spec": spec})
            drop_from_pod(self._gates, self._apparmor_prefix, new, old)
            return
        super().prepare_update(new, old, subresource)
        if subresource != "status":
            drop_from_pod(self._gates, self._apparmor_prefix, new, old)
            return
        if self._options.release >= QOS_CLASS_KEPT:
            _keep_qos_class(new, old)
        if self._options.release >= _GENERATION:
            keep_observed_generations(new, old)
            drop_from_status(self._gates, new, old)

    def validate_update(self, new: Object, old: Object, subresource: str) -> list[Cause]:
        options = options_for_update(self._options, old["metadata"], old["spec"])
        if subresource == "status":
            return validate_pod_status(new, old, options)
        if subresource == "ephemeralcontainers":
            return validate_ephemeral_update(new, old, options)
        if subresource == "resize":
            return validate_pod_resize(
                new,
                old,
                options,
                init_containers=self._gates.enabled("InPlacePodVerticalScalingInitContainers"),
                pod_level=self._resizes_pod_level,
            )
        return validate_pod_update(new, old, options, _with_defaults)

    def warnings(self, new: Object, old: Object | None) -> list[str]:
        if old is not None:  # Updates are frequent and come from controllers.
            return []
        warnings = pod_warnings(new["metadata"], new["spec"], self._identity, release=self._options.release)
        if problems := label_problems(new["metadata"].get("name") or ""):
            start = "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
            warnings.insert(0, f"{start}a DNS label is recommended: [{' '.join(problems)}]")
        return warnings

    def status_warnings(self, new: Object) -> list[str]:
        return pod_status_warnings(new.get("status") or {}, self._options.release)

    def grace_seconds(self, obj: Object, requested: int | None) -> int:
        spec = obj["spec"]
        if not spec.get("nodeName") or dig(obj, ("status", "phase")) in _FINISHED:
            return 0
        grace: int = spec.get("terminationGracePeriodSeconds", 30) if requested is None else requested
        grace = grace if grace >= 0 else 1
        metadata = obj["metadata"]
        if "deletionTimestamp" not in metadata or grace == 0:
            return grace
        pending: int = metadata.get("deletionGracePeriodSeconds") or 0
        return min(pending, grace) if requested is not None else pending


def resources(settings: KindSettings) -> list[Resource]:
    return [
        Resource(
            "",
            "v1",
            "Pod",
            "pods",
            short_names=("po",),
            categories=("all",),
            strategy=PodStrategy(
                settings.gates,
                settings.identity,
                allow_privileged=settings.allow_privileged,
                release=settings.compatibility_version,
            ),
            subresources=(
                Subresource("attach", ("create", "get"), "PodAttachOptions"),
                Subresource("binding", ("create",), "Binding"),
                Subresource("ephemeralcontainers"),
                Subresource("eviction", ("create",), "Eviction", "policy", "v1"),
                Subresource("exec", ("create", "get"), "PodExecOptions"),
                Subresource("log", ("get",)),
                Subresource("portforward", ("create", "get"), "PodPortForwardOptions"),
                Subresource("proxy", PROXY_VERBS, "PodProxyOptions"),
                *([Subresource("resize")] if settings.gates.enabled("InPlacePodVerticalScaling") else ()),
                Subresource("status"),
            ),
            columns=(
                NAME,
                Column("Ready", ready_containers, description="Number of ready containers and of all containers."),
                Column("Status", shown_status, description="State of the pod."),
                Column("Restarts", restarts, description="Number of container restarts."),
                AGE,
                at("IP", "status.podIP", wide=True),
                at("Node", "spec.nodeName", wide=True),
                at("Nominated Node", "status.nominatedNodeName", wide=True),
                Column("Readiness Gates", _gates, wide=True),
            ),
            row_conditions=row_conditions,
            fields={
                "spec.nodeName": ("spec", "nodeName"),
                "spec.restartPolicy": ("spec", "restartPolicy"),
                "spec.schedulerName": ("spec", "schedulerName"),
                "spec.serviceAccountName": ("spec", "serviceAccountName"),
                "spec.hostNetwork": ("spec", "hostNetwork"),
                "status.phase": ("status", "phase"),
                "status.podIP": ("status", "podIP"),
                "status.podIPs": ("status", "podIP"),
                "status.nominatedNodeName": ("status", "nominatedNodeName"),
            },
            returns_deleted=True,
        ),
        Resource("", "v1", "Binding", "bindings", verbs=("create",)),
    ]


def _keep_qos_class(new: Object, old: Object) -> None:
    known = dig(old, ("status", "qosClass"))
    if known and not dig(new, ("status", "qosClass")):
        new["status"] = {**(new.get("status") or {}), "qosClass": known}


def _gates(pod: Object) -> Any:
    gates = dig(pod, ("spec", "readinessGates")) or ()
    if not gates:
        return "<none>"
    conditions = {item["type"]: item.get("status") for item in dig(pod, ("status", "conditions")) or ()}
    met = sum(conditions.get(gate.get("conditionType")) == "True" for gate in gates)
    return f"{met}/{len(gates)}"


def _select_by_keys(term: Object, labels: Object) -> None:
    """Add the label keys of a pod affinity term to its selector, with the values of the new pod's *labels*."""
    if (selector := term.get("labelSelector")) is None:
        return
    for name, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        for key in term.get(name) or ():
            if key in labels:
                expressions = selector.setdefault("matchExpressions", [])
                expressions.append({"key": key, "operator": operator, "values": [labels[key]]})


def _with_defaults(spec: Object) -> Object:
    """Return a stored *spec* with the defaults of this release, to compare it with a new one."""
    pod: Object = decode(encode({"metadata": {}, "spec": spec}))
    if (shape := shapes.of("v1", "Pod", api_domain="")) is not None:
        field_validation.check(pod, shape, complete=True)
    POD.apply(pod)
    result: Object = pod["spec"]
    return result
