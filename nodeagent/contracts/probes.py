"""Liveness, readiness and startup probes."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from nodeagent.contracts.runtime import RuntimePod
from nodeagent.model.pod import Pod


class ProbeKind(StrEnum):
    """Probe type; the values appear in messages."""

    LIVENESS = "Liveness"
    READINESS = "Readiness"
    STARTUP = "Startup"


class ProbeResult(StrEnum):
    SUCCESS = "Success"
    FAILURE = "Failure"
    UNKNOWN = "Unknown"


class Prober(Protocol):
    """Runs the probes of running containers and caches their results by container ID.

    A changed result triggers a sync of the pod.
    """

    def add_pod(self, pod: Pod, observed: RuntimePod) -> None:
        """Start or update the probes of *pod*; idempotent and cheap."""
        ...

    def end_liveness(self, pod_uid: str) -> None:
        """Stop liveness and startup probes of a terminating pod; readiness probes continue."""
        ...

    def remove_pod(self, pod_uid: str) -> None: ...

    def result(self, container_id: str, kind: ProbeKind) -> ProbeResult | None:
        """Return the last effective result, or ``None`` if the container has no such probe."""
        ...
