"""Counts of requests."""

from __future__ import annotations

from nodeagent.base.metrics import Counter, Gauge, Histogram

_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
_LABELS = ("method", "path", "server_type", "long_running")

REQUESTS = Counter("http_requests_total", "Requests that were answered.", _LABELS)
INFLIGHT = Gauge("http_inflight_requests", "Requests that are being answered.", _LABELS)
DURATIONS = Histogram("http_requests_duration_seconds", "How long requests took.", _LABELS)


class Statistics:
    """What one port answers.

    :param server_type: ``readonly`` or ``readwrite``.
    """

    def __init__(self, server_type: str) -> None:
        self._type = server_type

    def begin(self, method: str, path: str, long_running: bool) -> tuple[str, ...]:
        """Note that a request came; return what :meth:`end` wants. Unknown methods share one name."""
        labels = (method if method in _METHODS else "other", path, self._type, str(long_running).lower())
        INFLIGHT.inc(*labels)
        return labels

    def end(self, labels: tuple[str, ...], seconds: float) -> None:
        """Note that the request was answered."""
        INFLIGHT.inc(*labels, by=-1)
        REQUESTS.inc(*labels)
        DURATIONS.observe(seconds, *labels)
