"""What the server counts about itself, and the page that tells it under the names that collectors know."""

from __future__ import annotations

import os
import resource as process
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.media import APPLY_PATCH
from apiserver_stub.apimachinery.request import RequestInfo
from apiserver_stub.endpoints import discovery
from apiserver_stub.storage.request_metrics import resource_name
from apiserver_stub.telemetry.exposition import Choice, Labels, Page
from nodeagent.base.metrics import Buckets

if TYPE_CHECKING:
    from aiohttp import web

    from apiserver_stub.aggregation.remotes import Remotes
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.flowcontrol.priority_and_fairness import PriorityAndFairness
    from apiserver_stub.kinds import Resource
    from apiserver_stub.server.state import ApiServer

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
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class _Requests:
    """All requests that differ in nothing that labels tell, but the code."""

    __slots__ = ("codes", "seconds", "sizes", "sli_seconds")

    def __init__(self) -> None:
        self.codes: dict[int, int] = {}
        self.seconds, self.sli_seconds = Buckets(_SECONDS), Buckets(_SLI_SECONDS)
        self.sizes = Buckets(_BYTES)


class Metrics:
    """Counts since the start."""

    def __init__(self) -> None:
        self._started = time.time()
        self._requests: dict[Labels, _Requests] = {}
        self._long: Counter[Labels] = Counter()
        self._terminated: Counter[Labels] = Counter()
        self._aborted: Counter[Labels] = Counter()
        self.authenticated = 0
        self.allowed, self.denied, self.no_opinion, self.undecided = 0, 0, 0, 0
        self.failed_handshakes: Callable[[], int] = int
        """Tells how many TLS handshakes failed."""

    @property
    def watches(self) -> int:
        """How many watches are open."""
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
        """Count one answered request.

        :param size: bytes of the answer's body before compression.
        """
        labels = (dry_run, *labels_of(info, method, resource))
        found = self._requests.get(labels)
        if found is None:
            found = self._requests[labels] = _Requests()
        found.codes[code] = found.codes.get(code, 0) + 1
        found.seconds.observe(seconds)
        if labels[1] not in _LONG:
            found.sli_seconds.observe(seconds)
            found.sizes.observe(size)

    def terminated(self, info: RequestInfo, method: str, resource: Resource | None, code: int) -> None:
        """Count a request that the server ended to protect itself: too many, or too long."""
        self._terminated[(*labels_of(info, method, resource), str(code))] += 1

    def aborted(self, info: RequestInfo, method: str, resource: Resource | None) -> None:
        """Count a request whose caller did not wait for the answer."""
        self._aborted[labels_of(info, method, resource)[:-1]] += 1

    def watch_started(self, info: RequestInfo, resource: Resource | None) -> None:
        self._long[labels_of(info, "GET", resource)] += 1

    def watch_ended(self, info: RequestInfo, resource: Resource | None) -> None:
        labels = labels_of(info, "GET", resource)
        self._long[labels] -= 1
        if not self._long[labels]:
            del self._long[labels]

    def render(self, server: ApiServer, choice: Choice) -> tuple[bytes, str]:
        """Return the page and its media type."""
        page = Page(choice)
        self._requests_on(page)
        page.gauge(
            "apiserver_current_inflight_requests",
            "Requests in flight, by kind.",
            ("request_kind",),
            [(("mutating",), server.under_way[True]), (("readOnly",), server.under_way[False])],
        )
        _audit_on(page, server)
        if server.fairness is not None:
            show_fairness(page, server.fairness)
        for name, text, count in (
            ("valid", "Service account tokens looked at in time.", server.tokens.valid_tokens),
            ("stale", "Service account tokens looked at past the time to renew them.", server.tokens.stale_tokens),
        ):
            page.counter(f"serviceaccount_{name}_tokens_total", text, (), [((), count)])
        page.counter(
            "authentication_attempts",
            "Counter of authenticated attempts.",
            ("result",),
            _seen({"success": self.authenticated, **server.authenticator.refused}),
        )
        if (certificates := server.authenticator.certificates) is not None:
            page.histogram(
                "apiserver_client_certificate_expiration_seconds",
                "How long the client certificates that requests came with are still good.",
                (),
                [((), certificates.seconds_left)],
            )
        page.counter(
            "authorization_attempts_total",
            "Counter of authorization attempts broken down by result.",
            ("result",),
            _seen(
                {
                    "allowed": self.allowed,
                    "denied": self.denied,
                    "no-opinion": self.no_opinion,
                    "error": self.undecided,
                }
            ),
        )
        show_remotes(page, server.remotes)
        _store_on(page, server)
        version = discovery.version(server.options.reported_version)
        names = ("major", "minor", "git_version", "platform")
        values = (version["major"], version["minor"], version["gitVersion"], version["platform"])
        page.gauge("kubernetes_build_info", "The version that the server tells.", names, [(values, 1)])
        page.gauge(
            "kubernetes_feature_enabled",
            "Whether a feature is on, with its stage.",
            ("name", "stage"),
            [((gate.name, gate.stage.value), on) for gate, on in server.options.gates],
        )
        self._process_on(page)
        return page.text()

    def _requests_on(self, page: Page) -> None:
        names = ("dry_run", "verb", *_WHAT)
        items = self._requests.items()
        page.counter(
            "apiserver_request_total",
            "Counter of apiserver requests by verb, dry run, group, version, resource, scope, component and HTTP code.",
            (*names, "code"),
            [((*labels, str(code)), count) for labels, found in items for code, count in found.codes.items()],
        )
        page.histogram(
            "apiserver_request_duration_seconds",
            "Response latency distribution in seconds.",
            names,
            [(labels, found.seconds) for labels, found in items],
        )
        short = [(labels[1:], found) for labels, found in items if labels[1] not in _LONG]
        for name, deprecated in (("sli", ""), ("slo", "1.27.0")):
            page.histogram(
                f"apiserver_request_{name}_duration_seconds",
                "Response latency distribution in seconds, for service levels.",
                ("verb", *_WHAT),
                [(labels, found.sli_seconds) for labels, found in short],
                deprecated=deprecated,
            )
        page.histogram(
            "apiserver_response_sizes",
            "Response size distribution in bytes.",
            ("verb", *_WHAT),
            [(labels, found.sizes) for labels, found in short],
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
            "apiserver_request_aborts_total",
            "Number of requests whose caller went away.",
            ("verb", *_WHAT[:-1]),
            self._aborted.items(),
        )

        page.counter(
            "apiserver_tls_handshake_errors_total",
            "Number of requests dropped with a TLS handshake error.",
            (),
            [((), self.failed_handshakes())],
        )

    def _process_on(self, page: Page) -> None:
        use = process.getrusage(process.RUSAGE_SELF)
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        for name, text, value in (
            ("process_start_time_seconds", "When the process started.", self._started),
            ("process_resident_memory_bytes", "Memory in use.", pages * _PAGE_BYTES),
            ("process_open_fds", "Open files.", len(list(Path("/proc/self/fd").iterdir()))),
        ):
            page.gauge(name, text, (), [((), value)])
        seconds = use.ru_utime + use.ru_stime
        page.counter("process_cpu_seconds_total", "Processor time used.", (), [((), seconds)])


def method_of(request: web.BaseRequest | Request) -> str:
    """Return the method as which a request is counted: to apply is another one than to patch."""
    applies = request.method == "PATCH" and request.headers.get("Content-Type") == APPLY_PATCH
    return _APPLY if applies else request.method


def labels_of(info: RequestInfo, method: str, resource: Resource | None) -> Labels:
    """Return what tells requests apart; nothing of it is the caller's free choice, so their number is bounded."""
    if resource is None:
        root = info.path[1:].partition("/")[0]
        return (method if method in _METHODS else "other", "", "", "", f"/{root}" if root in _PATHS else "", "", "")
    subresource = info.subresource
    if subresource and resource.subresource(subresource) is None:
        subresource = ""
    scope = "resource" if info.name or info.verb == "create" else "namespace" if info.namespace else "cluster"
    verb = _APPLY if method == _APPLY else _VERBS.get(info.verb, "other")
    return verb, resource.group, info.version, resource.plural, subresource, scope, "apiserver"


def _audit_on(page: Page, server: ApiServer) -> None:
    audit = server.audit
    if audit is None:
        return
    page.counter(
        "apiserver_audit_event_total",
        "Audit events that went to a backend.",
        (),
        [((), audit.events)],
    )
    page.counter(
        "apiserver_audit_error_total",
        "Counter of audit events that failed to be audited properly, by the plugin at fault.",
        ("plugin",),
        _seen(audit.errors),
    )
    page.counter(
        "apiserver_audit_level_total",
        "Requests by the audit level that the policy gave them.",
        ("level",),
        _seen(audit.levels),
    )
    page.counter(
        "apiserver_audit_requests_rejected_total",
        "Counter of requests rejected due to an error in an audit backend.",
        (),
        [((), audit.rejected)],
    )


def show_fairness(page: Page, fairness: PriorityAndFairness) -> None:
    """Add what requests were let in, wait and were turned away."""
    both, level = ("flow_schema", "priority_level"), ("priority_level",)
    page.counter(
        "apiserver_flowcontrol_dispatched_requests_total",
        "Number of requests that were let in.",
        both,
        fairness.dispatched.items(),
    )
    page.counter(
        "apiserver_flowcontrol_rejected_requests_total",
        "Number of requests that were turned away.",
        (*both, "reason"),
        fairness.rejected.items(),
    )
    levels = fairness.levels.values()
    running: dict[Labels, float] = {key: count - fairness.finished[key] for key, count in fairness.dispatched.items()}
    waiting: dict[Labels, float] = {}
    kinds: Counter[Labels] = Counter({("mutating",): 0, ("readOnly",): 0})
    for (schema, of, kind), count in fairness.waiting.items():
        waiting[schema, of] = waiting.get((schema, of), 0) + count
        kinds[kind,] += count
    for name, text, counts in (
        ("current_inqueue_requests", "Requests that wait.", waiting),
        ("current_executing_requests", "Requests that were let in and are not over.", running),
        ("current_executing_seats", "Seats in use.", running),
    ):
        page.gauge(f"apiserver_flowcontrol_{name}", text, both, counts.items())
    page.histogram(
        "apiserver_flowcontrol_request_wait_duration_seconds",
        "How long requests waited in a queue, and whether they were let in.",
        (*both, "execute"),
        fairness.waits.items(),
    )
    for name, text, values in (
        ("nominal_limit_seats", "Seats of a level.", [((item.name,), item.seats) for item in levels]),
        ("lower_limit_seats", "Seats that a level keeps.", [((item.name,), item.least) for item in levels]),
        ("upper_limit_seats", "Seats that a level may have.", [((item.name,), item.most) for item in levels]),
        ("current_limit_seats", "Seats that a level has now.", [((item.name,), item.limit) for item in levels]),
    ):
        page.gauge(f"apiserver_flowcontrol_{name}", text, level, values)
    page.gauge(
        "apiserver_current_inqueue_requests",
        "Requests that wait for a seat, by kind.",
        ("request_kind",),
        kinds.items(),
    )


def show_remotes(page: Page, remotes: Remotes) -> None:
    """Add which of the API services that other servers answer for cannot be had."""
    gone = [((remote.name,), not remote.available) for remote in remotes.table.values()]
    page.gauge("aggregator_unavailable_apiservice", "Whether an API service cannot be had now.", ("name",), gone)
    text = "How often an API service was available no more, by reason."
    page.counter("aggregator_unavailable_apiservice_total", text, ("name", "reason"), remotes.losses.items())


def _seen(counts: dict[str, int]) -> Iterable[tuple[Labels, float]]:
    return [((name,), count) for name, count in counts.items() if count]


def _store_on(page: Page, server: ApiServer) -> None:
    polls = server.polls
    counts = [((resource_name(name),), count) for name, count in polls.objects.items()]
    page.gauge("apiserver_storage_objects", "Number of stored objects by kind.", ("resource",), counts)
    text = "Bytes that the store's file takes on disk."
    numbered = [((f"etcd-{number}",), size) for number, size in enumerate(polls.sizes.values())]
    page.gauge("apiserver_storage_size_bytes", text, ("storage_cluster_id",), numbered)
    sizes = [((address,), size) for address, size in polls.sizes.items()]
    page.gauge("apiserver_storage_db_total_size_in_bytes", text, ("endpoint",), sizes)
    server.store_calls.show_on(page)
