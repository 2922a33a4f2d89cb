"""How one probe went, and when results count. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

from nodeagent.contracts.probes import ProbeKind, ProbeResult
from nodeagent.errors import NodeAgentError
from nodeagent.model.pod import Probe

MAX_OUTPUT_BYTES = 10 * 1024

INITIAL = {
    ProbeKind.LIVENESS: ProbeResult.SUCCESS,
    ProbeKind.READINESS: ProbeResult.FAILURE,
    ProbeKind.STARTUP: ProbeResult.UNKNOWN,
}
"""What counts before the first result."""


class ProbeError(NodeAgentError):
    """The probe itself could not be made: nothing is known about the container."""

    reason = "ProbeError"


class Verdict(Enum):
    SUCCESS = auto()
    WARNING = auto()
    """A success that people should hear about."""
    FAILURE = auto()
    IGNORED = auto()
    """Counts neither way."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one attempt found."""

    verdict: Verdict
    output: str = ""


class Streak:
    """Counts equal results in a row; one counts once there are as many as the probe's threshold."""

    def __init__(self) -> None:
        self._last: ProbeResult | None = None
        self._length = 0

    def add(self, result: ProbeResult, probe: Probe) -> bool:
        """Add a result; return whether it counts."""
        self._length = self._length + 1 if result is self._last else 1
        self._last = result
        wanted = probe.success_threshold if result is ProbeResult.SUCCESS else probe.failure_threshold
        return self._length >= wanted
