"""Compute the node status from its inputs. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nodeagent.base import identity
from nodeagent.contracts.node import NodeConditionReport, NodeReport
from nodeagent.contracts.runtime import Image
from nodeagent.model.node import (
    ContainerImage,
    DaemonEndpoint,
    NodeAddress,
    NodeCondition,
    NodeDaemonEndpoints,
    NodeStatus,
    NodeSystemInfo,
)
from nodeagent.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from nodeagent.model.wire import to_wire

READY = "Ready"
NEEDED_CAPACITY = (CPU, MEMORY, EPHEMERAL_STORAGE, PODS)
_MAX_NAMES = 5
_NO_NAME = "<none>"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatusInputs:
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
    )


def merge_reports(reports: Iterable[NodeReport]) -> NodeReport:
    """Merge reports; for equal keys, later ones take precedence."""
    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    conditions: dict[str, NodeConditionReport] = {}
    not_ready: list[str] = []
    for report in reports:
        capacity.update(report.capacity)
        allocatable.update(report.allocatable)
        conditions.update((condition.type, condition) for condition in report.conditions)
        not_ready.extend(report.not_ready)
    return NodeReport(capacity, allocatable, list(conditions.values()), not_ready)


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


def status_patch(status: NodeStatus, reported: Mapping[str, Any], *, heartbeat: bool) -> dict[str, Any]:
    """Return the patch from the *reported* status to *status*; empty if nothing differs.

    Fields and conditions of other owners are left unchanged. With *heartbeat*, the conditions are always included.
    """
    desired: dict[str, Any] = to_wire(status)
    patch: dict[str, Any] = {}
    known = {condition.get("type"): condition for condition in reported.get("conditions") or ()}
    changed = [
        c for c in desired["conditions"] if _without_heartbeat(known.get(c["type"], {})) != _without_heartbeat(c)
    ]
    if changed or heartbeat:
        patch["conditions"] = desired["conditions"]
    reported_capacity = reported.get("capacity") or {}
    desired["allocatable"] = {name: reported_capacity[name] for name in reported_capacity if "/" in name} | desired[
        "allocatable"
    ]
    for name in ("capacity", "allocatable"):
        if difference := _amounts_patch(desired[name], reported.get(name) or {}):
            patch[name] = difference
    if differing := _differing(desired["nodeInfo"], reported.get("nodeInfo") or {}):
        patch["nodeInfo"] = differing
    for name in ("daemonEndpoints", "images"):
        if desired[name] and desired[name] != reported.get(name):
            patch[name] = desired[name]
    if not desired["images"] and reported.get("images"):
        patch["images"] = None
    if desired.get("addresses") and desired["addresses"] != reported.get("addresses"):
        # The merge key of this list is the type, which need not be unique.
        patch["addresses"] = [*desired["addresses"], {"$patch": "replace"}]
    if patch and "conditions" not in patch:
        patch["conditions"] = desired["conditions"]
    return {"status": patch} if patch else {}


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


def _amounts_patch(desired: Mapping[str, str], reported: Mapping[str, str]) -> dict[str, str | None]:
    """Return the changed quantities; other components own extended resources (``example.com/dongle``)."""
    removed = (name for name in reported if name not in desired and "/" not in name)
    return {**_differing(desired, reported), **dict.fromkeys(removed, None)}


def _differing(desired: Mapping[str, str], reported: Mapping[str, str]) -> dict[str, str]:
    """Return the fields that differ; a missing field equals an empty one, as protobuf omits those."""
    return {name: value for name, value in desired.items() if reported.get(name, "") != value}


def _without_heartbeat(condition: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in condition.items() if key != "lastHeartbeatTime"}
