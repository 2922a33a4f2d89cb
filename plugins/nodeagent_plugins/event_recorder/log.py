"""Event recorder of a standalone node, which writes events to the log."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from nodeagent.contracts.events import EventType
from nodeagent.model.meta import ObjectReference

_log = logging.getLogger(__name__)


class LogRecorder:
    """Writes each event as a log line."""

    def record(
        self,
        regarding: ObjectReference,
        type: EventType,
        reason: str,
        note: str,
        *,
        action: str = "",
        related: ObjectReference | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        name = f"{regarding.namespace}/{regarding.name}" if regarding.namespace else regarding.name
        shown = {"object": name, "kind": regarding.kind, "fieldPath": regarding.field_path, "type": str(type)}
        _log.info("Event occurred", extra={**shown, "reason": reason, "note": note})

    async def flush(self, timeout_seconds: float) -> None:
        return None
