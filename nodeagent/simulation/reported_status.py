"""Comparison of the container statuses in the API server with the containers of the runtime."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from nodeagent.simulation.api_objects import container_statuses
from nodeagent.simulation.runtime_objects import Container

_LOST = "ContainerStatusUnknown"
"""Reason of a container that the runtime no longer has, so that its exit code is not known."""


class ReportedStatus:
    """The containers of the runtime, by ID, also those that it has removed."""

    def __init__(self) -> None:
        self._containers: dict[str, Container] = {}

    def started(self, container: Container) -> None:
        """Record the start of a container."""
        self._containers[container.id] = container

    def forget(self, retained: Collection[str]) -> None:
        """Drop the containers of pods with other UIDs than those *retained*."""
        kept = {id: each for id, each in self._containers.items() if each.sandbox.uid in retained}
        self._containers = kept

    def problems(self, uid: str, status: Mapping[str, Any]) -> Iterator[str]:
        """Yield how the status of a pod contradicts the runtime."""
        for reported in container_statuses(status):
            name = f"container {reported['name']} of pod {uid}"
            state = reported.get("state") or {}
            for terminated in (state.get("terminated"), (reported.get("lastState") or {}).get("terminated")):
                if terminated is not None and terminated.get("reason") != _LOST:
                    yield from self._check_terminated(name, reported["name"], terminated)
            if "running" in state:
                yield from self._check_running(name, reported)
        if status.get("phase") == "Succeeded":
            yield from _check_success(uid, status)

    def _check_terminated(self, text: str, name: str, terminated: Mapping[str, Any]) -> Iterator[str]:
        container = self._containers.get(_id(terminated))
        if container is None or container.was_misreported:
            return  # It never started, or the runtime has reported another state.
        if container.name != name:
            yield f"the status of {text} contains {container.id} of {container.name}"
        elif container.running:
            yield f"{text} runs, but its status reports its end"
        elif terminated["exitCode"] != container.exit_code:
            yield f"{text} exited with {container.exit_code}, but its status reports {terminated['exitCode']}"
        message = terminated.get("message", "")
        if container.message not in (None, message):
            yield f"the termination message of {text} is {container.message!r}, but its status reports {message!r}"

    def _check_running(self, text: str, reported: Mapping[str, Any]) -> Iterator[str]:
        container, count = self._containers.get(_id(reported)), reported["restartCount"]
        if container is None or container.name != reported["name"]:
            yield f"the status of {text} reports that {_id(reported)} runs, which never started"
        elif container.config.metadata.attempt > count:  # The count includes containers that were removed.
            yield f"{text} was restarted {container.config.metadata.attempt} times, but its status reports {count}"


def _check_success(uid: str, status: Mapping[str, Any]) -> Iterator[str]:
    for reported in status.get("containerStatuses") or ():
        state = reported.get("state") or {}
        if (state.get("terminated") or {}).get("exitCode") != 0:
            yield f"pod {uid} has the phase Succeeded, but container {reported['name']} has the state {state}"


def _id(state: Mapping[str, Any]) -> str:
    return str(state.get("containerID", "")).rpartition("://")[2]
