"""Fields of disabled features: they are dropped from written objects unless the stored object uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from apiserver_stub.apimachinery.objects import Object, dig
from nodeagent.base.gates import FeatureGates

_CONTAINER_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_OF_POD_STATUS = (
    ("DRAExtendedResource", "extendedResourceClaimStatus"),
    ("DRANodeAllocatableResources", "nodeAllocatableResourceClaimStatuses"),
)
_OF_CONTAINER_STATUS = (
    ("RecursiveReadOnlyMounts", "volumeMounts"),
    ("SupplementalGroupsPolicy", "user"),
    ("ResourceHealthStatus", "allocatedResourcesStatus"),
)
"""Feature gate, and its field in the status of containers."""
_OF_NODE_STATUS = (
    ("runtimeHandlers", "RecursiveReadOnlyMounts", "UserNamespacesSupport"),
    ("features", "SupplementalGroupsPolicy"),
    ("declaredFeatures", "NodeDeclaredFeatures"),
)
"""Field in the status of nodes, and the feature gates that use it."""
_TERMS = "requiredDuringSchedulingIgnoredDuringExecution"
_WEIGHTED_TERMS = "preferredDuringSchedulingIgnoredDuringExecution"


def drop_from_pod(gates: FeatureGates, apparmor_prefix: str, new: Object, old: Object | None = None) -> None:
    """Drop fields of disabled features from the pod *new*, unless *old* uses them; fields without a gate remain.

    :param apparmor_prefix: prefix of the annotations with AppArmor profiles.

    spec: gate.PodSchedulingReadiness, gate.SidecarContainers, gate.ProcMountType, gate.PodLifecycleSleepAction,
    gate.UserNamespacesSupport, gate.InPlacePodVerticalScaling, gate.DynamicResourceAllocation, gate.AppArmor,
    gate.PodHostIPs, gate.ClusterTrustBundleProjection, gate.MatchLabelKeysInPodAffinity,
    gate.MatchLabelKeysInPodTopologySpread, gate.MinDomainsInPodTopologySpread,
    gate.NodeInclusionPolicyInPodTopologySpread
    """
    spec, before = new.get("spec") or {}, (old or {}).get("spec") or {}
    for gate, in_use, drop in _OF_SPEC:
        if gates.exists(gate) and not gates.enabled(gate) and not in_use(before):
            drop(spec)
    if not gates.enabled("AppArmor"):
        _drop_apparmor(apparmor_prefix, new, old or {})
    drop_from_status(gates, new, old or {})


def drop_from_node(gates: FeatureGates, new: Object, old: Object | None = None) -> None:
    """Drop fields of disabled features from the status of the node *new*, unless *old* uses them."""
    status = new.get("status") or {}
    before = (old or {}).get("status") or {}
    for name, *owners in _OF_NODE_STATUS:
        if all(_is_disabled(gates, gate) for gate in owners) and not before.get(name):
            status.pop(name, None)


def drop_from_replica_counts(gates: FeatureGates, new: Object, old: Object) -> None:
    """Drop fields of disabled features from the status of a Deployment or ReplicaSet, unless *old* uses them."""
    used = dig(old, ("status", "terminatingReplicas")) is not None
    if not used and _is_disabled(gates, "DeploymentReplicaSetTerminatingReplicas"):
        (new.get("status") or {}).pop("terminatingReplicas", None)


def drop_from_lease(gates: FeatureGates, new: Object, old: Object | None = None) -> None:
    """Drop fields of disabled features from the lease *new*, unless *old* uses them."""
    if _is_disabled(gates, "CoordinatedLeaderElection"):
        before = (old or {}).get("spec") or {}
        for name in ("strategy", "preferredHolder"):
            if before.get(name) is None:
                (new.get("spec") or {}).pop(name, None)


def drop_from_autoscaler(gates: FeatureGates, new: Object, old: Object | None = None) -> None:
    """Drop fields of disabled features from the autoscaler *new*, unless *old* uses them."""
    rules, before = (dig(obj or {}, ("spec", "behavior")) or {} for obj in (new, old))
    directions = ("scaleUp", "scaleDown")
    used = any((before.get(name) or {}).get("tolerance") is not None for name in directions)
    if not used and _is_disabled(gates, "HPAConfigurableTolerance"):
        _drop("tolerance", filter(None, map(rules.get, directions)))


def drop_from_budget(gates: FeatureGates, new: Object, old: Object | None = None) -> None:
    """Drop fields of disabled features from the disruption budget *new*, unless *old* uses them.

    spec: gate.PDBUnhealthyPodEvictionPolicy
    """
    used = ((old or {}).get("spec") or {}).get("unhealthyPodEvictionPolicy")
    if not gates.enabled("PDBUnhealthyPodEvictionPolicy") and not used:
        (new.get("spec") or {}).pop("unhealthyPodEvictionPolicy", None)


def drop_from_webhooks(gates: FeatureGates, new: Object, old: Object | None = None) -> None:
    """Drop fields of disabled features from the webhook configuration *new*, unless *old* uses them.

    spec: gate.AdmissionWebhookMatchConditions
    """
    used = _any_has("matchConditions", (old or {}).get("webhooks"))
    if not gates.enabled("AdmissionWebhookMatchConditions") and not used:
        _drop("matchConditions", new.get("webhooks"))


def _drop_apparmor(prefix: str, new: Object, old: Object) -> None:
    annotations = dig(new, ("metadata", "annotations")) or {}
    if any(name.startswith(prefix) for name in dig(old, ("metadata", "annotations")) or ()):
        return
    for name in [name for name in annotations if name.startswith(prefix)]:
        del annotations[name]


def drop_from_status(gates: FeatureGates, new: Object, old: Object) -> None:
    """Drop fields of disabled features from the status of *new*, without changing that of *old*, which it may share."""
    status = new.get("status")
    if not status:
        return
    before = old.get("spec") or {}
    status = new["status"] = {**status}
    if not gates.enabled("InPlacePodVerticalScaling") and not _any_has("resizePolicy", before.get("containers")):
        for kind in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
            if any("allocatedResources" in item or "resources" in item for item in status.get(kind) or ()):
                status[kind] = [
                    {name: value for name, value in item.items() if name not in ("allocatedResources", "resources")}
                    for item in status[kind]
                ]
        status.pop("resize", None)
    if not gates.enabled("DynamicResourceAllocation") and not before.get("resourceClaims"):
        status.pop("resourceClaimStatuses", None)
    for gate, name in _OF_POD_STATUS:
        if _is_disabled(gates, gate) and not dig(old, ("status", name)):
            status.pop(name, None)
    for gate, name in _OF_CONTAINER_STATUS:
        if _is_disabled(gates, gate):
            _drop_from_container_statuses(status, name, old.get("status") or {})
    if _is_disabled(gates, "PodObservedGenerationTracking") and not _is_generation_observed(old.get("status") or {}):
        status.pop("observedGeneration", None)
        if status.get("conditions"):
            status["conditions"] = [_without(item, "observedGeneration") for item in status["conditions"]]
    if _is_disabled(gates, "InPlacePodLevelResourcesVerticalScaling"):
        for name in ("resources", "allocatedResources"):
            if not dig(old, ("status", name)):
                status.pop(name, None)
    if not gates.enabled("PodHostIPs") and not dig(old, ("status", "hostIPs")):
        status.pop("hostIPs", None)


def _is_disabled(gates: FeatureGates, gate: str) -> bool:
    return gates.exists(gate) and not gates.enabled(gate)


def _is_generation_observed(status: Object) -> bool:
    return bool(status.get("observedGeneration")) or _any_has("observedGeneration", status.get("conditions"))


def _drop_from_container_statuses(status: Object, name: str, old: Object) -> None:
    for kind in _CONTAINER_STATUSES:
        if any(name in item for item in status.get(kind) or ()) and not _any_has(name, old.get(kind)):
            status[kind] = [_without(item, name) for item in status[kind]]


def _without(item: Object, *names: str) -> Object:
    return {name: value for name, value in item.items() if name not in names}


def _containers(spec: Object) -> Iterator[Object]:
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(kind) or ()


def _security(spec: Object) -> list[Object]:
    return [context for item in _containers(spec) if (context := item.get("securityContext"))]


def _force_default_proc_mount(spec: Object) -> None:
    """Replace set values by ``Default``; without a value, stored pods would seem changed."""
    for context in _security(spec):
        if context.get("procMount") is not None:
            context["procMount"] = "Default"


def _hooks(spec: Object) -> list[Object]:
    handlers = (
        (item.get("lifecycle") or {}).get(hook) for item in _containers(spec) for hook in ("postStart", "preStop")
    )
    return [handler for handler in handlers if handler]


def _drop_claims(spec: Object) -> None:
    spec.pop("resourceClaims", None)
    for item in _containers(spec):
        (item.get("resources") or {}).pop("claims", None)


def _bundle_sources(spec: Object) -> list[Object]:
    return [
        source
        for volume in spec.get("volumes") or ()
        for source in (volume.get("projected") or {}).get("sources") or ()
    ]


def _affinity_terms(spec: Object) -> list[Object]:
    kinds = [(spec.get("affinity") or {}).get(kind) or {} for kind in ("podAffinity", "podAntiAffinity")]
    plain = [term for kind in kinds for term in kind.get(_TERMS) or ()]
    return plain + [term.get("podAffinityTerm") or {} for kind in kinds for term in kind.get(_WEIGHTED_TERMS) or ()]


def _drop_affinity_keys(spec: Object) -> None:
    for name in ("matchLabelKeys", "mismatchLabelKeys"):
        _drop(name, _affinity_terms(spec))


def _of_spread(gate: str, name: str) -> _Rule:
    return (
        gate,
        lambda spec: any(item.get(name) is not None for item in spec.get("topologySpreadConstraints") or ()),
        lambda spec: _drop(name, spec.get("topologySpreadConstraints")),
    )


def _pod_security(spec: Object) -> list[Object]:
    return [context] if (context := spec.get("securityContext")) else []


def _contexts(spec: Object) -> list[Object]:
    return _pod_security(spec) + _security(spec)


def _mounts(spec: Object) -> list[Object]:
    return [mount for item in _containers(spec) for mount in item.get("volumeMounts") or ()]


def _variable_sources(spec: Object) -> list[Object]:
    return [source for item in _containers(spec) for each in item.get("env") or () if (source := each.get("valueFrom"))]


def _lifecycles(spec: Object) -> list[Object]:
    return [lifecycle for item in _containers(spec) if (lifecycle := item.get("lifecycle"))]


def _has_restart_rules(spec: Object) -> bool:
    return (
        any(item.get("restartPolicy") or item.get("restartPolicyRules") for item in spec.get("containers") or ())
        or any(item.get("restartPolicy") not in (None, "Always") for item in spec.get("initContainers") or ())
        or _any_has("restartPolicyRules", spec.get("initContainers"))
    )


def _drop_restart_rules(spec: Object) -> None:
    _drop("restartPolicyRules", _containers(spec))
    _drop("restartPolicy", spec.get("containers"))


def _drop_image_volumes(spec: Object) -> None:
    """Drop the volumes themselves, and their mounts."""
    dropped = {item.get("name") for item in spec.get("volumes") or () if item.get("image") is not None}
    for owner, member in ((spec, "volumes"), *((item, "volumeMounts") for item in _containers(spec))):
        if items := owner.get(member):
            owner[member] = [item for item in items if item.get("name") not in dropped]
            if not owner[member]:
                del owner[member]


def _drop_stop_signals(spec: Object) -> None:
    for item in _containers(spec):
        lifecycle = item.get("lifecycle") or {}
        if lifecycle.pop("stopSignal", None) is not None and not lifecycle:
            del item["lifecycle"]


def _in_items(gate: str, name: str, items: Callable[[Object], list[Object]]) -> _Rule:
    """Return the rule for field *name* of the objects that *items* finds in a spec."""
    return (
        gate,
        lambda spec: any(item.get(name) is not None for item in items(spec)),
        lambda spec: _drop(name, items(spec)),
    )


def _any_has(name: str, items: Iterable[Object] | None) -> bool:
    return any(item.get(name) for item in items or ())


def _drop(name: str, items: Iterable[Object] | None) -> None:
    for item in items or ():
        item.pop(name, None)


_Rule = tuple[str, Callable[[Object], bool], Callable[[Object], object]]
_OF_SPEC: tuple[_Rule, ...] = (
    (
        "PodSchedulingReadiness",
        lambda spec: bool(spec.get("schedulingGates")),
        lambda spec: spec.pop("schedulingGates", None),
    ),
    (
        "SidecarContainers",
        lambda spec: _any_has("restartPolicy", spec.get("initContainers")),
        lambda spec: _drop("restartPolicy", spec.get("initContainers")),
    ),
    (
        "UserNamespacesSupport",
        lambda spec: spec.get("hostUsers") is not None,
        lambda spec: spec.pop("hostUsers", None),
    ),
    (
        "ProcMountType",
        lambda spec: any(context.get("procMount") not in (None, "Default") for context in _security(spec)),
        _force_default_proc_mount,
    ),
    (
        "PodLifecycleSleepAction",
        lambda spec: any(handler.get("sleep") is not None for handler in _hooks(spec)),
        lambda spec: _drop("sleep", _hooks(spec)),
    ),
    (
        "InPlacePodVerticalScaling",
        lambda spec: _any_has("resizePolicy", spec.get("containers")),
        lambda spec: _drop("resizePolicy", _containers(spec)),
    ),
    ("DynamicResourceAllocation", lambda spec: bool(spec.get("resourceClaims")), _drop_claims),
    (
        "ClusterTrustBundleProjection",
        lambda spec: any(source.get("clusterTrustBundle") is not None for source in _bundle_sources(spec)),
        lambda spec: _drop("clusterTrustBundle", _bundle_sources(spec)),
    ),
    (
        "MatchLabelKeysInPodAffinity",
        lambda spec: any(term.get("matchLabelKeys") or term.get("mismatchLabelKeys") for term in _affinity_terms(spec)),
        _drop_affinity_keys,
    ),
    (
        "PodLevelResources",
        lambda spec: spec.get("resources") is not None,
        lambda spec: spec.pop("resources", None),
    ),
    (
        "HostnameOverride",
        lambda spec: spec.get("hostnameOverride") is not None,
        lambda spec: spec.pop("hostnameOverride", None),
    ),
    ("ContainerRestartRules", _has_restart_rules, _drop_restart_rules),
    _in_items("AppArmorFields", "appArmorProfile", _contexts),
    _in_items("SupplementalGroupsPolicy", "supplementalGroupsPolicy", _pod_security),
    _in_items("SELinuxChangePolicy", "seLinuxChangePolicy", _pod_security),
    _in_items("RecursiveReadOnlyMounts", "recursiveReadOnly", _mounts),
    _in_items("EnvFiles", "fileKeyRef", _variable_sources),
    ("ImageVolume", lambda spec: _any_has("image", spec.get("volumes")), _drop_image_volumes),
    (
        "ContainerStopSignals",
        lambda spec: _any_has("stopSignal", _lifecycles(spec)),
        _drop_stop_signals,
    ),
    (
        "GenericWorkload",
        lambda spec: spec.get("schedulingGroup") is not None,
        lambda spec: spec.pop("schedulingGroup", None),
    ),
    _in_items("PodCertificateRequest", "podCertificate", _bundle_sources),
    _of_spread("MatchLabelKeysInPodTopologySpread", "matchLabelKeys"),
    _of_spread("MinDomainsInPodTopologySpread", "minDomains"),
    _of_spread("NodeInclusionPolicyInPodTopologySpread", "nodeTaintsPolicy"),
    _of_spread("NodeInclusionPolicyInPodTopologySpread", "nodeAffinityPolicy"),
)
"""Feature gate, test for the use of its field in a stored spec, and function to drop the field from a new spec."""
