"""Table cells of pods. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apiserver_stub.apimachinery.objects import Object, dig, parse_time
from apiserver_stub.kinds.tables import since
from nodeagent.base.structs import MutableStruct

_COMPLETED = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


class _Summary(MutableStruct):
    """Combined state of the containers of a pod."""

    word: str
    ready: int = 0
    restarts: int = 0
    sidecar_restarts: int = 0
    ended: str = ""
    """Time of the last restart, empty if there was none."""
    sidecar_ended: str = ""
    initializing: bool = False


def ready_containers(pod: Object) -> str:
    """Return the numbers of ready and all containers, as ``ready/all``; sidecars are included."""
    spec = pod.get("spec") or {}
    total = len(spec.get("containers") or ()) + len(_sidecars(spec))
    return f"{_summary(pod).ready}/{total}"


def restarts(pod: Object) -> str:
    """Return the number of restarts and the time since the last one."""
    summary = _summary(pod)
    return (
        f"{summary.restarts} ({since(summary.ended)} ago)"
        if summary.restarts and summary.ended
        else str(summary.restarts)
    )


def shown_status(pod: Object) -> str:
    """Return the state of the pod in one word."""
    if "deletionTimestamp" in pod["metadata"]:
        return "Unknown" if dig(pod, ("status", "reason")) == "NodeLost" else "Terminating"
    return _summary(pod).word


def row_conditions(pod: Object) -> list[Object]:
    """Return the row conditions of a pod: one if it has completed."""
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
    summary = _Summary("SchedulingGated" if gated else status.get("reason") or status.get("phase") or "Unknown")
    _add_init_containers(summary, pod.get("spec") or {}, status)
    if not summary.initializing or _is_true(conditions, "Initialized"):
        summary.restarts, summary.ended = summary.sidecar_restarts, summary.sidecar_ended
        _add_containers(summary, status)
    return summary


def _add_init_containers(summary: _Summary, spec: Object, status: Object) -> None:
    """Add the init containers up to the first one that has neither completed nor, as a sidecar, started."""
    sidecars = _sidecars(spec)
    for index, item in enumerate(status.get("initContainerStatuses") or ()):
        is_sidecar, count, ended = item.get("name") in sidecars, item.get("restartCount") or 0, _restarted_at(item)
        summary.restarts, summary.ended = summary.restarts + count, max(summary.ended, ended)
        if is_sidecar:
            summary.sidecar_restarts, summary.sidecar_ended = (
                summary.sidecar_restarts + count,
                max(summary.sidecar_ended, ended),
            )
        state = item.get("state") or {}
        terminated, waiting = state.get("terminated"), (state.get("waiting") or {}).get("reason")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if is_sidecar and item.get("started"):
            summary.ready += bool(item.get("ready"))
            continue
        if terminated is not None:
            word = _ended(terminated)
        elif waiting and waiting != "PodInitializing":
            word = waiting
        else:
            word = f"{index}/{len(spec.get('initContainers') or ())}"
        summary.word, summary.initializing = f"Init:{word}", True
        return


def _add_containers(summary: _Summary, status: Object) -> None:
    running = False
    for item in reversed(status.get("containerStatuses") or ()):
        summary.restarts, summary.ended = (
            summary.restarts + (item.get("restartCount") or 0),
            max(summary.ended, _restarted_at(item)),
        )
        state = item.get("state") or {}
        if reason := (state.get("waiting") or {}).get("reason"):
            summary.word = reason
        elif (terminated := state.get("terminated")) is not None:
            summary.word = _ended(terminated)
        elif "running" in state and item.get("ready"):
            running, summary.ready = True, summary.ready + 1
    if summary.word == "Completed" and running:
        summary.word = "Running" if _is_true(status.get("conditions") or (), "Ready") else "NotReady"


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
