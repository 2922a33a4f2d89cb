"""Errors of the resource managers."""

from __future__ import annotations

from nodeagent.errors import NodeAgentError


class AdmissionRejected(NodeAgentError):
    """The pod is rejected; ``reason`` and message are part of its status."""


class AllocationFailed(NodeAgentError):
    """A resource is exhausted although the scheduler assigned the pod."""

    reason = "UnexpectedAdmissionError"


class StaleState(NodeAgentError):
    """A state file does not match the host or the configuration."""
