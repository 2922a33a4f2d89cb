"""Admission by pod fields: pods that use fields that this agent does not implement are rejected."""

from __future__ import annotations

import logging

from nodeagent import hookimpl
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.events import EventType
from nodeagent.contracts.pods import Rejection
from nodeagent.model.pod import Pod
from nodeagent.model.unsupported_fields import FIELD_NOT_SUPPORTED, unsupported_uses
from nodeagent_plugins.pod_admission.running import is_running

_log = logging.getLogger(__name__)


class FieldAdmission:
    """Rejects new pods with fields that this agent does not implement.

    Pods that already run, because an earlier release of the agent or another agent started them, keep running.
    """

    def __init__(self, context: AgentContext) -> None:
        self._context = context

    @hookimpl
    async def nodeagent_admit_pod(self, pod: Pod) -> Rejection | None:
        uses = unsupported_uses(pod, self._context.gates)
        if not uses:
            return None
        fields = "; ".join(map(str, uses))
        if await is_running(self._context, pod):
            note = f"Pod uses fields that this node does not support and that have no effect: {fields}"
            self._context.recorder.record(pod.reference(), EventType.WARNING, FIELD_NOT_SUPPORTED, note)
            _log.warning(
                "Running pod uses unsupported fields, ignoring them",
                extra={"pod": pod.full_name, "podUID": pod.uid, "fields": fields},
            )
            return None
        reasons = [use.field.reason for use in uses]
        reason = next((each for each in reasons if each != FIELD_NOT_SUPPORTED), FIELD_NOT_SUPPORTED)
        return Rejection(reason, f"Pod uses fields that this node does not support: {fields}")
