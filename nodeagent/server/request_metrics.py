"""Request metrics of the agent's HTTPS server."""

from __future__ import annotations

from nodeagent.base.metrics import Counter, Gauge, Histogram

_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
_LABELS = ("method", "path", "server_type", "long_running")

REQUESTS = Counter("http_requests_total", "Number of the http requests received since the server started", _LABELS)
INFLIGHT = Gauge("http_inflight_requests", "Number of the inflight http requests", _LABELS)
DURATIONS = Histogram("http_requests_duration_seconds", "Duration in seconds to serve http requests", _LABELS)


class RequestMetrics:
    """Request metrics of one port.

    :param server_type: ``readonly`` or ``readwrite``.
    """

    def __init__(self, server_type: str) -> None:
        self._type = server_type

    def begin(self, method: str, path: str, long_running: bool) -> tuple[str, ...]:
        """Record the start of a request; return the labels for :meth:`end`. Unknown methods share one label."""
        labels = (method if method in _METHODS else "other", path, self._type, str(long_running).lower())
        INFLIGHT.inc(*labels)
        return labels

    def end(self, labels: tuple[str, ...], seconds: float) -> None:
        """Record the end of a request."""
        INFLIGHT.inc(*labels, by=-1)
        REQUESTS.inc(*labels)
        DURATIONS.observe(seconds, *labels)
