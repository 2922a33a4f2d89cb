"""``/metrics``: one page of the metrics of all components, under upstream's names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from apiserver_stub.apimachinery.version import version
from apiserver_stub.authn.key_set import sha256_text
from apiserver_stub.storage.request_metrics import resource_name
from apiserver_stub.telemetry.exposition import Choice, Labels, Page, counts_of
from apiserver_stub.verbs.responses import Reply
from nodeagent.base.process_figures import process_figures
from nodeagent.base.release import OLDEST, Release

if TYPE_CHECKING:
    from apiserver_stub.admission.manifest_reloads import ManifestReloads
    from apiserver_stub.aggregation.remotes import Remotes
    from apiserver_stub.apimachinery.request import Request
    from apiserver_stub.audit.context import Audit
    from apiserver_stub.authn import Authenticator
    from apiserver_stub.authn.oidc import OidcTokens
    from apiserver_stub.authn.service_account import ServiceAccountTokens
    from apiserver_stub.endpoints.health import Outcomes
    from apiserver_stub.flowcontrol.priority_and_fairness import PriorityAndFairness
    from apiserver_stub.storage.monitor import StoreMonitor
    from apiserver_stub.storage.request_metrics import StoreRequestMetrics
    from apiserver_stub.verbs.shards import ShardCounts
    from nodeagent.base.gates import FeatureGates

Collector = Callable[[Page], None]
"""Adds the metrics of a component to a page."""
PATH, OUTCOMES_PATH = "/metrics", "/metrics/slis"
_BUILD_INFO = (
    "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, "
    "Go version, and compiler from which Kubernetes was built, and platform on which it is running."
)


class Metrics:
    """The metrics endpoints.

    :param outcomes: outcomes of health checks, ``None`` if they are not served (spec: gate.ComponentSLIs).
    """

    read_only = False

    def __init__(self, choice: Choice, collectors: Sequence[Collector], outcomes: Outcomes | None) -> None:
        self._choice, self._collectors, self._outcomes = choice, collectors, outcomes

    async def respond(self, request: Request) -> Reply | None:
        """Return the page at *request*'s path, ``None`` for other paths."""
        if request.info.path == PATH:
            page = Page(self._choice)
            for collect in self._collectors:
                collect(page)
            body, content_type = page.text()
        elif request.info.path == OUTCOMES_PATH and self._outcomes is not None:
            body, content_type = self._outcomes.render(self._choice)
        else:
            return None
        return Reply(200, body=body, content_type=content_type)


def show_authentication(page: Page, successes: int, authenticator: Authenticator, tokens: ServiceAccountTokens) -> None:
    """Add the metrics of authentication."""
    for name, text, count in (
        ("valid", "Cumulative valid projected service account tokens used", tokens.valid_tokens),
        ("stale", "Cumulative stale projected service account tokens used", tokens.stale_tokens),
    ):
        page.counter(f"serviceaccount_{name}_tokens_total", text, (), [((), count)])
    page.counter(
        "authentication_attempts",
        "Counter of authenticated attempts.",
        ("result",),
        counts_of({"success": successes, **authenticator.rejected}),
    )
    if (certificates := authenticator.certificates) is not None:
        page.histogram(
            "apiserver_client_certificate_expiration_seconds",
            "Distribution of the remaining lifetime on the certificate used to authenticate a request.",
            (),
            [((), certificates.seconds_left)],
        )


def show_key_sets(page: Page, issuers: Sequence[OidcTokens], server_id: str) -> None:
    """Add the fetches of key sets (spec: gate.StructuredAuthenticationConfigurationJWKSMetrics)."""
    server = sha256_text(server_id.encode())
    by_hash = [(sha256_text(item.issuer.encode()), item.keys) for item in issuers]
    page.gauge(
        "apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds",
        "Timestamp of the last successful or failed JWKS fetch split by result, api server identity and jwt issuer for "
        "the JWT authenticator.",
        ("result", "jwt_issuer_hash", "apiserver_id_hash"),
        [((result, issuer, server), at) for issuer, keys in by_hash for result, at in keys.fetched_at.items()],
    )
    page.gauge(
        "apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info",
        "Information about the last JWKS fetched by the JWT authenticator with hash as label, split by api server "
        "identity and jwt issuer.",
        ("jwt_issuer_hash", "apiserver_id_hash", "hash"),
        [((issuer, server, keys.digest), 1) for issuer, keys in by_hash if keys.digest],
    )


def show_manifests(page: Page, reloads: ManifestReloads, server_id: str) -> None:
    """Add the reloads of admission manifests (spec: gate.ManifestBasedAdmissionControlConfig)."""
    start, server = "apiserver_manifest_admission_config_controller", sha256_text(server_id.encode())
    labels = ("status", "plugin", "apiserver_id_hash")
    page.counter(
        f"{start}_automatic_reloads_total",
        "Total number of automatic reloads of admission manifest configuration split by status, plugin, and apiserver "
        "identity.",
        labels,
        [((*result, server), count) for result, count in reloads.counts.items()],
    )
    page.gauge(
        f"{start}_automatic_reload_last_timestamp_seconds",
        "Timestamp of the last automatic reload of admission manifest configuration split by status, plugin, and "
        "apiserver identity.",
        labels,
        [((*result, server), at) for result, at in reloads.last_at.items()],
    )
    page.gauge(
        f"{start}_last_config_info",
        "Information about the last applied admission manifest configuration with hash as label, split by plugin and "
        "apiserver identity.",
        ("plugin", "apiserver_id_hash", "hash"),
        [((plugin, server, f"sha256:{digest}"), 1) for plugin, digest in reloads.digests.items()],
    )


def show_shards(page: Page, counts: ShardCounts) -> None:
    """Add the watches of shards (spec: gate.ShardedListAndWatch)."""
    text = "Number of active sharded watch connections broken by resource type."
    page.gauge("apiserver_watch_shards_total", text, ("group", "resource"), counts.watches.items())
    text = "Counter of events filtered out by shard selector during watch dispatch, broken by resource type."
    page.counter("apiserver_watch_filtered_events_total", text, ("group", "resource"), counts.filtered.items())


def show_version(page: Page, reported: str, gates: FeatureGates, release: Release = OLDEST) -> None:
    """Add the version and the feature gates."""
    found = version(reported, release)
    names = ("major", "minor", "git_version", "platform")
    values = (found["major"], found["minor"], found["gitVersion"], found["platform"])
    page.gauge("kubernetes_build_info", _BUILD_INFO, names, [(values, 1)])
    page.gauge(
        "kubernetes_feature_enabled",
        "This metric records the data about the stage and enablement of a k8s feature.",
        ("name", "stage"),
        [((gate.name, gate.stage.value), on) for gate, on in gates],
    )


def show_in_flight(page: Page, mutating: int, read_only: int) -> None:
    """Add the numbers of requests in flight."""
    page.gauge(
        "apiserver_current_inflight_requests",
        "Number of requests in flight of this apiserver per request kind.",
        ("request_kind",),
        [(("mutating",), mutating), (("readOnly",), read_only)],
    )


def show_handshake_errors(page: Page, count: int) -> None:
    """Add the number of failed TLS handshakes."""
    page.counter(
        "apiserver_tls_handshake_errors_total",
        "Number of requests dropped with a TLS handshake error.",
        (),
        [((), count)],
    )


def show_process(page: Page) -> None:
    """Add the metrics of the process."""
    for figure in process_figures():
        add = page.counter if figure.kind == "counter" else page.gauge
        add(figure.name, figure.description, (), [((), figure.value)])


def show_audit(page: Page, audit: Audit) -> None:
    """Add the metrics of auditing."""
    page.counter(
        "apiserver_audit_event_total",
        "Counter of audit events generated and sent to the audit backend.",
        (),
        [((), audit.events)],
    )
    page.counter(
        "apiserver_audit_error_total",
        "Counter of audit events that failed to be audited properly, by the plugin at fault.",
        ("plugin",),
        counts_of(audit.errors),
    )
    page.counter(
        "apiserver_audit_level_total",
        "Counter of policy levels for audit events (1 per request).",
        ("level",),
        counts_of(audit.levels),
    )
    page.counter(
        "apiserver_audit_requests_rejected_total",
        "Counter of requests rejected due to an error in an audit backend.",
        (),
        [((), audit.rejected)],
    )


def show_fairness(page: Page, fairness: PriorityAndFairness) -> None:
    """Add the metrics of API Priority and Fairness."""
    both, level = ("flow_schema", "priority_level"), ("priority_level",)
    flows = [(labels, found) for labels, found in fairness.counts.items() if found.dispatched]
    page.counter(
        "apiserver_flowcontrol_dispatched_requests_total",
        "Number of requests executed by API Priority and Fairness subsystem",
        both,
        [(labels, found.dispatched) for labels, found in flows],
    )
    page.counter(
        "apiserver_flowcontrol_rejected_requests_total",
        "Number of requests rejected by API Priority and Fairness subsystem",
        (*both, "reason"),
        fairness.rejected.items(),
    )
    levels = fairness.levels.values()
    waiting: dict[Labels, float] = {}
    kinds: Counter[Labels] = Counter({("mutating",): 0, ("readOnly",): 0})
    for (schema, of, kind), count in fairness.waiting.items():
        waiting[schema, of] = waiting.get((schema, of), 0) + count
        kinds[kind,] += count
    for name, text, samples in (
        (
            "current_inqueue_requests",
            "Number of requests currently pending in queues of the API Priority and Fairness subsystem",
            waiting.items(),
        ),
        (
            "current_executing_requests",
            "Number of requests in execution in the API Priority and Fairness subsystem",
            [(labels, found.executing) for labels, found in flows],
        ),
        (
            "current_executing_seats",
            "Concurrency (number of seats) occupied by the currently executing requests",
            [(labels, found.seats) for labels, found in flows],
        ),
    ):
        page.gauge(f"apiserver_flowcontrol_{name}", text, both, samples)
    page.histogram(
        "apiserver_flowcontrol_request_wait_duration_seconds",
        "Length of time a request spent waiting in its queue",
        (*both, "execute"),
        fairness.waits.items(),
    )
    for name, text, values in (
        (
            "nominal_limit_seats",
            "Nominal number of execution seats configured for each priority level",
            [((item.name,), item.seats) for item in levels],
        ),
        (
            "lower_limit_seats",
            "Configured lower bound on number of execution seats available to each priority level",
            [((item.name,), item.least) for item in levels],
        ),
        (
            "upper_limit_seats",
            "Configured upper bound on number of execution seats available to each priority level",
            [((item.name,), item.most) for item in levels],
        ),
        (
            "current_limit_seats",
            "current derived number of execution seats available to each priority level",
            [((item.name,), item.limit) for item in levels],
        ),
    ):
        page.gauge(f"apiserver_flowcontrol_{name}", text, level, values)
    page.gauge(
        "apiserver_current_inqueue_requests",
        "Number of requests in the queues of this apiserver per request kind.",
        ("request_kind",),
        kinds.items(),
    )


def show_remotes(page: Page, remotes: Remotes) -> None:
    """Add the availability of the API services of extension API servers."""
    gone = [((remote.name,), not remote.available) for remote in remotes.table.values()]
    page.gauge(
        "aggregator_unavailable_apiservice",
        "Gauge of APIServices which are marked as unavailable broken down by APIService name.",
        ("name",),
        gone,
    )
    text = "Counter of APIServices which are marked as unavailable broken down by APIService name and reason."
    page.counter("aggregator_unavailable_apiservice_total", text, ("name", "reason"), remotes.losses.items())


def show_storage(page: Page, monitor: StoreMonitor, requests: StoreRequestMetrics) -> None:
    """Add the metrics of the storage backend."""
    counts = [((resource_name(name),), count) for name, count in monitor.objects.items()]
    page.gauge("apiserver_storage_objects", "Number of stored objects by kind.", ("resource",), counts)
    text = "Bytes that the store's file takes on disk."
    numbered = [((f"etcd-{number}",), size) for number, size in enumerate(monitor.sizes.values())]
    page.gauge("apiserver_storage_size_bytes", text, ("storage_cluster_id",), numbered)
    sizes = [((address,), size) for address, size in monitor.sizes.items()]
    page.gauge("apiserver_storage_db_total_size_in_bytes", text, ("endpoint",), sizes)
    requests.show_on(page)
