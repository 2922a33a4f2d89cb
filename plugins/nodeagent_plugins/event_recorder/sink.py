"""Writes series to the server: as ``events/v1``, or as core/v1 where a server does not grant nodes the group."""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from nodeagent.base import identity
from nodeagent.contracts.api import CORE_EVENTS, EVENTS, Api
from nodeagent.errors import ApiConflict, ApiError
from nodeagent.model.meta import wire_micro_time, wire_time
from nodeagent.model.wire import to_wire
from nodeagent_plugins.event_recorder.ledger import Series, cut

_MAX_NAME_BYTES = 220
"""The rest of a name's 253 bytes is for the time."""
_MAX_INSTANCE_BYTES = 128
_NOT_GRANTED = (403, 404)

_log = logging.getLogger(__name__)


class Sink:
    """Tells the server about series.

    :param api: a client that keeps the rate of events.
    """

    def __init__(self, api: Api, node_name: str) -> None:
        self._api, self._node_name = api, node_name
        self._core_only = False

    async def begin(self, series: Series) -> None:
        """Create the event; one that is there already is fine.

        :raises ApiError: the server did not take it in any form.
        """
        namespace = _namespace(series)
        refusal: ApiError | None = None
        if not self._core_only:
            try:
                await self._api.create(EVENTS, self._event(series), namespace, answer=False)
            except ApiConflict:
                pass  # the answer to an earlier attempt was lost
            except ApiError as error:
                if error.code not in _NOT_GRANTED:
                    raise
                refusal = error
            if refusal is None:
                series.core = False
                return
        with suppress(ApiConflict):
            await self._api.create(CORE_EVENTS, self._core_event(series), namespace, answer=False)
        series.core = True
        if refusal is not None:
            self._core_only = True
            _log.info("Events go to the core group from now on", extra={"err": str(refusal)})

    async def count(self, series: Series) -> None:
        """Tell how often and when last, and in the older form, whose notes may change, what the last one said.

        :raises ApiNotFound: the server has forgotten the event.
        :raises ApiError: the server did not take it.
        """
        if series.core:
            core = {"count": series.count, "lastTimestamp": wire_time(series.last_at), "message": series.note}
            await self._api.patch(CORE_EVENTS, _name(series), core, _namespace(series), answer=False)
        else:
            await self._api.patch(EVENTS, _name(series), {"series": _series(series)}, _namespace(series), answer=False)

    def _event(self, series: Series) -> dict[str, Any]:
        event = {
            "metadata": _metadata(series),
            "eventTime": wire_micro_time(series.first_at),
            "reportingController": identity.current().component,
            "reportingInstance": cut(self._node_name, _MAX_INSTANCE_BYTES),
            "action": series.action,
            "reason": series.reason,
            "regarding": to_wire(series.regarding),
            "note": series.note,
            "type": str(series.type),
        }
        if series.related is not None:
            event["related"] = to_wire(series.related)
        if series.count > 1:
            event["series"] = _series(series)
        return event

    def _core_event(self, series: Series) -> dict[str, Any]:
        event = {
            "metadata": _metadata(series),
            "involvedObject": to_wire(series.regarding),
            "reason": series.reason,
            "message": series.note,
            "source": {"component": identity.current().component, "host": self._node_name},
            "firstTimestamp": wire_time(series.first_at),
            "lastTimestamp": wire_time(series.last_at),
            "count": series.count,
            "type": str(series.type),
            "reportingComponent": identity.current().component,
            "reportingInstance": cut(self._node_name, _MAX_INSTANCE_BYTES),
        }
        if series.related is not None:
            event["related"] = to_wire(series.related)
        return event


def _metadata(series: Series) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": _name(series), "namespace": _namespace(series)}
    return {**metadata, "annotations": dict(series.annotations)} if series.annotations else metadata


def _namespace(series: Series) -> str:
    return series.regarding.namespace or "default"


def _name(series: Series) -> str:
    """Return the object's name and the time in hexadecimal nanoseconds, as the field names events."""
    began = int(series.first_at.timestamp() * 1_000_000) * 1000 + series.serial % 1000
    stem = series.regarding.name.encode()[:_MAX_NAME_BYTES].decode(errors="ignore").rstrip(".-")
    return f"{stem or 'unknown'}.{began:016x}"


def _series(series: Series) -> dict[str, Any]:
    return {"count": series.count, "lastObservedTime": wire_micro_time(series.last_at)}
