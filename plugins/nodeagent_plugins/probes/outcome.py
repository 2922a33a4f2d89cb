"""Probe outcomes and thresholds. No I/O."""

from __future__ import annotations

from enum import Enum, auto

from nodeagent.base.structs import Struct
from nodeagent.contracts.probes import ProbeKind, ProbeResult
from nodeagent.errors import NodeAgentError
from nodeagent.model.pod import Probe

MAX_OUTPUT_BYTES = 10 * 1024

INITIAL = {
    ProbeKind.LIVENESS: ProbeResult.SUCCESS,
    ProbeKind.READINESS: ProbeResult.FAILURE,
    ProbeKind.STARTUP: ProbeResult.UNKNOWN,
}
"""Results before the first probe."""


class ProbeError(NodeAgentError):
    """The probe could not be executed, so the container's state is unknown."""

    reason = "ProbeError"


class OutcomeKind(Enum):
    SUCCESS = auto()
    WARNING = auto()
    """A success with a warning event."""
    FAILURE = auto()
    IGNORED = auto()
    """Counts neither as success nor as failure."""


class Outcome(Struct, frozen=True):
    """Outcome of one attempt."""

    kind: OutcomeKind
    output: str = ""


class Streak:
    """Counts consecutive equal results; a result is effective once the probe's threshold is reached."""

    def __init__(self) -> None:
        self._last: ProbeResult | None = None
        self._length = 0

    def add(self, result: ProbeResult, probe: Probe) -> bool:
        """Add a result; return whether it is effective."""
        self._length = self._length + 1 if result is self._last else 1
        self._last = result
        threshold = probe.success_threshold if result is ProbeResult.SUCCESS else probe.failure_threshold
        return self._length >= threshold
