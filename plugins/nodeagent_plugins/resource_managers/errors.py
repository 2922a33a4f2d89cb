"""Why a pod does not get what it asks for."""

from __future__ import annotations

from nodeagent.errors import NodeAgentError


class AdmissionRejected(NodeAgentError):
    """The pod may not run here; ``reason`` and the message are what its status shows."""


class AllocationFailed(NodeAgentError):
    """There is not enough of something that the scheduler believed to be there."""

    reason = "UnexpectedAdmissionError"


class StaleState(NodeAgentError):
    """What a state file tells does not fit this machine or this configuration."""
