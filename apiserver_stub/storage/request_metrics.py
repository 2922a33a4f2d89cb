"""Request metrics of the storage backend."""

from __future__ import annotations

from collections import Counter

from apiserver_stub.telemetry.exposition import Page
from nodeagent.base.metrics import Buckets

_SECONDS = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60)
_LABELS = ("operation", "type")


class StoreRequestMetrics:
    """Durations and errors of backend requests by operation and collection."""

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, str], Buckets] = {}
        self._failed: Counter[tuple[str, str]] = Counter()

    def count(self, operation: str, kind: str, seconds: float, *, failed: bool) -> None:
        """Record one request."""
        labels = (operation, resource_name(kind) if kind else "")
        found = self._seconds.get(labels)
        if found is None:
            found = self._seconds[labels] = Buckets(_SECONDS)
        found.observe(seconds)
        if failed:
            self._failed[labels] += 1

    def show_on(self, page: Page) -> None:
        """Add the metrics to *page*."""
        items = self._seconds.items()
        text = "Etcd request latency in seconds for each operation and object type."
        page.histogram("etcd_request_duration_seconds", text, _LABELS, items)
        counts = [(labels, sum(found.counts)) for labels, found in items]
        page.counter("etcd_requests_total", "Etcd request counts for each operation and object type.", _LABELS, counts)
        text = "Etcd failed request counts for each operation and object type."
        page.counter("etcd_request_errors_total", text, _LABELS, self._failed.items())


def resource_name(collection: str) -> str:
    """Return ``plural`` or ``plural.group`` of a collection."""
    group, _, plural = collection.rpartition("/")
    return plural if group == "core" else f"{plural}.{group}"
