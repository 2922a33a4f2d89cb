"""Startup of storage, controllers, request pipeline and listener, then of the files for clients."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

from apiserver_stub.admission.role_escalation import RoleEscalation
from apiserver_stub.controllers.namespace_contents import fill_namespace
from apiserver_stub.controllers.server_identity import publish_server_identity
from apiserver_stub.lifecycle import Lifecycle
from apiserver_stub.options import Options
from apiserver_stub.plugins import load_plugins
from apiserver_stub.server.admission import build_admission
from apiserver_stub.server.advertised_address import advertised_address
from apiserver_stub.server.authentication import build_authentication
from apiserver_stub.server.authorization import build_authorization
from apiserver_stub.server.backend import open_backend
from apiserver_stub.server.client_files import write_client_files, write_ready_file
from apiserver_stub.server.cluster_controllers import ControllerResources, build_leadership, start_controllers
from apiserver_stub.server.cluster_objects import create_cluster_objects
from apiserver_stub.server.credentials import generate_tokens
from apiserver_stub.server.custom_kinds import build_custom_kinds
from apiserver_stub.server.diagnostics import start_diagnostics
from apiserver_stub.server.flow_control import start_flow_control
from apiserver_stub.server.key_generation import generate_keys
from apiserver_stub.server.kinds import build_registry
from apiserver_stub.server.kubernetes_service import start_kubernetes_service
from apiserver_stub.server.listening import listen
from apiserver_stub.server.outgoing import build_outgoing
from apiserver_stub.server.request_pipeline import build_pipeline
from apiserver_stub.server.running_server import RunningServer
from apiserver_stub.server.serving_certificate import Certificates
from apiserver_stub.server.storage import health_checks, start_storage_tasks
from apiserver_stub.server.storage_versions import build_storage_versions
from apiserver_stub.server.verb_settings import build_verbs
from apiserver_stub.storage.monitor import StoreMonitor
from nodeagent.base.aio import SystemClock, TaskOwner
from nodeagent.base.memory_trim import run_memory_trim


async def start(options: Options, generated_keys: Callable[[], Path] | None = None) -> RunningServer:
    """Start the server and return once it is ready.

    :param generated_keys: wait for the generation of keys and return the CA certificate for clients; the default
        generates them.
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
    authority = await asyncio.to_thread(generated_keys or partial(generate_keys, options))
    certificates = await asyncio.to_thread(Certificates, options, authority)
    tokens_file = await asyncio.to_thread(generate_tokens, data / "tokens.csv", options.node_name)
    lifecycle, address = Lifecycle(options.livez_grace_seconds), ""
    async with AsyncExitStack() as stack:
        registry = build_registry(options, await asyncio.to_thread(load_plugins))
        backend = await open_backend(options, registry, stack)
        egress, storage, store = backend.egress, backend.storage, backend.storage.store
        outgoing = await build_outgoing(options, store, egress, stack)
        storage_versions = build_storage_versions(options, store, registry)
        custom_kinds = build_custom_kinds(store, registry, options, outgoing.webhooks)
        authentication = await build_authentication(options, store, tokens_file, stack, egress)
        authorization = await build_authorization(options, store, stack, egress)
        ca_certificate = await asyncio.to_thread(certificates.authority.read_text)
        cluster_objects = await create_cluster_objects(options, store, registry, authentication, ca_certificate)
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
            outgoing.webhooks,
            leadership,
            [RoleEscalation(authorization.rbac, authorization.chain)],
        )
        context, monitor = build_verbs(options, storage, admission, authorization.chain), StoreMonitor(store)
        outgoing.start(store, registry, tasks)
        await certificates.start(tasks)
        flow_control = await start_flow_control(options, store, registry, tasks)
        start_storage_tasks(options, storage, registry, monitor, tasks)
        cluster_objects.start(tasks)
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
                outgoing.agents,
                certificates,
                authorization.chain,
                ca_certificate,
                options.event_lifetime_seconds,
                outgoing.remotes,
                outgoing.extensions,
            ),
        )
        tasks.start(run_memory_trim(SystemClock()), "memory-trim")
        diagnostics = await start_diagnostics(options, tasks, stack)
        if storage_versions is not None:
            tasks.start(storage_versions.run(), "storage-versions")
        pipeline = await build_pipeline(
            options,
            lifecycle=lifecycle,
            context=context,
            registry=registry,
            remotes=outgoing.remotes,
            authenticator=authentication.authenticator,
            tokens=authentication.service_accounts,
            issuers=authentication.issuers,
            authorizer=authorization.chain,
            admission=admission,
            audit=backend.audit,
            agents=outgoing.agents,
            extensions=outgoing.extensions,
            flow_control=flow_control,
            tracing=diagnostics.tracing,
            profiles=diagnostics.profiles,
            monitor=monitor,
            store_requests=storage.calls,
            storage_checks=health_checks(options, storage),
            storage_versions=storage_versions,
            failed_handshakes=lambda: listener.failed_handshakes,
            address=lambda: address,
            fill_namespace=partial(fill_namespace, store, identity, ca_certificate),
        )
        listener, port = listen(options, pipeline.handler, stack, lambda: certificates.context)
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        if options.gates.enabled("APIServerIdentity"):
            peer_address = address if options.gates.enabled("UnknownVersionInteroperabilityProxy") else ""
            tasks.start(publish_server_identity(store, identity, socket.gethostname(), peer_address), "server-identity")
        url = f"https://{address}"
        kubernetes_service = await start_kubernetes_service(options, store, registry, lifecycle, address, tasks)
        files = await asyncio.to_thread(write_client_files, options, url, certificates.authority, tokens_file)
        lifecycle.ready = True
        running = RunningServer(
            options=options,
            url=url,
            ca_file=certificates.authority,
            token=files.token,
            kubeconfig=files.kubeconfig,
            node_kubeconfig=files.node_kubeconfig,
            client_ca_file=outgoing.agents.client_authority,
            lifecycle=lifecycle,
            store=store,
            metrics=pipeline.metrics,
            limits=pipeline.limits,
            audit=backend.audit,
            listener=listener,
            kubernetes_service=kubernetes_service,
            resources=stack.pop_all(),
        )
        await asyncio.to_thread(write_ready_file, data / "ready.json", running)
        return running
