"""Validation of StatefulSets."""

from __future__ import annotations

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    forbidden_value,
    invalid_each,
    invalid_value,
    not_supported,
    required,
)
from apiserver_stub.validation.claim_spec import validate_claim_spec
from apiserver_stub.validation.deployments import is_zero
from apiserver_stub.validation.disruption_budgets import validate_int_or_percent, validate_up_to_all
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.pod_templates import (
    validate_always_restarted,
    validate_at_most,
    validate_collisions,
    validate_match,
    validate_not_negative,
    validate_pod_template,
    validate_template_metadata,
    validate_template_selector,
)
from nodeagent.base.names import label_problems
from nodeagent.base.release import Release

_VALIDATED_COMPLETELY = Release(1, 36)
"""First release that validates the pods, claims and service name of a StatefulSet."""
_EMPTY = "empty selector is invalid for statefulset"
_POLICIES, _RETENTION = ("OrderedReady", "Parallel"), ("Retain", "Delete")
_ROLLING, _ON_DELETE = "RollingUpdate", "OnDelete"
_ABOVE_REPLICAS, _ABOVE_READY = "cannot be greater than status.replicas", "cannot be greater than status.readyReplicas"
_COUNTS = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_HISTORY_MUTABLE = Release(1, 33)
"""First release in which the limit of the history can change."""


def validate_stateful_set(stateful_set: Object, options: PodOptions) -> list[Cause]:
    """Return the errors in the specification of a new StatefulSet."""
    spec, is_complete = stateful_set["spec"], options.release >= _VALIDATED_COMPLETELY
    causes = _validate(spec, options, with_pods=is_complete)
    if is_complete:
        for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
            field = f"spec.volumeClaimTemplates[{index}].spec"
            causes += validate_claim_spec(claim.get("spec") or {}, field, volume_attributes_class=True)
        if name := spec.get("serviceName"):
            causes += invalid_each("spec.serviceName", name, label_problems(name))
    return causes


def _validate(spec: Object, options: PodOptions, *, with_pods: bool) -> list[Cause]:
    """Return the errors in the specification *spec*; *with_pods*, also those of its pods."""
    causes = []
    policy = spec.get("podManagementPolicy") or ""
    if not policy:
        causes.append(required("spec.podManagementPolicy"))
    elif policy not in _POLICIES:
        detail = f"must be '{_POLICIES[0]}' or '{_POLICIES[1]}'"
        causes.append(invalid_value("spec.podManagementPolicy", policy, detail))
    causes += _validate_strategy(spec.get("updateStrategy") or {}, "spec.updateStrategy")
    retention = spec.get("persistentVolumeClaimRetentionPolicy")
    if retention is not None:
        for name in ("whenDeleted", "whenScaled"):
            if (value := retention.get(name) or "") not in _RETENTION:
                causes.append(not_supported(f"spec.persistentVolumeClaimRetentionPolicy.{name}", value, _RETENTION))
    causes += validate_not_negative(spec, ("replicas", "minReadySeconds"), "spec")
    causes += validate_not_negative(spec.get("ordinals") or {}, ("start",), "spec.ordinals")
    template = spec.get("template") or {}
    found, usable = validate_template_selector(spec.get("selector"), "spec.selector", _EMPTY, "")
    causes += found
    if usable:
        causes += validate_match(spec.get("selector"), template, "spec.template")
        if with_pods:
            causes += validate_pod_template(_completed(spec), "spec.template", options)
        causes += validate_template_metadata(template, "spec.template", options)
    return causes + validate_always_restarted(template, "spec.template", "StatefulSet")


def validate_stateful_set_update(new: Object, old: Object, options: PodOptions) -> list[Cause]:
    """Return the errors in the change of a StatefulSet."""
    with_pods = options.release >= _VALIDATED_COMPLETELY and not _validate(old["spec"], options, with_pods=True)
    causes = _validate(new["spec"], options, with_pods=with_pods)  # Stored pods that are invalid may stay.
    mutable = (*_MUTABLE, "revisionHistoryLimit") if options.release >= _HISTORY_MUTABLE else _MUTABLE
    if any(new["spec"].get(name) != old["spec"].get(name) for name in {*new["spec"], *old["spec"]} - {*mutable}):
        names = ["replicas", "ordinals", "template", "updateStrategy"]
        if options.release >= _HISTORY_MUTABLE:
            names.append("revisionHistoryLimit")
        shown = ", ".join(f"'{name}'" for name in (*names, "persistentVolumeClaimRetentionPolicy"))
        detail = f"updates to statefulset spec for fields other than {shown} and 'minReadySeconds' are forbidden"
        causes.append(forbidden_value("spec", detail))
    return causes


def _completed(spec: Object) -> Object:
    """Return the pod template with the volumes of the claims, and without the names that the controller sets."""
    template = spec.get("template") or {}
    pods = {
        name: value for name, value in (template.get("spec") or {}).items() if name not in ("subdomain", "hostname")
    }
    if claims := spec.get("volumeClaimTemplates"):
        names = dict.fromkeys((claim.get("metadata") or {}).get("name") or "" for claim in claims)
        own = [volume for volume in pods.get("volumes") or () if volume.get("name") not in names]
        pods["volumes"] = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names] + own
    return {**template, "spec": pods}


def validate_stateful_set_status(new: Object, old: Object) -> list[Cause]:
    """Return the errors in the status of a StatefulSet."""
    status = new.get("status") or {}
    causes = validate_not_negative(status, (*_COUNTS, "observedGeneration", "collisionCount"), "status")
    causes += validate_at_most(status, _COUNTS[1:], "replicas", "status", _ABOVE_REPLICAS)
    causes += validate_at_most(status, ("availableReplicas",), "readyReplicas", "status", _ABOVE_READY)
    return causes + validate_collisions(status, old.get("status") or {}, "status")


def _validate_strategy(strategy: Object, field: str) -> list[Cause]:
    kind, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    if not kind:
        return [required(field)]
    if kind == _ON_DELETE:
        detail = f"only allowed for updateStrategy '{_ROLLING}'"
        return [] if rolling is None else [invalid_value(f"{field}.rollingUpdate", rolling, detail)]
    if kind != _ROLLING:
        return [invalid_value(field, strategy, f"must be '{_ROLLING}' or '{_ON_DELETE}'")]
    causes = validate_not_negative(rolling or {}, ("partition",), f"{field}.rollingUpdate")
    most = (rolling or {}).get("maxUnavailable")
    if most is not None:
        path = f"{field}.rollingUpdate.maxUnavailable"
        causes += validate_int_or_percent(most, path)
        if is_zero(most):
            causes.append(invalid_value(path, most, "cannot be 0"))
        causes += validate_up_to_all(most, path)
    return causes
