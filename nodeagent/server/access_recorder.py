"""Records of accesses to containers and logs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

import msgspec

from nodeagent.base.aio import Clock
from nodeagent.contracts.server import AccessRecord, AccessStage, Route, User
from nodeagent.server.access import required_access

if TYPE_CHECKING:
    from aiohttp import web

MAX_URI_LENGTH = 8192
MAX_AGENT_LENGTH = 1024


class AccessQueue(Protocol):
    """Receives the records."""

    @property
    def needed(self) -> bool:
        """True if anything handles the records."""
        ...

    def put(self, value: AccessRecord) -> None:
        """Queue a record."""
        ...


class AccessRecorder:
    """Queues the stages of requests."""

    def __init__(self, clock: Clock, queue: AccessQueue) -> None:
        self._clock, self._queue = clock, queue

    def begin(self, request: web.Request, route: Route) -> RecordedAccess | None:
        """Return the record of a new request; ``None`` if it is not needed."""
        if not self._queue.needed:
            return None
        return RecordedAccess(request, route, self._clock.wall, self._queue.put)


class RecordedAccess:
    """The record of one request."""

    def __init__(
        self,
        request: web.Request,
        route: Route,
        now: Callable[[], datetime],
        put: Callable[[AccessRecord], None],
    ) -> None:
        self._now, self._put = now, put
        info = request.match_info
        verb, subresources = required_access(request.method, route)
        received = now()
        self._record = AccessRecord(
            id=str(uuid4()),
            stage=AccessStage.RECEIVED,
            user=None,
            source=request.remote or "",
            user_agent=request.headers.get("User-Agent", "")[:MAX_AGENT_LENGTH],
            method=request.method,
            uri=request.raw_path[:MAX_URI_LENGTH],
            subresource=subresources[-1] if subresources else "",
            verb=verb,
            namespace=info.get("namespace", ""),
            pod=info.get("pod", ""),
            container=info.get("container", ""),
            received_at=received,
            recorded_at=received,
        )

    def admitted(self, user: User | None) -> None:
        """Record that the request is authorized."""
        self._put(msgspec.structs.replace(self._record, user=user, recorded_at=self._now()))

    def ended(self, user: User | None, status: int, sent_bytes: int) -> None:
        """Record that the request has ended or was rejected."""
        self._put(
            msgspec.structs.replace(
                self._record,
                stage=AccessStage.COMPLETE,
                user=user,
                recorded_at=self._now(),
                status=status,
                sent_bytes=sent_bytes,
            )
        )
