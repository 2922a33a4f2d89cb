"""Messages of the events about resizes. No I/O."""

from __future__ import annotations

import json
from typing import Any

from nodeagent.model.pod import ContainerKind, Pod
from nodeagent.model.wire import to_wire

STARTED = "ResizeStarted"
COMPLETED = "ResizeCompleted"
FAILED = "ResizeError"
PENDING = {"Deferred": "ResizeDeferred", "Infeasible": "ResizeInfeasible"}
"""Event reason by reason of the condition PodResizePending."""


def resize_message(outcome: str, pod: Pod, generation: int, error: str = "") -> str:
    """Return the message of an event, with the resources of *pod* as JSON.

    :param outcome: ``started``, ``completed``, ``error``, ``Deferred`` or ``Infeasible``.
    :param generation: generation of the pod whose resize the event is about.
    """
    lists = {ContainerKind.INIT: "initContainers", ContainerKind.REGULAR: "containers"}
    summary: dict[str, Any] = {}
    for kind, container in pod.containers():
        if kind in lists:
            entry = {"name": container.name, "resources": to_wire(container.resources)}
            summary.setdefault(lists[kind], []).append(entry)
    summary["generation"] = generation
    if error:
        summary["error"] = error
    return f"Pod resize {outcome}: {json.dumps(summary, separators=(',', ':'), ensure_ascii=False)}"
