"""Cells of pods in tables. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from apiserver_stub.apimachinery.objects import Object, dig, parse_time
from apiserver_stub.kinds.tables import since

_COMPLETED = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


@dataclass
class _Summary:
    """The state of all containers of a pod."""

    word: str
    ready: int = 0
    restarts: int = 0
    sidecar_restarts: int = 0
    ended: str = ""
    """Time of the last restart, empty without any."""
    sidecar_ended: str = ""
    initializing: bool = False


def ready_containers(pod: Object) -> str:
    """Return ``ready/all``; sidecars count."""
    spec = pod.get("spec") or {}
    total = len(spec.get("containers") or ()) + len(_sidecars(spec))
    return f"{_summary(pod).ready}/{total}"


def restarts(pod: Object) -> str:
    """Return the number of restarts and the time since the last one."""
    found = _summary(pod)
    return f"{found.restarts} ({since(found.ended)} ago)" if found.restarts and found.ended else str(found.restarts)


def shown_status(pod: Object) -> str:
    """Return the state of the pod in one word."""
    if "deletionTimestamp" in pod["metadata"]:
        return "Unknown" if dig(pod, ("status", "reason")) == "NodeLost" else "Terminating"
    return _summary(pod).word


def row_conditions(pod: Object) -> list[Object]:
    """Return the condition of the row of a pod that has completed."""
    phase = dig(pod, ("status", "phase"))
    if phase not in _COMPLETED:
        return []
    return [{"type": "Completed", "status": "True", "reason": phase, "message": _COMPLETED[phase]}]


def _sidecars(spec: Object) -> set[str]:
    return {item["name"] for item in spec.get("initContainers") or () if item.get("restartPolicy") == "Always"}


def _summary(pod: Object) -> _Summary:
    status = pod.get("status") or {}
    conditions = status.get("conditions") or ()
    gated = any(item.get("type") == "PodScheduled" and item.get("reason") == "SchedulingGated" for item in conditions)
    found = _Summary("SchedulingGated" if gated else status.get("reason") or status.get("phase") or "Unknown")
    _add_init_containers(found, pod.get("spec") or {}, status)
    if not found.initializing or _is_true(conditions, "Initialized"):
        found.restarts, found.ended = found.sidecar_restarts, found.sidecar_ended
        _add_containers(found, status)
    return found


def _add_init_containers(found: _Summary, spec: Object, status: Object) -> None:
    """Add the init containers up to the first one that has not completed."""
    sidecars = _sidecars(spec)
    for index, item in enumerate(status.get("initContainerStatuses") or ()):
        is_sidecar, count, ended = item.get("name") in sidecars, item.get("restartCount") or 0, _restarted_at(item)
        found.restarts, found.ended = found.restarts + count, max(found.ended, ended)
        if is_sidecar:
            found.sidecar_restarts, found.sidecar_ended = (
                found.sidecar_restarts + count,
                max(found.sidecar_ended, ended),
            )
        state = item.get("state") or {}
        terminated, waiting = state.get("terminated"), (state.get("waiting") or {}).get("reason")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if is_sidecar and item.get("started"):
            found.ready += bool(item.get("ready"))
            continue
        if terminated is not None:
            word = _ended(terminated)
        elif waiting and waiting != "PodInitializing":
            word = waiting
        else:
            word = f"{index}/{len(spec.get('initContainers') or ())}"
        found.word, found.initializing = f"Init:{word}", True
        return


def _add_containers(found: _Summary, status: Object) -> None:
    running = False
    for item in reversed(status.get("containerStatuses") or ()):
        found.restarts, found.ended = (
            found.restarts + (item.get("restartCount") or 0),
            max(found.ended, _restarted_at(item)),
        )
        state = item.get("state") or {}
        if reason := (state.get("waiting") or {}).get("reason"):
            found.word = reason
        elif (terminated := state.get("terminated")) is not None:
            found.word = _ended(terminated)
        elif "running" in state and item.get("ready"):
            running, found.ready = True, found.ready + 1
    if found.word == "Completed" and running:
        found.word = "Running" if _is_true(status.get("conditions") or (), "Ready") else "NotReady"


def _is_true(conditions: Sequence[Object], kind: str) -> bool:
    return any(item.get("type") == kind and item.get("status") == "True" for item in conditions)


def _restarted_at(status: Object) -> str:
    """Return the time at which the last instance of a container finished."""
    time = dig(status, ("lastState", "terminated", "finishedAt"))
    return time if parse_time(time) else ""


def _ended(terminated: dict[str, Any]) -> str:
    if reason := terminated.get("reason"):
        return str(reason)
    if signal := terminated.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"
