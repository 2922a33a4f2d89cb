"""Validation of pod specs."""

from __future__ import annotations

from collections.abc import Sequence

from apiserver_stub.apimachinery.objects import Object
from apiserver_stub.apimachinery.status import (
    Cause,
    duplicate,
    forbidden_value,
    invalid_each,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from apiserver_stub.validation.affinity import (
    REQUIRED,
    required_node_selector,
    validate_affinity,
    validate_node_label_values,
)
from apiserver_stub.validation.container_ports import validate_host_network_ports
from apiserver_stub.validation.containers import (
    PodContext,
    validate_containers,
    validate_ephemeral_containers,
    validate_init_containers,
)
from apiserver_stub.validation.dns import validate_dns, validate_host_aliases
from apiserver_stub.validation.environment import validate_file_volumes
from apiserver_stub.validation.labels import validate_labels
from apiserver_stub.validation.pod_level_resources import validate_pod_level_resources
from apiserver_stub.validation.pod_options import PodOptions
from apiserver_stub.validation.requirements import validate_requirements, validate_resource_claims
from apiserver_stub.validation.security import validate_host_users, validate_pod_security
from apiserver_stub.validation.tolerations import validate_tolerations
from apiserver_stub.validation.topology import validate_spread_constraints
from apiserver_stub.validation.volumes import validate_volumes
from apiserver_stub.validation.windows import validate_host_processes, validate_operating_system
from nodeagent.base.names import label_problems, qualified_name_problems, subdomain_problems
from nodeagent.base.release import Release

DEADLINE_LIMIT_SECONDS = (1 << 31) - 1
_HOST_NAME_LIMIT = 64
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_NODE_VALUES = Release(1, 34)
"""First release that validates the label values of required node affinity."""


def validate_pod_spec(spec: Object, pod_name: str, field: str, options: PodOptions) -> list[Cause]:
    """Return the errors in the pod spec at *field* of the pod called *pod_name*."""
    volumes, causes = validate_volumes(spec.get("volumes") or (), pod_name, f"{field}.volumes", options)
    claims = spec.get("resourceClaims") or ()
    if claims:
        causes += validate_resource_claims(claims, pod_name, f"{field}.resourceClaims", options.release)
    context = PodContext(
        volumes,
        {item["name"] for item in claims if item.get("name")},
        spec.get("terminationGracePeriodSeconds") or 0,
        spec.get("restartPolicy") or "",
        None if spec.get("os") is None else spec["os"].get("name") or "",
        spec.get("hostUsers") is not False,
        options,
    )
    containers = spec.get("containers") or ()
    causes += validate_containers(containers, f"{field}.containers", context)
    if spec.get("initContainers"):
        causes += validate_init_containers(spec, f"{field}.initContainers", context)
    if spec.get("ephemeralContainers"):
        causes += validate_ephemeral_containers(spec, f"{field}.ephemeralContainers", context)
    if spec.get("hostNetwork"):
        causes += validate_host_network_ports(containers, f"{field}.containers", is_pod=options.is_pod)
    if context.restart_policy not in _RESTART_POLICIES:
        causes.append(_choice(context.restart_policy, _RESTART_POLICIES, f"{field}.restartPolicy"))
    causes += validate_dns(spec, field, options)
    causes += validate_labels(spec.get("nodeSelector"), f"{field}.nodeSelector")
    causes += validate_pod_security(spec, field, options)
    if affinity := spec.get("affinity"):
        causes += validate_affinity(affinity, f"{field}.affinity", any_values=options.any_selector_values)
        if options.release >= _NODE_VALUES and not options.any_node_values:
            path = f"{field}.affinity.nodeAffinity.{REQUIRED}"
            causes += validate_node_label_values(required_node_selector(affinity), path)
    causes += _validate_gates(spec, field)
    if constraints := spec.get("topologySpreadConstraints"):
        causes += validate_spread_constraints(constraints, f"{field}.topologySpreadConstraints", options)
    causes += validate_host_processes(spec, field, options)
    causes += validate_host_users(spec, field, options)
    causes += _validate_names(spec, field)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= DEADLINE_LIMIT_SECONDS:
        detail = f"must be between 1 and {DEADLINE_LIMIT_SECONDS}, inclusive"
        causes.append(invalid_value(f"{field}.activeDeadlineSeconds", deadline, detail))
    if tolerations := spec.get("tolerations"):
        causes += validate_tolerations(tolerations, f"{field}.tolerations", options)
    if aliases := spec.get("hostAliases"):
        causes += validate_host_aliases(aliases, f"{field}.hostAliases", options)
    policy = spec.get("preemptionPolicy")
    if policy is not None and policy not in _PREEMPTION_POLICIES:
        causes.append(_choice(policy, _PREEMPTION_POLICIES, f"{field}.preemptionPolicy"))
    if overhead := spec.get("overhead"):
        causes += _validate_overhead(overhead, f"{field}.overhead", options)
    if spec.get("resources") is not None:
        causes += validate_pod_level_resources(spec, f"{field}.resources", options)
    if spec.get("os") is not None:
        causes += validate_operating_system(spec, field)
    if "EnvFiles" in options.features:
        causes += validate_file_volumes(spec, field)
    if "HostnameOverride" in options.features and spec.get("hostnameOverride") is not None:
        causes += _validate_hostname_override(spec, f"{field}.hostnameOverride", options)
    return causes


def _validate_hostname_override(spec: Object, field: str, options: PodOptions) -> list[Cause]:
    name = spec["hostnameOverride"]
    causes = [
        forbidden_value(field, f"may not be specified when {other} is true")
        for other in ("setHostnameAsFQDN", "hostNetwork")
        if spec.get(other)
    ]
    if len(name.encode()) > _HOST_NAME_LIMIT:
        causes.append(too_long(field, _HOST_NAME_LIMIT, options.release))
    return causes + invalid_each(field, name, subdomain_problems(name))


def _choice(value: str, choices: Sequence[str], field: str) -> Cause:
    return not_supported(field, value, choices) if value else required(field)


def _validate_gates(spec: Object, field: str) -> list[Cause]:
    """Return the errors in readiness gates and scheduling gates."""
    causes = []
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        name = gate.get("conditionType") or ""
        causes += invalid_each(f"{field}.readinessGates[{index}].conditionType", name, qualified_name_problems(name))
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        path, name = f"{field}.schedulingGates[{index}]", gate.get("name") or ""
        causes += invalid_each(path, name, qualified_name_problems(name))
        if name in seen:
            causes.append(duplicate(path, name))
        seen.add(name)
    return causes


def _validate_names(spec: Object, field: str) -> list[Cause]:
    causes = []
    for name in ("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"):
        value = spec.get(name)
        if value or (value == "" and name == "runtimeClassName"):
            causes += invalid_each(f"{field}.{name}", value, subdomain_problems(value))
    for name in ("hostname", "subdomain"):
        if value := spec.get(name):
            causes += invalid_each(f"{field}.{name}", value, label_problems(value))
    return causes


def _validate_overhead(overhead: Object, field: str, options: PodOptions) -> list[Cause]:
    return validate_requirements({"limits": overhead}, (), field, options)
