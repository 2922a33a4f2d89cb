"""Compute the node status from its inputs. No I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from msgspec import field

from nodeagent.base import identity
from nodeagent.base.structs import Struct
from nodeagent.contracts.node import NodeConditionReport, NodeReport, NodeTaint
from nodeagent.contracts.runtime import Image, RuntimeStatus
from nodeagent.model.node import (
    ContainerImage,
    DaemonEndpoint,
    NodeAddress,
    NodeCondition,
    NodeDaemonEndpoints,
    NodeFeatures,
    NodeRuntimeHandler,
    NodeRuntimeHandlerFeatures,
    NodeStatus,
    NodeSystemInfo,
)
from nodeagent.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS

READY = "Ready"
NEEDED_CAPACITY = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)
_MAX_NAMES = 5
_NO_NAME = "<none>"


class NodeStatusInputs(Struct, frozen=True, kw_only=True):
    """Inputs of the node status."""

    info: NodeSystemInfo
    addresses: Sequence[NodeAddress] | None = ()
    capacity: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    images: Sequence[ContainerImage] = ()
    conditions: Sequence[NodeConditionReport] = ()
    problems: Sequence[str] = ()
    """Reasons for a NotReady node."""
    remarks: Sequence[str] = ()
    """Additional texts in the message of a Ready node."""
    port: int = 0
    runtime: RuntimeStatus | None = None
    """``None`` until the runtime has responded."""
    declared_features: Collection[str] = ()
    volumes_in_use: Sequence[str] | None = None
    """``None`` keeps the list on the server."""
    reports: Mapping[str, NodeReport] = field(default_factory=dict)
    """Reports of the plugins that responded, by plugin, for the metadata of the node."""
    reporting: Collection[str] = ()
    """Names of all plugins that report."""


def compute_status(inputs: NodeStatusInputs, before: Sequence[Mapping[str, NodeCondition]], now: str) -> NodeStatus:
    """Return the status at *now*.

    :param before: previous conditions by type; an unchanged status keeps the transition time of the first one that has
        this status.
    """
    port = inputs.port
    return NodeStatus(
        conditions=[_condition(report, before, now) for report in _condition_reports(inputs)],
        capacity=dict(inputs.capacity),
        allocatable=dict(inputs.allocatable),
        node_info=inputs.info,
        images=list(inputs.images),
        daemon_endpoints=NodeDaemonEndpoints(agent_endpoint=DaemonEndpoint(port=port) if port else None),
        addresses=None if inputs.addresses is None else list(inputs.addresses),
        runtime_handlers=(report_handlers(inputs.runtime) or None) if inputs.runtime else None,
        features=report_features(inputs.runtime) if inputs.runtime else None,
        declared_features=sorted(set(inputs.declared_features)) or None,
        volumes_in_use=None if inputs.volumes_in_use is None else sorted(set(inputs.volumes_in_use)),
    )


def report_handlers(runtime: RuntimeStatus) -> list[NodeRuntimeHandler]:
    """Return the handlers that the runtime reports, by name."""
    return [
        NodeRuntimeHandler(
            name=handler.name,
            features=NodeRuntimeHandlerFeatures(
                recursive_read_only_mounts=handler.recursive_read_only_mounts,
                user_namespaces=handler.user_namespaces,
            ),
        )
        for handler in sorted(runtime.handlers, key=lambda handler: handler.name)
    ]


def report_features(runtime: RuntimeStatus) -> NodeFeatures | None:
    """Return the features that the runtime reports; ``None`` if it reports none."""
    if runtime.features is None:
        return None
    return NodeFeatures(supplemental_groups_policy=runtime.features.supplemental_groups_policy)


def merge_reports(reports: Iterable[NodeReport]) -> NodeReport:
    """Merge reports; for equal keys, later ones take precedence. Volumes in use of all reports are combined."""
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    conditions: dict[str, NodeConditionReport] = {}
    not_ready: list[str] = []
    labels: dict[str, str] = {}
    annotations: dict[str, str | None] = {}
    in_use: list[str] | None = None
    declared: list[str] = []
    taints: dict[tuple[str, str], NodeTaint] = {}
    for report in reports:
        capacity.update(report.capacity)
        allocatable.update(report.allocatable)
        conditions.update((condition.type, condition) for condition in report.conditions)
        not_ready.extend(report.not_ready)
        labels.update(report.labels)
        annotations.update(report.annotations)
        taints.update(((taint.key, taint.effect), taint) for taint in report.taints)
        if report.volumes_in_use is not None:
            in_use = [*(in_use or ()), *report.volumes_in_use]
        declared.extend(report.declared_features)
    return NodeReport(
        capacity,
        allocatable,
        list(conditions.values()),
        not_ready,
        labels=labels,
        annotations=annotations,
        volumes_in_use=in_use,
        taints=list(taints.values()),
        declared_features=declared,
    )


def missing_capacity(capacity: Mapping[str, str], *, isolation: bool = True) -> list[str]:
    """Return the error message about resources without a reported capacity, if any.

    :param isolation: ephemeral storage is counted (spec: config.localStorageCapacityIsolation).
    """
    needed = NEEDED_CAPACITY if isolation else [name for name in NEEDED_CAPACITY if name != EPHEMERAL_STORAGE]
    missing = [name for name in needed if name not in capacity]
    return [f"missing node capacity for resources: {', '.join(missing)}"] if missing else []


def report_images(images: Sequence[Image], limit: int) -> list[ContainerImage]:
    """Return the *limit* largest images with up to five names each; -1 means all.

    spec: config.nodeStatusMaxImages
    """
    ordered = sorted(images, key=lambda image: (-image.size_bytes, image.id))
    selected = ordered if limit < 0 else ordered[:limit]
    return [ContainerImage(names=_names(image), size_bytes=image.size_bytes) for image in selected]


def conditions_of(node: Mapping[str, Any] | None) -> dict[str, NodeCondition]:
    """Return the conditions of a node object, by type."""
    reported = ((node or {}).get("status") or {}).get("conditions") or ()
    return {
        condition["type"]: NodeCondition(
            type=condition["type"],
            status=condition.get("status", ""),
            reason=condition.get("reason", ""),
            message=condition.get("message", ""),
            last_heartbeat_time=condition.get("lastHeartbeatTime") or "",
            last_transition_time=condition.get("lastTransitionTime") or "",
        )
        for condition in reported
        if condition.get("type")
    }


def _condition_reports(inputs: NodeStatusInputs) -> list[NodeConditionReport]:
    """Return all conditions: pressure conditions that no plugin reports are false, Ready is last."""
    own = {report.type: report for report in inputs.conditions}
    pressures = {report.type: report for report in _no_pressure()}
    return [*{**pressures, **own}.values(), _ready(inputs.problems, inputs.remarks)]


def _no_pressure() -> list[NodeConditionReport]:
    name = identity.current().component
    prefix = name.capitalize()
    return [
        NodeConditionReport(
            "MemoryPressure", False, f"{prefix}HasSufficientMemory", f"{name} has sufficient memory available"
        ),
        NodeConditionReport("DiskPressure", False, f"{prefix}HasNoDiskPressure", f"{name} has no disk pressure"),
        NodeConditionReport("PIDPressure", False, f"{prefix}HasSufficientPID", f"{name} has sufficient PID available"),
    ]


def _ready(problems: Sequence[str], remarks: Sequence[str]) -> NodeConditionReport:
    name = identity.current().component
    if not problems:
        message = ". ".join([f"{name} is posting ready status", *remarks])
        return NodeConditionReport(READY, True, f"{name.capitalize()}Ready", message)
    message = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    return NodeConditionReport(READY, False, f"{name.capitalize()}NotReady", message)


def _condition(report: NodeConditionReport, before: Sequence[Mapping[str, NodeCondition]], now: str) -> NodeCondition:
    status = "True" if report.status else "False"
    known = (conditions[report.type] for conditions in before if report.type in conditions)
    since = next((c.last_transition_time for c in known if c.status == status and c.last_transition_time), now)
    return NodeCondition(
        type=report.type,
        status=status,
        reason=report.reason,
        message=report.message,
        last_heartbeat_time=now,
        last_transition_time=since,
    )


def _names(image: Image) -> list[str]:
    names = [name for name in (*image.repo_digests, *image.repo_tags) if _NO_NAME not in name]
    return names[:_MAX_NAMES]
