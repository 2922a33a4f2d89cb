"""Startup of storage, controllers, request pipeline and listener, then of the files for clients."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import msgspec

from apiserver_stub.admission.listers import Lister
from apiserver_stub.admission.role_escalation import RoleEscalation
from apiserver_stub.admission.webhooks.client import WebhookClient
from apiserver_stub.aggregation.availability import Availability
from apiserver_stub.aggregation.extension_client import ExtensionClient
from apiserver_stub.aggregation.proxy_client_cert import ClientPair
from apiserver_stub.aggregation.remotes import Remotes
from apiserver_stub.audit.context import Audit
from apiserver_stub.authz.bootstrap import ensure_bootstrap_policy
from apiserver_stub.controllers.api_services import Registration
from apiserver_stub.controllers.authentication_config_map import AuthenticationConfigMap, RequestHeaderNames
from apiserver_stub.controllers.cluster_role_aggregation import aggregate_roles
from apiserver_stub.controllers.flow_control_config import FlowControlConfig
from apiserver_stub.controllers.kubernetes_service import KubernetesService, KubernetesServiceSettings
from apiserver_stub.controllers.legacy_token_tracking import track_legacy_tokens
from apiserver_stub.controllers.namespace_contents import fill_namespace
from apiserver_stub.controllers.namespaces import create_system_objects, run_system_objects_controller
from apiserver_stub.controllers.server_identity import publish_server_identity
from apiserver_stub.controllers.volumes.local_path_class import ensure_local_path_class
from apiserver_stub.defaulting.flow_control_objects import mandatory_levels, mandatory_schemas
from apiserver_stub.egress.selector import DIRECT, EgressSelector
from apiserver_stub.egress.selector import load as load_egress_selector
from apiserver_stub.flowcontrol.priority_and_fairness import PriorityAndFairness
from apiserver_stub.flowcontrol.priority_levels import read_level
from apiserver_stub.flowcontrol.schemas import read_schema
from apiserver_stub.lifecycle import Lifecycle
from apiserver_stub.nodes.agents import NodeAgents, NodeAgentSettings
from apiserver_stub.options import Options
from apiserver_stub.options.authentication import UID_GATE
from apiserver_stub.options.serving import EVERYWHERE
from apiserver_stub.pipeline.handler import RequestHandler
from apiserver_stub.pipeline.limits import Limits
from apiserver_stub.pipeline.request_metrics import RequestMetrics
from apiserver_stub.plugins import load_plugins
from apiserver_stub.schema.null_times import OMITTED_SINCE
from apiserver_stub.server import debug_socket
from apiserver_stub.server.admission import build_admission
from apiserver_stub.server.audit import build_audit
from apiserver_stub.server.authentication import build_authentication
from apiserver_stub.server.authorization import build_authorization
from apiserver_stub.server.cluster_controllers import ControllerResources, build_leadership, start_controllers
from apiserver_stub.server.credentials import generate_tokens, read_tokens, write_kubeconfig
from apiserver_stub.server.custom_kinds import build_custom_kinds
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.server.request_pipeline import build_pipeline
from apiserver_stub.server.service_ranges import prepare_service_ranges
from apiserver_stub.server.serving_certificate import Certificates
from apiserver_stub.server.storage import (
    build_storage,
    health_checks,
    run_key_reloader,
    run_key_services,
    start_monitor,
)
from apiserver_stub.server.storage_versions import build_storage_versions
from apiserver_stub.storage import Store, StoreUnavailable
from apiserver_stub.storage.monitor import StoreMonitor
from apiserver_stub.telemetry.tracing import Tracing, load_config
from apiserver_stub.transport.http2.negotiation import Terms
from apiserver_stub.transport.listener import Listener
from apiserver_stub.verbs.context import VerbContext, VerbSettings
from nodeagent.base.aio import SystemClock, TaskOwner
from nodeagent.base.atomic_file import write_private
from nodeagent.base.logging import v_level
from nodeagent.base.profiling.contention import ContentionProfile
from nodeagent.base.profiling.profiles import Profiles
from nodeagent.base.structs import Struct

_log = logging.getLogger(__name__)

_MAX_PROFILE_SECONDS = 300
_POLL_SECONDS = 0.02


class RunningServer(Struct, frozen=True):
    """A running server and its graceful shutdown."""

    options: Options
    url: str
    ca_file: Path
    token: str
    kubeconfig: Path
    node_kubeconfig: Path
    client_ca_file: Path | None
    """CA certificate by which node agents verify the client certificate of this server, if it was generated."""
    lifecycle: Lifecycle
    store: Store
    metrics: RequestMetrics
    limits: Limits
    audit: Audit | None
    listener: Listener
    kubernetes_service: KubernetesService
    resources: AsyncExitStack

    async def stop(self) -> None:
        """Fail ``/readyz`` for the shutdown delay, finish requests in flight, terminate watches and close the store."""
        lifecycle, options = self.lifecycle, self.options
        if not lifecycle.terminating:
            lifecycle.terminating = True
            _log_shutdown("ShutdownInitiated")
            with contextlib.suppress(StoreUnavailable):  # Logged by the store; the endpoint is not removed.
                await self.kubernetes_service.withdraw()
            await asyncio.sleep(options.shutdown_delay_seconds)
            _log_shutdown("AfterShutdownDelayDuration")
            if not options.shutdown_send_retry_after:
                await self.listener.stop()
            lifecycle.draining = True
            _log_shutdown("NotAcceptingNewRequest")
            await self.limits.drained()
            _log_shutdown("InFlightRequestsDrained")
            lifecycle.stopping.set()
            await self._wait_for_watches()
        await self.resources.aclose()
        _log_shutdown("HTTPServerStoppedListening")

    async def _wait_for_watches(self) -> None:
        """Wait until all watches have terminated, at most for their grace period."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.options.shutdown_watch_grace_seconds):
                while self.metrics.watches:  # noqa: ASYNC110 - the count changes often and is awaited only once
                    await asyncio.sleep(_POLL_SECONDS)


async def start(options: Options) -> RunningServer:
    """Start the server and return once it is ready.

    :raises PluginError: a plugin cannot be loaded, or what it provides is invalid.
    :raises StoreUnavailable: the database cannot be opened, or its servers do not respond.
    :raises EncryptionError: the configuration of encryption at rest is invalid.
    :raises TlsError: a certificate file is invalid.
    :raises EgressError: the egress selector configuration is invalid.
    :raises AuthenticationError: a file for authentication is invalid.
    :raises AuthorizationError: a file for authorization is invalid.
    :raises AdmissionError: the configuration of an admission plugin is invalid.
    :raises TracingError: the tracing configuration is invalid.
    :raises AuditError: the audit policy or an audit backend is invalid.
    :raises OSError: the port or a directory cannot be used.
    """
    data, identity = options.data_dir, options.identity
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    host = await asyncio.to_thread(advertised_address, options)
    certificates = await asyncio.to_thread(Certificates, options, host)
    tokens_file = await asyncio.to_thread(generate_tokens, data / "tokens.csv", options.node_name)
    lifecycle, address = Lifecycle(options.livez_grace_seconds), ""
    event_ttl_seconds = options.event_ttl_seconds or None
    async with AsyncExitStack() as stack:
        registry = build_registry(options, await asyncio.to_thread(load_plugins))
        egress = await _egress(options)
        stack.push_async_callback(egress.close)
        storage = await build_storage(options, registry, egress, stack)
        store = storage.store
        stack.callback(storage.encryption.close)
        stack.push_async_callback(store.close)
        audit = await build_audit(options, egress)
        if audit is not None:
            stack.push_async_callback(audit.close)
        await store.open()
        pair = await asyncio.to_thread(ClientPair, options.proxy_client_cert_file, options.proxy_client_key_file)
        webhooks = WebhookClient(Lister(store), pair, egress=egress)
        stack.push_async_callback(webhooks.close)
        storage_versions = build_storage_versions(options, store, registry)
        custom_kinds = build_custom_kinds(store, registry, identity, options.gates, webhooks)
        authentication = await build_authentication(options, store, tokens_file, stack, egress)
        authorization = await build_authorization(options, store, stack, egress)
        agents = await asyncio.to_thread(NodeAgents, node_agent_settings(options), store, egress.cluster)
        ca_certificate = await asyncio.to_thread(certificates.authority.read_text)
        monitor, remotes = StoreMonitor(store), Remotes(identity)
        await create_system_objects(store, identity, ca_certificate)
        registration = Registration(store, registry, identity, shares_store=bool(options.store_servers))
        await registration.register()
        await ensure_bootstrap_policy(store, identity, options.gates, options.compatibility_version)
        if options.manage_volumes and options.local_path_storage_class:
            await ensure_local_path_class(store, identity)
        await aggregate_roles(store, identity)
        authentication_config_map = AuthenticationConfigMap(
            store,
            identity,
            authentication.client_authorities,
            authentication.proxy_authorities,
            RequestHeaderNames(
                options.requestheader_allowed_names,
                options.requestheader_username_headers,
                options.requestheader_group_headers,
                options.requestheader_extra_headers_prefix,
                options.requestheader_uid_headers if options.gates.enabled(UID_GATE) else None,
            ),
        )
        await authentication_config_map.publish()
        service_ranges = await prepare_service_ranges(store, registry, identity, event_ttl_seconds)
        leadership = build_leadership(options, store, stack)  # Before the tasks, which release the lease at the end.
        tasks = await stack.enter_async_context(TaskOwner("apiserver"))
        admission = await build_admission(
            options,
            store,
            registry,
            authorization.chain,
            ca_certificate,
            stack,
            tasks,
            webhooks,
            leadership,
            [RoleEscalation(authorization.rbac, authorization.chain)],
        )
        context = VerbContext(
            store,
            admission,
            VerbSettings(
                event_ttl_seconds=options.event_ttl_seconds,
                delete_collection_workers=options.delete_collection_workers,
                collects_garbage=options.enable_garbage_collector,
                min_watch_seconds=options.min_request_timeout_seconds,
                watch_lists=options.gates.enabled("WatchList"),
                shows_null_times=options.compatibility_version < OMITTED_SINCE,
                is_cached=options.caches,
            ),
        )
        extensions = ExtensionClient(store, agents, pair, by_endpoint=options.enable_aggregator_routing)
        tasks.start(pair.keep_current(), "proxy-client-certificate")
        tasks.start(Availability(store, registry, remotes, extensions).run(), "api-service-availability")
        tasks.start(certificates.keep_current(), "certificates")
        flow_control = _flow_control(options)
        if flow_control is not None:
            tasks.start(flow_control.run_seat_borrowing(SystemClock()), "flow-control")
        if registry.find(identity.group("flowcontrol.apiserver"), "v1", "flowschemas") is not None:
            flow_control_config = FlowControlConfig(store, flow_control, identity)
            await flow_control_config.start()
            tasks.start(flow_control_config.run(), "flow-control-config")
        start_monitor(options, monitor, lambda: (item.storage for item in registry if "list" in item.verbs), tasks)
        if options.encryption_provider_config is not None and options.encryption_provider_config_automatic_reload:
            tasks.start(run_key_reloader(options.encryption_provider_config, options, storage), "keys")
        if storage.encryption.key_services() or options.encryption_provider_config_automatic_reload:
            tasks.start(run_key_services(storage), "key-services")
        tasks.start(authentication_config_map.run(), "authentication-config-map")
        tasks.start(run_system_objects_controller(store, identity, ca_certificate), "system-objects")
        tasks.start(track_legacy_tokens(store, identity), "legacy-token-tracking")
        tasks.start(registration.keep(), "api-services")
        for name, controller in service_ranges.items():
            tasks.start(controller.run(), name)
        if custom_kinds is not None:
            tasks.start(custom_kinds.run(), "custom-kinds")
        tasks.start(leadership.run(), "leadership")
        await start_controllers(
            options,
            tasks,
            ControllerResources(
                context,
                registry,
                leadership,
                agents,
                certificates,
                authorization.chain,
                ca_certificate,
                event_ttl_seconds,
                remotes,
                extensions,
            ),
        )
        contention = _contention_profile(options)
        if contention is not None:
            tasks.start(contention.run(), "contention-profile")
        max_profile_seconds = min(_MAX_PROFILE_SECONDS, options.request_timeout_seconds)
        profiles = Profiles(contention, max_seconds=max_profile_seconds)
        if options.debug_socket_path is not None:
            await debug_socket.serve(profiles, identity, options.debug_socket_path, stack)
        tracing = None
        if options.tracing_config_file is not None and options.gates.enabled("APIServerTracing"):
            tracing = Tracing(await asyncio.to_thread(load_config, options.tracing_config_file, identity))
            stack.push_async_callback(tracing.close)
        if options.gates.enabled("APIServerIdentity"):
            tasks.start(publish_server_identity(store, identity, socket.gethostname()), "server-identity")
        if storage_versions is not None:
            tasks.start(storage_versions.run(), "storage-versions")
        if options.tls_sni_cert_key:
            named = await asyncio.to_thread(certificates.add_named)
            tasks.start(named.keep_current(), "named-certificates")
        pipeline = await build_pipeline(
            options,
            lifecycle=lifecycle,
            context=context,
            registry=registry,
            remotes=remotes,
            authenticator=authentication.authenticator,
            tokens=authentication.service_accounts,
            issuers=authentication.issuers,
            authorizer=authorization.chain,
            admission=admission,
            audit=audit,
            agents=agents,
            extensions=extensions,
            flow_control=flow_control,
            tracing=tracing,
            profiles=profiles,
            monitor=monitor,
            store_requests=storage.calls,
            storage_checks=health_checks(options, storage),
            storage_versions=storage_versions,
            failed_handshakes=lambda: listener.failed_handshakes,
            address=lambda: address,
            fill_namespace=partial(fill_namespace, store, identity, ca_certificate),
        )
        listener, port = await _listen(options, pipeline.handler, stack, lambda: certificates.context)
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        kubernetes_service = KubernetesService(
            store,
            registry,
            lifecycle,
            lambda: address,
            KubernetesServiceSettings(
                options.service_networks, options.platform_service_node_port, options.endpoint_reconciler_type
            ),
            identity,
        )
        await kubernetes_service.reconcile()
        tasks.start(kubernetes_service.run(), "kubernetes-service")
        url = f"https://{address}"
        token, node_token = await asyncio.to_thread(read_tokens, tokens_file)
        kubeconfig, node_kubeconfig = data / "admin.kubeconfig", data / "node.kubeconfig"
        await asyncio.to_thread(write_kubeconfig, kubeconfig, url, certificates.authority, "admin", token)
        user = f"system:node:{options.node_name}"
        await asyncio.to_thread(write_kubeconfig, node_kubeconfig, url, certificates.authority, user, node_token)
        lifecycle.ready = True
        running = RunningServer(
            options=options,
            url=url,
            ca_file=certificates.authority,
            token=token,
            kubeconfig=kubeconfig,
            node_kubeconfig=node_kubeconfig,
            client_ca_file=agents.client_authority,
            lifecycle=lifecycle,
            store=store,
            metrics=pipeline.metrics,
            limits=pipeline.limits,
            audit=audit,
            listener=listener,
            kubernetes_service=kubernetes_service,
            resources=stack.pop_all(),
        )
        await asyncio.to_thread(_write_ready, data / "ready.json", running)
        return running


def node_agent_settings(options: Options) -> NodeAgentSettings:
    """Return the settings for connections to node agents."""
    return NodeAgentSettings(
        address_types=options.nodeagent_preferred_address_types,
        timeout_seconds=options.nodeagent_timeout_seconds,
        own_authorities=options.authorities,
        certificate_authority=options.nodeagent_certificate_authority,
        client_certificate=options.nodeagent_client_certificate,
        client_key=options.nodeagent_client_key,
    )


async def _egress(options: Options) -> EgressSelector:
    path = options.egress_selector_config_file
    return DIRECT if path is None else await asyncio.to_thread(load_egress_selector, path, options.identity)


def _flow_control(options: Options) -> PriorityAndFairness | None:
    if not options.enable_priority_and_fairness:
        return None
    total = options.max_requests_inflight + options.max_mutating_requests_inflight
    levels = {name: read_level(spec) for name, spec in mandatory_levels().items()}
    schemas = [read_schema(name, spec, {}) for name, spec in mandatory_schemas().items()]
    return PriorityAndFairness(total, options.request_timeout_seconds / 4, levels, schemas)


def _contention_profile(options: Options) -> ContentionProfile | None:
    if options.contention_profiling and (options.profiling or options.debug_socket_path is not None):
        return ContentionProfile()
    return None


async def _listen(
    options: Options, pipeline: RequestHandler, stack: AsyncExitStack, context: Callable[[], ssl.SSLContext]
) -> tuple[Listener, int]:
    streams = options.http2_streams
    listener = Listener(pipeline.handle, context, Terms(streams, options.goaway_chance) if streams > 0 else None)
    stack.push_async_callback(listener.close)
    address = "" if options.bind_address in EVERYWHERE else options.bind_address
    # On Linux, an address and the wildcard share a port only if both are opened with SO_REUSEPORT.
    share = options.permit_port_sharing or options.permit_address_sharing
    port = listener.open(address, 0 if options.free_port else options.secure_port, share_port=share)
    bound = f"[{options.bind_address}]" if ":" in options.bind_address else options.bind_address
    _log.info("Serving securely on %s:%d", bound, port)
    return listener, port


def _log_shutdown(event: str) -> None:
    _log.log(v_level(1), "[graceful-termination] shutdown event", extra={"event": event})


def _write_ready(path: Path, running: RunningServer) -> None:
    authority = running.client_ca_file
    body = {
        "url": running.url,
        "caFile": str(running.ca_file.absolute()),
        "token": running.token,
        "kubeconfig": str(running.kubeconfig.absolute()),
        "nodeKubeconfig": str(running.node_kubeconfig.absolute()),
        "clientCaFile": str(authority.absolute()) if authority is not None else "",
        "pid": os.getpid(),
    }
    write_private(path, msgspec.json.encode(body))


def advertised_address(options: Options) -> str:
    """Return the advertised address: the configured one, the bind address, or that of the default route's interface."""
    for address in (options.advertise_address, options.bind_address):
        if address not in EVERYWHERE:
            return address
    family, outside = (
        (socket.AF_INET6, "2001:db8::1") if options.bind_address == "::" else (socket.AF_INET, "192.0.2.1")
    )
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((outside, 9))  # Sends no packet.
        except OSError:
            return "::1" if family == socket.AF_INET6 else "127.0.0.1"
        return str(probe.getsockname()[0])
