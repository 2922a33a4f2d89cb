"""Start: keys and certificates, store, controllers, listener; then the files that tell clients where and how."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import ssl
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import yaml
from aiohttp import web

from apiserver_stub import pipeline
from apiserver_stub.admission.build import build_admission
from apiserver_stub.aggregation.availability import Availability
from apiserver_stub.aggregation.extension_client import ExtensionClient
from apiserver_stub.aggregation.proxy_client_cert import ClientPair
from apiserver_stub.audit.build import build_audit
from apiserver_stub.authn.build import build_authentication
from apiserver_stub.authn.configmap_publisher import publish, run_publisher
from apiserver_stub.authz.aggregation import aggregate_roles, keep_aggregated
from apiserver_stub.authz.bootstrap import ensure_bootstrap_policy
from apiserver_stub.authz.build import build_authorization
from apiserver_stub.authz.escalation import RoleEscalation
from apiserver_stub.controllers import own_service
from apiserver_stub.controllers.api_services import Registration
from apiserver_stub.controllers.disruption import keep_budgets
from apiserver_stub.controllers.garbage import collect_garbage
from apiserver_stub.controllers.legacy_token_tracking import track_legacy_tokens
from apiserver_stub.controllers.namespace_contents import keep_namespaces_filled
from apiserver_stub.controllers.namespace_deletion import empty_namespaces
from apiserver_stub.controllers.namespaces import create_system_objects, keep_system_objects
from apiserver_stub.controllers.node_certificates import sign_for_nodes
from apiserver_stub.controllers.scheduler import bind_to_single_node
from apiserver_stub.controllers.service_repair import repair_service_ranges
from apiserver_stub.endpoints.page import Page
from apiserver_stub.kinds import build_registry
from apiserver_stub.nodes.agents import NodeAgents
from apiserver_stub.options import Options
from apiserver_stub.options.serving import EVERYWHERE
from apiserver_stub.pipeline.limits import MAX_BODY_BYTES
from apiserver_stub.server import debug_socket
from apiserver_stub.server.state import ApiServer
from apiserver_stub.storage import StoreUnavailable
from apiserver_stub.storage.factory import build_storage, health_checks, run_key_reloader, start_monitor
from apiserver_stub.telemetry.tracing import Tracing, load_config
from apiserver_stub.transport.http2.negotiation import Terms
from apiserver_stub.transport.listener import Listener
from apiserver_stub.transport.response_writer import ApiRequest
from apiserver_stub.transport.serving_certificate import Certificates
from nodeagent.base.aio import SystemClock, TaskOwner
from nodeagent.base.tls import write_private

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Running:
    """A server that serves, and the way to end it."""

    url: str
    ca_file: Path
    token: str
    kubeconfig: Path
    node_kubeconfig: Path
    server: ApiServer
    listener: Listener
    resources: AsyncExitStack

    async def stop(self) -> None:
        """Say so, go on for the shutdown delay, answer what is under way, end watches, close the store."""
        server = self.server
        if not server.leaving:
            server.leaving = True
            with contextlib.suppress(StoreUnavailable):  # logged where it failed; what is left is an old address
                await own_service.withdraw(server)
            await asyncio.sleep(server.options.shutdown_delay_seconds)
            if not server.options.shutdown_send_retry_after:
                await self.listener.stop()
            await server.drain()
            await server.end_watches()
        await self.resources.aclose()


async def start(options: Options) -> Running:
    """Start the server that *options* describe and return once it serves.

    :raises StoreUnavailable: the database cannot be opened, or its servers do not answer.
    :raises EncryptionError: the configuration of encryption at rest is no good.
    :raises TlsError: certificate files are no good.
    :raises EgressError: the file about the ways out is no good.
    :raises AuthenticationError: a file that authentication needs is no good.
    :raises AuthorizationError: a file that authorization needs is no good.
    :raises AdmissionError: the configuration of an admission plugin is no good.
    :raises TracingError: the tracing configuration is no good.
    :raises AuditError: the audit policy or a destination of audit events is no good.
    :raises OSError: the port or a directory cannot be used.
    """
    data = options.data_dir
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    host = await asyncio.to_thread(_advertised, options)
    certificates = await asyncio.to_thread(Certificates, options, host)
    tokens_file = await asyncio.to_thread(_own_tokens, data / "tokens.csv", options.node_name)
    async with AsyncExitStack() as stack:
        registry = build_registry(options)
        storage = await build_storage(options, registry)
        store = storage.store
        stack.push_async_callback(store.close)
        audit = await build_audit(options)
        if audit is not None:
            stack.push_async_callback(audit.close)
        await store.open()
        authentication = await build_authentication(options, store, tokens_file, stack)
        authorization = await build_authorization(options, store, stack)
        agents = await asyncio.to_thread(NodeAgents, options, store)
        pair = await asyncio.to_thread(ClientPair, options.proxy_client_cert_file, options.proxy_client_key_file)
        server = ApiServer(
            options,
            store,
            registry,
            authenticator=authentication.authenticator,
            authorizer=authorization.chain,
            tokens=authentication.service_accounts,
            ca_certificate=certificates.authority.read_text(),
            agents=agents,
            audit=audit,
        )
        server.storage_checks, server.store_calls = health_checks(options, storage), storage.calls
        await create_system_objects(server)
        registration = Registration(server)
        await registration.register()
        await ensure_bootstrap_policy(store)
        await aggregate_roles(store)
        await publish(server, authentication)
        service_ranges = await repair_service_ranges(server)
        tasks = await stack.enter_async_context(TaskOwner("apiserver"))
        server.admission = await build_admission(
            server, stack, tasks, pair, [RoleEscalation(authorization.rbac, authorization.chain)]
        )
        server.extensions = ExtensionClient(options, store, agents, pair)
        tasks.start(pair.keep_current(), "proxy-client-certificate")
        tasks.start(Availability(server, server.extensions).run(), "api-service-availability")
        tasks.start(certificates.keep_current(), "certificates")
        if server.fairness is not None:
            tasks.start(server.fairness.keep_lending(SystemClock()), "fairness")
        start_monitor(options, server.polls, (item.storage for item in registry if "list" in item.verbs), tasks)
        if options.encryption_provider_config is not None and options.encryption_provider_config_automatic_reload:
            tasks.start(run_key_reloader(options.encryption_provider_config, storage), "keys")
        tasks.start(run_publisher(server, authentication), "publish-authentication")
        tasks.start(empty_namespaces(server), "namespaces")
        tasks.start(keep_system_objects(server), "system-objects")
        tasks.start(keep_namespaces_filled(server), "namespace-contents")
        tasks.start(track_legacy_tokens(server), "legacy-token-tracking")
        tasks.start(registration.keep(), "api-services")
        tasks.start(keep_budgets(server), "disruption-budgets")
        tasks.start(keep_aggregated(store), "aggregated-roles")
        if service_ranges is not None:
            tasks.start(service_ranges.run(), "service-ranges")
        if options.enable_garbage_collector:
            tasks.start(collect_garbage(server), "garbage")
        if options.bind_pods_to_single_node:
            tasks.start(bind_to_single_node(server), "scheduler")
        if options.serve_page:
            server.page = await asyncio.to_thread(Page)
        if options.sign_node_certificates:
            await _sign_for_nodes(server, certificates, tasks)
        if server.contention is not None:
            tasks.start(server.contention.run(), "contention-profile")
        if options.debug_socket_path is not None:
            await debug_socket.serve(server, options.debug_socket_path, stack)
        if options.tracing_config_file is not None and options.gates.enabled("APIServerTracing"):
            server.tracing = Tracing(await asyncio.to_thread(load_config, options.tracing_config_file))
            stack.push_async_callback(server.tracing.close)
        if options.tls_sni_cert_key:
            named = await asyncio.to_thread(certificates.named)
            named.attach(certificates.context)
            tasks.start(named.keep_current(), "named-certificates")
        listener, port = await _listen(server, stack, certificates.context)
        server.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        await own_service.announce(server)
        tasks.start(own_service.keep_announced(server), "own-service")
        url = f"https://{server.address}"
        token, node_token = await asyncio.to_thread(_read_tokens, tokens_file)
        kubeconfig, node_kubeconfig = data / "admin.kubeconfig", data / "node.kubeconfig"
        await asyncio.to_thread(_write_kubeconfig, kubeconfig, url, certificates.authority, "admin", token)
        user = f"system:node:{options.node_name}"
        await asyncio.to_thread(_write_kubeconfig, node_kubeconfig, url, certificates.authority, user, node_token)
        server.ready = True
        running = Running(
            url, certificates.authority, token, kubeconfig, node_kubeconfig, server, listener, stack.pop_all()
        )
        await asyncio.to_thread(_write_ready, data / "ready.json", running)
        return running


async def _sign_for_nodes(server: ApiServer, certificates: Certificates, tasks: TaskOwner) -> None:
    authority = await asyncio.to_thread(certificates.own_authority)
    if authority is None:
        return
    signs_clients = await asyncio.to_thread(certificates.believes_own_clients)
    life = timedelta(seconds=server.options.node_certificate_seconds)
    tasks.start(sign_for_nodes(server, authority, life, signs_clients=signs_clients), "node-certificates")


async def _listen(server: ApiServer, stack: AsyncExitStack, context: ssl.SSLContext) -> tuple[Listener, int]:
    options = server.options
    handler = web.Server(partial(pipeline.handle, server), request_factory=_make_request, handler_cancellation=True)
    streams = options.http2_max_streams_per_connection
    listener = Listener(handler, context, Terms(streams, options.goaway_chance) if streams > 0 else None)
    stack.push_async_callback(listener.close)
    server.metrics.failed_handshakes = lambda: listener.failed_handshakes
    address = "" if options.bind_address in EVERYWHERE else options.bind_address
    # Here an address and the wildcard share a port only when both say that they share the port.
    share = options.permit_port_sharing or options.permit_address_sharing
    return listener, listener.open(address, options.secure_port, share_port=share)


def _make_request(message: Any, payload: Any, protocol: Any, writer: Any, task: asyncio.Task[None]) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return ApiRequest(message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY_BYTES)


def _own_tokens(path: Path, node: str) -> Path:
    """Return the file of the two tokens that this server made for the admin and the node."""
    lines = path.read_text().splitlines() if path.exists() else []
    identities = [line.partition(",")[2] for line in lines]
    wanted = ['admin,admin,"system:masters"', f'system:node:{node},node,"system:nodes"']
    if identities != wanted:
        admin = lines[0].partition(",")[0] if lines else secrets.token_urlsafe(32)
        tokens = (admin, secrets.token_urlsafe(32))
        text = "".join(f"{token},{identity}\n" for token, identity in zip(tokens, wanted, strict=True))
        write_private(path, text.encode())
    return path


def _read_tokens(path: Path) -> tuple[str, str]:
    admin, node = (line.partition(",")[0] for line in path.read_text().splitlines())
    return admin, node


def _write_kubeconfig(path: Path, url: str, authority: Path, user: str, token: str) -> None:
    name = "nodeagent"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": url, "certificate-authority": str(authority.absolute())}}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": user}}],
        "current-context": name,
    }
    write_private(path, yaml.safe_dump(config, sort_keys=False).encode())


def _write_ready(path: Path, running: Running) -> None:
    authority = running.server.agents.client_authority
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


def _advertised(options: Options) -> str:
    """Return the address that others are told: asked for, bound, or that of the interface that leads out."""
    for address in (options.advertise_address, options.bind_address):
        if address not in EVERYWHERE:
            return address
    family, outside = (
        (socket.AF_INET6, "2001:db8::1") if options.bind_address == "::" else (socket.AF_INET, "192.0.2.1")
    )
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((outside, 9))  # sends nothing
        except OSError:
            return "::1" if family == socket.AF_INET6 else "127.0.0.1"
        return str(probe.getsockname()[0])
