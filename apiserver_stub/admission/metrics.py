"""Metrics of admission: durations of the phases and their plugins, and calls of webhooks, under upstream's names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from typing import TYPE_CHECKING, Any

from apiserver_stub.telemetry.exposition import Labels
from nodeagent.base.metrics import Buckets

if TYPE_CHECKING:
    from apiserver_stub.telemetry.exposition import Page

_SECONDS = (0.005, 0.025, 0.1, 0.5, 1.0, 2.5)
_WEBHOOK_SECONDS = (*_SECONDS, 10.0, 25.0)
CALL_FAILED = 503
"""Code of a webhook that could not be called or returned an invalid response."""
_TYPES = {"MutatingWebhookConfiguration": "admit", "ValidatingWebhookConfiguration": "validating"}


class Durations:
    """Durations of a plugin or phase, for accepted and for rejected requests."""

    __slots__ = ("accepted", "rejected")

    def __init__(self) -> None:
        self.accepted, self.rejected = Buckets(_SECONDS), Buckets(_SECONDS)


class AdmissionMetrics:
    """Metrics of the admission of one server."""

    def __init__(self) -> None:
        self._phases: dict[Labels, Durations] = {}
        self._plugins: dict[Labels, Durations] = {}
        self._webhook_seconds: dict[Labels, Buckets] = {}
        self._webhook_requests: Counter[Labels] = Counter()
        self._webhook_rejections: Counter[Labels] = Counter()
        self._webhook_fail_opens: Counter[Labels] = Counter()

    def phase(self, phase: str, operation: str) -> Durations:
        """Return the durations of a phase, ``admit`` or ``validate``."""
        return self._phases.setdefault((phase, operation), Durations())

    def plugin(self, name: str, phase: str, operation: str) -> Durations:
        """Return the durations of a plugin in a phase."""
        return self._plugins.setdefault((name, phase, operation), Durations())

    def webhook_called(
        self, name: str, kind: str, operation: str, seconds: float, code: int, error: str, *, rejected: bool
    ) -> None:
        """Count a call of a webhook.

        :param kind: kind of the webhook's configuration.
        :param code: code of the decision, :data:`CALL_FAILED` without one.
        :param error: reason of a rejection, by the names of upstream.
        """
        labels, outcome = (name, _TYPES[kind], operation), str(rejected).lower()
        found = self._webhook_seconds.setdefault((*labels, outcome), Buckets(_WEBHOOK_SECONDS))
        found.observe(seconds)
        self._webhook_requests[(*labels, str(code), outcome)] += 1
        if rejected:
            self._webhook_rejections[(*labels, error, str(code))] += 1

    def webhook_failed_open(self, name: str, kind: str) -> None:
        """Count a request that was accepted although the webhook could not be called."""
        self._webhook_fail_opens[name, _TYPES[kind]] += 1

    def retain_webhooks(self, names: Container[str], kind: str) -> None:
        """Drop the metrics of all webhooks of *kind* except *names*, as clients may define any number of these."""
        every: tuple[dict[Labels, Any], ...] = (
            self._webhook_seconds,
            self._webhook_requests,
            self._webhook_rejections,
            self._webhook_fail_opens,
        )
        for series in every:
            for labels in [item for item in series if item[1] == _TYPES[kind] and item[0] not in names]:
                del series[labels]

    def show_on(self, page: Page) -> None:
        """Add the metrics to *page*."""
        page.histogram(
            "apiserver_admission_step_admission_duration_seconds",
            "Admission sub-step latency histogram in seconds, broken out for each operation and API resource and step "
            "type (validate or admit).",
            ("type", "operation", "rejected"),
            _used(self._phases),
        )
        page.histogram(
            "apiserver_admission_controller_admission_duration_seconds",
            "Admission controller latency histogram in seconds, identified by name and broken out for each operation "
            "and API resource and type (validate or admit).",
            ("name", "type", "operation", "rejected"),
            _used(self._plugins),
        )
        labels = ("name", "type", "operation")
        page.histogram(
            "apiserver_admission_webhook_admission_duration_seconds",
            "Admission webhook latency histogram in seconds, identified by name and broken out for each operation and "
            "API resource and type (validate or admit).",
            (*labels, "rejected"),
            self._webhook_seconds.items(),
        )
        page.counter(
            "apiserver_admission_webhook_request_total",
            "Admission webhook request total, identified by name and broken out for each admission type (validating or "
            "mutating) and operation.",
            (*labels, "code", "rejected"),
            self._webhook_requests.items(),
        )
        page.counter(
            "apiserver_admission_webhook_rejection_count",
            "Admission webhook rejection count, identified by name and broken out for each admission type (validating "
            "or admit) and operation.",
            (*labels, "error_type", "rejection_code"),
            self._webhook_rejections.items(),
        )
        page.counter(
            "apiserver_admission_webhook_fail_open_count",
            "Admission webhook fail open count, identified by name and broken out for each admission type (validating "
            "or admit).",
            ("name", "type"),
            self._webhook_fail_opens.items(),
        )


def _used(durations: dict[Labels, Durations]) -> list[tuple[Labels, Buckets]]:
    return [
        ((*labels, rejected), buckets)
        for labels, found in durations.items()
        for rejected, buckets in (("false", found.accepted), ("true", found.rejected))
        if any(buckets.counts)
    ]
