"""Construction of the request pipeline."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from apiserver_stub.admission import AdmissionChain
from apiserver_stub.aggregation.extension_client import ExtensionClient
from apiserver_stub.aggregation.remotes import Remotes
from apiserver_stub.audit.context import Audit
from apiserver_stub.authn import Authenticator
from apiserver_stub.authn.oidc import OidcTokens
from apiserver_stub.authn.service_account import ServiceAccountTokens
from apiserver_stub.authz import Chain
from apiserver_stub.controllers.server_identity import server_name
from apiserver_stub.controllers.storage_versions import StorageVersions
from apiserver_stub.controllers.work_queue_metrics import show_work_queues
from apiserver_stub.endpoints import metrics
from apiserver_stub.endpoints.component_pages import ComponentPages, PageSettings
from apiserver_stub.endpoints.discovery import Discovery, DiscoverySettings, aggregated_versions
from apiserver_stub.endpoints.flow_control import FlowControlDumps
from apiserver_stub.endpoints.health import Health
from apiserver_stub.endpoints.issuer_discovery import IssuerDiscovery
from apiserver_stub.endpoints.metrics import Collector, Metrics
from apiserver_stub.endpoints.openapi import OpenApi
from apiserver_stub.endpoints.page import Page
from apiserver_stub.endpoints.profiling import Profiling
from apiserver_stub.flowcontrol.priority_and_fairness import PriorityAndFairness
from apiserver_stub.kinds import Registry
from apiserver_stub.lifecycle import Lifecycle
from apiserver_stub.nodes.agents import NodeAgents
from apiserver_stub.options import Options
from apiserver_stub.options.effective import flag_values
from apiserver_stub.pipeline.aggregation_proxy import AggregationProxy
from apiserver_stub.pipeline.authorization import Authorization
from apiserver_stub.pipeline.cors import CorsAndHsts
from apiserver_stub.pipeline.dispatch import Dispatcher, Endpoint
from apiserver_stub.pipeline.handler import RequestHandler
from apiserver_stub.pipeline.limits import Limits, LimitSettings
from apiserver_stub.pipeline.request_metrics import RequestMetrics
from apiserver_stub.pipeline.stream_response import StreamResponder
from apiserver_stub.pipeline.watch_response import WatchResponder
from apiserver_stub.server.component_checks import component_checks
from apiserver_stub.storage.monitor import Check, StoreMonitor
from apiserver_stub.storage.request_metrics import StoreRequestMetrics
from apiserver_stub.subresources.bundled import bundled_handlers
from apiserver_stub.telemetry import exposition
from apiserver_stub.telemetry.tracing import Tracing
from apiserver_stub.verbs.context import VerbContext
from nodeagent.base.aio import SystemClock
from nodeagent.base.profiling.profiles import Profiles
from nodeagent.base.structs import Struct

_STORAGE_VERSIONS = "poststarthook/built-in-resources-storage-version-updater"


class Pipeline(Struct, frozen=True):
    """The request handler, with the limits and metrics that a graceful shutdown waits for."""

    handler: RequestHandler
    limits: Limits
    metrics: RequestMetrics


async def build_pipeline(
    options: Options,
    *,
    lifecycle: Lifecycle,
    context: VerbContext,
    registry: Registry,
    remotes: Remotes,
    authenticator: Authenticator,
    tokens: ServiceAccountTokens,
    issuers: Sequence[OidcTokens],
    authorizer: Chain,
    admission: AdmissionChain,
    audit: Audit | None,
    agents: NodeAgents,
    extensions: ExtensionClient,
    flow_control: PriorityAndFairness | None,
    tracing: Tracing | None,
    profiles: Profiles,
    monitor: StoreMonitor,
    store_requests: StoreRequestMetrics,
    storage_checks: Mapping[str, Check],
    storage_versions: StorageVersions | None,
    failed_handshakes: Callable[[], int],
    address: Callable[[], str],
    fill_namespace: Callable[[str], Awaitable[None]],
) -> Pipeline:
    """Return the pipeline for *options*.

    :param address: return the ``host:port`` of this server; empty until it listens.
    :param fill_namespace: create the default objects of a namespace.
    """
    gates, release = options.gates, options.compatibility_version
    requests = RequestMetrics()
    registry.listen(lambda: requests.retain(registry))

    def show_limits(page: exposition.Page) -> None:
        metrics.show_in_flight(page, limits.in_flight[True], limits.in_flight[False])
        metrics.show_handshake_errors(page, failed_handshakes())
        metrics.show_authentication(page, requests.authenticated, authenticator, tokens)
        tokens.keys.show_on(page)

    collectors: list[Collector] = [requests.show_on, show_limits]
    if audit is not None:
        collectors.append(partial(metrics.show_audit, audit=audit))
    server_id = server_name(socket.gethostname())
    if gates.enabled("StructuredAuthenticationConfigurationJWKSMetrics"):
        collectors.append(partial(metrics.show_key_sets, issuers=issuers, server_id=server_id))
    if gates.enabled("ManifestBasedAdmissionControlConfig"):
        reloads = admission.manifest_reloads
        collectors.append(partial(metrics.show_manifests, reloads=reloads, server_id=server_id))
    if context.settings.selects_shards:
        collectors.append(partial(metrics.show_shards, counts=context.shard_counts))
    if flow_control is not None:
        collectors.append(partial(metrics.show_fairness, fairness=flow_control))
    collectors += [
        show_work_queues,
        admission.metrics.show_on,
        partial(metrics.show_remotes, remotes=remotes),
        partial(metrics.show_storage, monitor=monitor, requests=store_requests),
        partial(metrics.show_version, reported=options.reported_version, gates=gates, release=release),
        metrics.show_process,
    ]
    reported = {} if storage_versions is None else {_STORAGE_VERSIONS: storage_versions.problem}
    health = Health(lifecycle, storage_checks, reported)
    issuer = IssuerDiscovery(
        tokens,
        address,
        jwks_uri=options.service_account_jwks_uri,
        external_hostname=options.external_hostname,
    )
    pages, reports_slis = _component_pages(options), gates.enabled("ComponentSLIs")
    discovery = DiscoverySettings(
        release=release,
        reported_version=options.reported_version,
        aggregated=aggregated_versions(gates, release),
        storage_hashes=gates.enabled("StorageVersionHash"),
        other_paths=[*health.paths(), *issuer.paths(), *pages.paths, *(["/metrics/slis"] if reports_slis else ())],
    )
    endpoints: list[Endpoint] = [
        Discovery(registry, remotes, address, discovery),
        issuer,
        health,
        OpenApi(registry, remotes, options.identity, release, enums=gates.enabled("OpenAPIEnums")),
        Metrics(options.metric_choice(), collectors, health.outcomes if reports_slis else None),
        pages,
    ]
    if options.profiling:
        endpoints.append(Profiling(profiles))
    if flow_control is not None:
        endpoints.append(FlowControlDumps(flow_control))
    handlers = bundled_handlers(
        context,
        registry,
        gates,
        options.identity,
        authenticator=authenticator,
        authorizer=authorizer,
        tokens=tokens,
        component_checks=component_checks(options, context.store, SystemClock(), storage_checks["etcd"]),
        translations=requests.translations,
    )
    check = None if storage_versions is None else storage_versions.check
    dispatcher = Dispatcher(context, handlers, endpoints, fill_namespace, check)
    limits = Limits(
        LimitSettings(
            options.request_timeout_seconds,
            options.max_requests_inflight,
            options.max_mutating_requests_inflight,
            measures_sizes=gates.enabled("SizeBasedListCostEstimate"),
        ),
        dispatcher,
        requests,
        flow_control,
        lambda resource: context.store.collection(resource.storage).view(),
    )
    streams = StreamResponder(agents, context.store, handlers, lifecycle, requests, tracing)
    origins, directives = options.cors_allowed_origins, options.strict_transport_security_directives
    handler = RequestHandler(
        identity=options.identity,
        lifecycle=lifecycle,
        authenticator=authenticator,
        authorization=Authorization(
            authorizer, requests, options.identity, constrains=gates.enabled("ConstrainedImpersonation")
        ),
        audit=audit,
        registry=registry,
        remotes=remotes,
        admission=admission,
        dispatcher=dispatcher,
        limits=limits,
        watches=WatchResponder(context, lifecycle, requests, tracing, options.max_connection_bytes_per_sec),
        streams=streams,
        aggregation=AggregationProxy(
            extensions,
            limits,
            streams,
            rejects_redirects=options.aggregator_reject_forwarding_redirect,
            sends_uids=gates.enabled("RemoteRequestHeaderUID"),
        ),
        metrics=requests,
        tracing=tracing,
        cors=CorsAndHsts(origins, directives) if origins or directives else None,
        page=await asyncio.to_thread(Page) if options.serve_page else None,
        compresses=gates.enabled("APIResponseCompression"),
        closes_unauthenticated=gates.enabled("UnauthenticatedHTTP2DOSMitigation"),
        authorizes_connections=gates.enabled("AuthorizePodWebsocketUpgradeCreatePermission"),
        authorizes_selectors=gates.enabled("AuthorizeWithSelectors"),
        sends_retry_after=options.shutdown_send_retry_after,
    )
    return Pipeline(handler, limits, requests)


def _component_pages(options: Options) -> ComponentPages:
    gates, clock = options.gates, SystemClock()
    settings = PageSettings(
        options.compatibility_version,
        options.reported_version,
        partial(flag_values, options),
        serves_flags=gates.enabled("ComponentFlagz"),
        serves_status=gates.enabled("ComponentStatusz"),
    )
    return ComponentPages(settings, clock.wall(), clock)
