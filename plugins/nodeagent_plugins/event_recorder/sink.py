"""Writes series of events to the API server as core/v1 events, the form that the kubelet writes.

Clients of that API use times, count and source, which an event created through ``events.k8s.io/v1`` lacks.
"""

from __future__ import annotations

from typing import Any

from nodeagent.base import identity
from nodeagent.contracts.api import CORE_EVENTS, Api
from nodeagent.errors import ApiConflict
from nodeagent.model.meta import wire_time
from nodeagent.model.wire import to_wire
from nodeagent_plugins.event_recorder.aggregator import Series

_MAX_NAME_BYTES = 220
"""The name has at most 253 bytes, and the time needs the others."""


class Sink:
    """Creates events and updates their counts.

    :param api: a client that limits the rate of requests.
    """

    def __init__(self, api: Api, node_name: str) -> None:
        self._api, self._node_name = api, node_name

    async def begin(self, series: Series) -> None:
        """Create the event; one of this name exists if the response to an earlier request was lost.

        :raises ApiError: the server did not accept it.
        """
        try:
            await self._api.create(CORE_EVENTS, self._event(series), _namespace(series), decode=False)
        except ApiConflict:
            if series.count > 1:
                await self.count(series)

    async def count(self, series: Series) -> None:
        """Update the count, the time of the last occurrence and its message.

        :raises ApiNotFound: the event has expired.
        :raises ApiError: the server did not accept it.
        """
        changes = {"count": series.count, "lastTimestamp": wire_time(series.last_at), "message": series.note}
        await self._api.patch(CORE_EVENTS, _name(series), changes, _namespace(series), decode=False)

    def _event(self, series: Series) -> dict[str, Any]:
        component = identity.current().component
        event = {
            "metadata": _metadata(series),
            "involvedObject": to_wire(series.regarding),
            "reason": series.reason,
            "message": series.note,
            "source": {"component": component, "host": self._node_name},
            "firstTimestamp": wire_time(series.first_at),
            "lastTimestamp": wire_time(series.last_at),
            "count": series.count,
            "type": str(series.type),
            "reportingComponent": component,
            "reportingInstance": self._node_name,
        }
        if series.action:
            event["action"] = series.action
        if series.related is not None:
            event["related"] = to_wire(series.related)
        return event


def _metadata(series: Series) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": _name(series), "namespace": _namespace(series)}
    return {**metadata, "annotations": dict(series.annotations)} if series.annotations else metadata


def _namespace(series: Series) -> str:
    return series.regarding.namespace or "default"


def _name(series: Series) -> str:
    """Return the object's name and the time in hexadecimal nanoseconds, as the kubelet names events."""
    started = int(series.first_at.timestamp() * 1_000_000) * 1000 + series.serial % 1000
    stem = series.regarding.name.encode()[:_MAX_NAME_BYTES].decode(errors="ignore").rstrip(".-")
    return f"{stem or 'unknown'}.{started:016x}"
