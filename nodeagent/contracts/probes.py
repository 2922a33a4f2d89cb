"""Liveness, readiness and startup of containers."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from nodeagent.contracts.runtime import RuntimePod
from nodeagent.model.pod import Pod


class ProbeKind(StrEnum):
    """The values are how messages name the probe."""

    LIVENESS = "Liveness"
    READINESS = "Readiness"
    STARTUP = "Startup"


class ProbeResult(StrEnum):
    SUCCESS = "Success"
    FAILURE = "Failure"
    UNKNOWN = "Unknown"


class Prober(Protocol):
    """Runs the probes of running containers and remembers their results by container id.

    When a result changes, the pod's worker is woken.
    """

    def add_pod(self, pod: Pod, observed: RuntimePod) -> None:
        """Start, update or keep the probes of *pod*; repeatable and cheap."""
        ...

    def end_liveness(self, pod_uid: str) -> None:
        """Stop liveness and startup probes of a pod that is terminating; readiness goes on."""
        ...

    def remove_pod(self, pod_uid: str) -> None: ...

    def result(self, container_id: str, kind: ProbeKind) -> ProbeResult | None:
        """Return the last result that counts, or ``None`` when the container has no such probe."""
        ...
