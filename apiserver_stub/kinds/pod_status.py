"""What kubectl users read about a pod in a table."""

from __future__ import annotations

from typing import Any

from apiserver_stub.apimachinery.objects import Object, dig, parse_time
from apiserver_stub.kinds.tables import since


def ready_containers(pod: Object) -> str:
    """Return ``ready/all``; sidecars count."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    sidecars = {item["name"] for item in spec.get("initContainers") or () if item.get("restartPolicy") == "Always"}
    total = len(spec.get("containers") or ()) + len(sidecars)
    counted = list(status.get("containerStatuses") or ())
    counted += [item for item in status.get("initContainerStatuses") or () if item.get("name") in sidecars]
    ready = sum(bool(item.get("ready")) and "running" in (item.get("state") or {}) for item in counted)
    return f"{ready}/{total}"


def restarts(pod: Object) -> str:
    """Return how many restarts there were and how long ago the last one was."""
    statuses = list(dig(pod, ("status", "containerStatuses")) or ())
    initializing = _initializing(pod)
    sidecars = {
        item["name"]
        for item in dig(pod, ("spec", "initContainers")) or ()
        if initializing or item.get("restartPolicy") == "Always"
    }
    init = [item for item in dig(pod, ("status", "initContainerStatuses")) or () if item.get("name") in sidecars]
    counted = init if initializing else statuses + init
    count = sum(item.get("restartCount") or 0 for item in counted)
    ended = [
        time for item in counted if (time := dig(item, ("lastState", "terminated", "finishedAt"))) and parse_time(time)
    ]
    return f"{count} ({since(max(ended))} ago)" if count and ended else str(count)


def shown_status(pod: Object) -> str:
    """Return the one word that says what the pod is doing."""
    status = pod.get("status") or {}
    word = status.get("reason") or status.get("phase") or "Unknown"
    if any(
        item.get("type") == "PodScheduled" and item.get("reason") == "SchedulingGated"
        for item in status.get("conditions") or ()
    ):
        word = "SchedulingGated"
    word = init if (init := _initializing(pod)) else _running_status(status, word)
    if "deletionTimestamp" in pod["metadata"]:
        word = "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return str(word)


def _initializing(pod: Object) -> str:
    """Return ``Init:…`` while init containers are at work, else nothing."""
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    containers = spec.get("initContainers") or ()
    sidecars = {item["name"] for item in containers if item.get("restartPolicy") == "Always"}
    for index, item in enumerate(status.get("initContainerStatuses") or ()):
        state = item.get("state") or {}
        terminated, waiting = state.get("terminated"), state.get("waiting")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if item.get("name") in sidecars and item.get("started"):
            continue
        if terminated is not None:
            return f"Init:{_ended(terminated)}"
        if waiting is not None and waiting.get("reason") not in (None, "", "PodInitializing"):
            return f"Init:{waiting['reason']}"
        return f"Init:{index}/{len(containers)}"
    return ""


def _running_status(status: Object, word: str) -> str:
    running = False
    for item in reversed(status.get("containerStatuses") or ()):
        state = item.get("state") or {}
        if reason := (state.get("waiting") or {}).get("reason"):
            word = reason
        elif (terminated := state.get("terminated")) is not None:
            word = _ended(terminated)
        elif "running" in state and item.get("ready"):
            running = True
    if word == "Completed" and running:
        ready = any(
            item.get("type") == "Ready" and item.get("status") == "True" for item in status.get("conditions") or ()
        )
        return "Running" if ready else "NotReady"
    return word


def _ended(terminated: dict[str, Any]) -> str:
    if reason := terminated.get("reason"):
        return str(reason)
    if signal := terminated.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"
