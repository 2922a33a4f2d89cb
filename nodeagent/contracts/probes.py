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
    """Result of a probe; ``UNKNOWN`` if it could not run."""

    SUCCESS = "Success"
    FAILURE = "Failure"
    UNKNOWN = "Unknown"


class Prober(Protocol):
    """Runs the probes of running containers and caches their results by container ID.

    A changed result triggers a sync of the pod.
    """

    def add_pod(self, pod: Pod, observed: RuntimePod) -> None:
        """Start or update the probes of *pod*; idempotent and cheap.

        :param pod: the desired pod.
        :param observed: its state in the runtime.
        """
        ...

    def end_liveness(self, pod_uid: str) -> None:
        """Stop liveness and startup probes of a terminating pod; readiness probes continue.

        :param pod_uid: UID of a terminating pod.
        """
        ...

    def remove_pod(self, pod_uid: str) -> None:
        """Stop all probes of a pod and drop their results; idempotent.

        :param pod_uid: UID of a terminated pod.
        """
        ...

    def result(self, container_id: str, kind: ProbeKind) -> ProbeResult | None:
        """Return the last effective result, or ``None`` if the container has no such probe.

        :param container_id: ID of the container in the runtime.
        :param kind: the probe type.
        """
        ...
