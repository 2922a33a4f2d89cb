"""The node's status, computed from what was found out. Pure."""

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
class Findings:
    """Everything the status is made of."""

    info: NodeSystemInfo
    addresses: Sequence[NodeAddress] | None = ()
    capacity: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    images: Sequence[ContainerImage] = ()
    conditions: Sequence[NodeConditionReport] = ()
    problems: Sequence[str] = ()
    """Sentences that keep the node from being Ready."""
    remarks: Sequence[str] = ()
    """What a Ready node says of itself besides."""
    port: int = 0


def compute_status(findings: Findings, before: Sequence[Mapping[str, NodeCondition]], now: str) -> NodeStatus:
    """Return the status at *now*.

    :param before: conditions as known before, by type; one that keeps its status keeps the transition time of the
        first of them that shows this status.
    """
    port = findings.port
    return NodeStatus(
        conditions=[_condition(report, before, now) for report in _reports(findings)],
        capacity=dict(findings.capacity),
        allocatable=dict(findings.allocatable),
        node_info=findings.info,
        images=list(findings.images),
        daemon_endpoints=NodeDaemonEndpoints(agent_endpoint=DaemonEndpoint(port=port) if port else None),
        addresses=None if findings.addresses is None else list(findings.addresses),
    )


def merge_reports(reports: Iterable[NodeReport]) -> NodeReport:
    """Return all reports as one; later ones win where keys meet."""
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
    """Return the sentence about resources that nobody measured, if there are any.

    :param isolation: ephemeral storage is counted (spec: config.localStorageCapacityIsolation).
    """
    needed = NEEDED_CAPACITY if isolation else [name for name in NEEDED_CAPACITY if name != EPHEMERAL_STORAGE]
    missing = [name for name in needed if name not in capacity]
    return [f"missing node capacity for resources: {', '.join(missing)}"] if missing else []


def report_images(images: Sequence[Image], most: int) -> list[ContainerImage]:
    """Return the largest *most* images with up to five names each; -1 is all of them.

    spec: config.nodeStatusMaxImages
    """
    ordered = sorted(images, key=lambda image: (-image.size_bytes, image.id))
    kept = ordered if most < 0 else ordered[:most]
    return [ContainerImage(names=_names(image), size_bytes=image.size_bytes) for image in kept]


def conditions_of(node: Mapping[str, Any] | None) -> dict[str, NodeCondition]:
    """Return the conditions that a node object shows, by type."""
    shown = ((node or {}).get("status") or {}).get("conditions") or ()
    return {
        condition["type"]: NodeCondition(
            type=condition["type"],
            status=condition.get("status", ""),
            reason=condition.get("reason", ""),
            message=condition.get("message", ""),
            last_heartbeat_time=condition.get("lastHeartbeatTime") or "",
            last_transition_time=condition.get("lastTransitionTime") or "",
        )
        for condition in shown
        if condition.get("type")
    }


def status_patch(status: NodeStatus, shown: Mapping[str, Any], *, heartbeat: bool) -> dict[str, Any]:
    """Return what turns the *shown* status of the server into *status*; empty when nothing has to be said.

    Members and conditions of others are left alone. *heartbeat* sends the conditions for their times alone.
    """
    wanted: dict[str, Any] = to_wire(status)
    patch: dict[str, Any] = {}
    known = {condition.get("type"): condition for condition in shown.get("conditions") or ()}
    changed = [c for c in wanted["conditions"] if _without_heartbeat(known.get(c["type"], {})) != _without_heartbeat(c)]
    if changed or heartbeat:
        patch["conditions"] = wanted["conditions"]
    announced = shown.get("capacity") or {}
    wanted["allocatable"] = {name: announced[name] for name in announced if "/" in name} | wanted["allocatable"]
    for name in ("capacity", "allocatable"):
        if difference := _amounts_patch(wanted[name], shown.get(name) or {}):
            patch[name] = difference
    if differing := _differing(wanted["nodeInfo"], shown.get("nodeInfo") or {}):
        patch["nodeInfo"] = differing
    for name in ("daemonEndpoints", "images"):
        if wanted[name] and wanted[name] != shown.get(name):
            patch[name] = wanted[name]
    if not wanted["images"] and shown.get("images"):
        patch["images"] = None
    if wanted.get("addresses") and wanted["addresses"] != shown.get("addresses"):
        # Two addresses may have one type, which is the key by which this list would be merged.
        patch["addresses"] = [*wanted["addresses"], {"$patch": "replace"}]
    if patch and "conditions" not in patch:
        patch["conditions"] = wanted["conditions"]
    return {"status": patch} if patch else {}


def _reports(findings: Findings) -> list[NodeConditionReport]:
    """Return what each condition says: the pressures nobody reports are absent, Ready comes last."""
    own = {report.type: report for report in findings.conditions}
    pressures = {report.type: report for report in _calm()}
    return [*{**pressures, **own}.values(), _ready(findings.problems, findings.remarks)]


def _calm() -> list[NodeConditionReport]:
    name = identity.current().component
    word = name.capitalize()
    return [
        NodeConditionReport(
            "MemoryPressure", False, f"{word}HasSufficientMemory", f"{name} has sufficient memory available"
        ),
        NodeConditionReport("DiskPressure", False, f"{word}HasNoDiskPressure", f"{name} has no disk pressure"),
        NodeConditionReport("PIDPressure", False, f"{word}HasSufficientPID", f"{name} has sufficient PID available"),
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


def _amounts_patch(wanted: Mapping[str, str], shown: Mapping[str, str]) -> dict[str, str | None]:
    """Return what changes; amounts under a domain (``example.com/dongle``) are others' to announce and to take back."""
    gone = (name for name in shown if name not in wanted and "/" not in name)
    return {**_differing(wanted, shown), **dict.fromkeys(gone, None)}


def _differing(wanted: Mapping[str, str], shown: Mapping[str, str]) -> dict[str, str]:
    """Return the members that differ; an absent one is an empty one, as protobuf leaves those out."""
    return {name: value for name, value in wanted.items() if shown.get(name, "") != value}


def _without_heartbeat(condition: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in condition.items() if key != "lastHeartbeatTime"}
