"""Metrics of requests, under upstream's names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.media import APPLY_PATCH
from apiserver_stub.apimachinery.request import RequestInfo
from apiserver_stub.telemetry.exposition import Labels, Page, counts_of
from nodeagent.base.metrics import Buckets

if TYPE_CHECKING:
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.kinds import Resource
    from apiserver_stub.transport.http import HttpRequest

_VERBS = {
    "connect": "CONNECT",
    "create": "POST",
    "delete": "DELETE",
    "deletecollection": "DELETECOLLECTION",
    "get": "GET",
    "list": "LIST",
    "patch": "PATCH",
    "update": "PUT",
    "watch": "WATCH",
}
_APPLY = "APPLY"
_METHODS = frozenset(["GET", "POST", "PUT", "PATCH", _APPLY, "DELETE", "HEAD", "OPTIONS", "CONNECT"])
_PATHS = frozenset(["api", "apis", "debug", "healthz", "livez", "metrics", "openapi", "readyz", "version"])
_SECONDS = (0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60)
_SLI_SECONDS = _SECONDS[2:]
_BYTES = tuple(1000 * 10**power for power in range(7))
_LONG = frozenset(["WATCH", "CONNECT"])
_WHAT = ("group", "version", "resource", "subresource", "scope", "component")


class Requests:
    """Metrics of the requests with the same labels, apart from the status code."""

    __slots__ = ("codes", "seconds", "sizes")

    def __init__(self) -> None:
        self.codes: dict[int, int] = {}
        self.seconds, self.sizes = Buckets(_SECONDS), Buckets(_BYTES)

    @property
    def sli_seconds(self) -> Buckets:
        """Durations with the bounds of the metrics for service levels, which lack the lowest ones."""
        found, lowest = Buckets(_SLI_SECONDS), len(_SECONDS) - len(_SLI_SECONDS) + 1
        found.counts = [sum(self.seconds.counts[:lowest]), *self.seconds.counts[lowest:]]
        found.total = self.seconds.total
        return found


class RequestMetrics:
    """Counts of requests since the start."""

    def __init__(self) -> None:
        self._requests: dict[Labels, Requests] = {}
        self._long: Counter[Labels] = Counter()
        self._terminated: Counter[Labels] = Counter()
        self._aborted: Counter[Labels] = Counter()
        self.translations: Counter[int] = Counter()
        """Streams of commands that were translated, by code."""
        self.authenticated = 0
        self.allowed, self.denied, self.no_opinion, self.undecided = 0, 0, 0, 0

    @property
    def watches(self) -> int:
        """Number of open watches and streams."""
        return sum(self._long.values())

    def count(
        self,
        info: RequestInfo,
        method: str,
        resource: Resource | None,
        code: int,
        seconds: float,
        size: int,
        dry_run: str,
    ) -> None:
        """Count one request with its response.

        :param size: bytes of the body before compression.
        """
        labels = (dry_run, *labels_of(info, method, resource))
        found = self._requests.get(labels)
        if found is None:
            found = self._requests[labels] = Requests()
        found.codes[code] = found.codes.get(code, 0) + 1
        found.seconds.observe(seconds)
        found.sizes.observe(size)

    def retain(self, resources: Iterable[Resource]) -> None:
        """Drop the metrics of all resources except *resources*, as clients may define any number of these."""
        served = {("", ""), *((item.group, item.plural) for item in resources)}
        self._requests = {labels: found for labels, found in self._requests.items() if (labels[2], labels[4]) in served}
        for counts in (self._terminated, self._aborted):
            for labels in [labels for labels in counts if (labels[1], labels[3]) not in served]:
                del counts[labels]

    def terminated(self, info: RequestInfo, method: str, resource: Resource | None, code: int) -> None:
        """Count a request that the server terminated because of a limit."""
        self._terminated[(*labels_of(info, method, resource), str(code))] += 1

    def aborted(self, info: RequestInfo, method: str, resource: Resource | None) -> None:
        """Count a request whose client disconnected before the response."""
        self._aborted[labels_of(info, method, resource)[:-1]] += 1

    def watch_started(self, info: RequestInfo, resource: Resource | None) -> None:
        self._long[labels_of(info, "GET", resource)] += 1

    def watch_ended(self, info: RequestInfo, resource: Resource | None) -> None:
        labels = labels_of(info, "GET", resource)
        self._long[labels] -= 1
        if not self._long[labels]:
            del self._long[labels]

    def show_on(self, page: Page) -> None:
        """Add the metrics of requests to *page*."""
        self._requests_on(page)
        page.counter(
            "authorization_attempts_total",
            "Counter of authorization attempts broken down by result.",
            ("result",),
            counts_of(
                {
                    "allowed": self.allowed,
                    "denied": self.denied,
                    "no-opinion": self.no_opinion,
                    "error": self.undecided,
                }
            ),
        )

    def _requests_on(self, page: Page) -> None:
        names = ("dry_run", "verb", *_WHAT)
        items = self._requests.items()
        page.counter(
            "apiserver_request_total",
            "Counter of apiserver requests by verb, dry run, group, version, resource, scope, component and HTTP code.",
            (*names, "code"),
            (((*labels, str(code)), count) for labels, found in items for code, count in found.codes.items()),
        )
        page.histogram(
            "apiserver_request_duration_seconds",
            "Response latency distribution in seconds.",
            names,
            ((labels, found.seconds) for labels, found in items),
        )
        short = [(labels[1:], found) for labels, found in items if labels[1] not in _LONG]
        for name, deprecated in (("sli", ""), ("slo", "1.27.0")):
            page.histogram(
                f"apiserver_request_{name}_duration_seconds",
                "Response latency distribution in seconds, for service levels.",
                ("verb", *_WHAT),
                ((labels, found.sli_seconds) for labels, found in short),
                deprecated=deprecated,
            )
        page.histogram(
            "apiserver_response_sizes",
            "Response size distribution in bytes.",
            ("verb", *_WHAT),
            ((labels, found.sizes) for labels, found in short),
        )
        page.gauge(
            "apiserver_longrunning_requests",
            "Gauge of all active long-running requests.",
            ("verb", *_WHAT),
            self._long.items(),
        )
        page.counter(
            "apiserver_request_terminations_total",
            "Number of requests which the server ended in self-defense.",
            ("verb", *_WHAT, "code"),
            self._terminated.items(),
        )
        page.counter(
            "apiserver_stream_translator_requests_total",
            "Total number of requests that were handled by the StreamTranslatorProxy, which processes streaming "
            "RemoteCommand/V5",
            ("code",),
            counts_of({str(code): count for code, count in self.translations.items()}),
        )
        page.counter(
            "apiserver_request_aborts_total",
            "Number of requests whose caller went away.",
            ("verb", *_WHAT[:-1]),
            self._aborted.items(),
        )


def method_of(request: HttpRequest | Request) -> str:
    """Return the method label of a request; server-side apply has a separate one."""
    applies = request.method == "PATCH" and request.headers.get("Content-Type") == APPLY_PATCH
    return _APPLY if applies else request.method


def labels_of(info: RequestInfo, method: str, resource: Resource | None) -> Labels:
    """Return the labels of a request; clients cannot choose their values freely, so their number is bounded."""
    if resource is None:
        root = info.path[1:].partition("/")[0]
        return (method if method in _METHODS else "other", "", "", "", f"/{root}" if root in _PATHS else "", "", "")
    subresource = info.subresource
    if subresource and resource.subresource(subresource) is None:
        subresource = ""
    scope = "resource" if info.name or info.verb == "create" else "namespace" if info.namespace else "cluster"
    verb = _APPLY if method == _APPLY else _VERBS.get(info.verb, "other")
    return verb, resource.group, info.version, resource.plural, subresource, scope, "apiserver"
