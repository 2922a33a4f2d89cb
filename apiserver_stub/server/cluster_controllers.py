"""Start of the controllers of the cluster.

Of several servers that share a store, the leader runs them. Controllers of the server itself, such as its certificates
and the kinds that it serves, are started by :mod:`apiserver_stub.server.startup` in each server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from apiserver_stub.aggregation.extension_client import ExtensionClient, ExtensionRequestError
from apiserver_stub.aggregation.remotes import Remotes
from apiserver_stub.controller_discovery import discover_controllers
from apiserver_stub.controllers.autoscaling.metrics import MetricsClient, MetricsError
from apiserver_stub.controllers.cluster_role_aggregation import keep_aggregated
from apiserver_stub.controllers.devices.claim_controller import device_resources, run_claim_controller
from apiserver_stub.controllers.devices.taint_eviction import NAME as DEVICE_TAINT_EVICTION
from apiserver_stub.controllers.devices.taint_eviction import DeviceTaintEviction
from apiserver_stub.controllers.garbage_collector import collect_garbage
from apiserver_stub.controllers.leadership import Leadership, LeaseTiming
from apiserver_stub.controllers.manager import ControllerManager, served
from apiserver_stub.controllers.namespace_contents import keep_namespaces_filled
from apiserver_stub.controllers.namespace_deletion import run_namespace_deletion
from apiserver_stub.controllers.node_certificates import run_node_csr_signer
from apiserver_stub.controllers.scheduler import bind_to_single_node
from apiserver_stub.controllers.volumes.attachment import attach_volumes
from apiserver_stub.controllers.volumes.binder import bind_claims
from apiserver_stub.controllers.volumes.ephemeral_claims import create_ephemeral_claims
from apiserver_stub.controllers.volumes.local_directories import LocalDirectories
from apiserver_stub.controllers.volumes.local_path import LocalPathProvisioner
from apiserver_stub.kinds.custom_resource_definitions import GROUP
from apiserver_stub.server.custom_kinds import build_cleanup
from apiserver_stub.server.holder_identity import holder_identity
from nodeagent.base.aio import SystemClock, TaskOwner
from nodeagent.base.structs import Struct

if TYPE_CHECKING:
    from apiserver_stub.authz import Chain
    from apiserver_stub.kinds.registry import Registry
    from apiserver_stub.nodes.agents import NodeAgents
    from apiserver_stub.options import Options
    from apiserver_stub.server.serving_certificate import Certificates
    from apiserver_stub.storage import Store
    from apiserver_stub.verbs.context import VerbContext

Run = Callable[[], Awaitable[None]]
_MAX_STATISTICS_BYTES = 16 << 20


class ControllerResources(Struct, frozen=True):
    """Components of the server that controllers use."""

    context: VerbContext
    registry: Registry
    leadership: Leadership
    agents: NodeAgents
    certificates: Certificates
    authorizer: Chain
    ca_certificate: str
    event_ttl_seconds: int | None
    remotes: Remotes
    extensions: ExtensionClient


def build_leadership(options: Options, store: Store, stack: AsyncExitStack) -> Leadership:
    """Return the election among the servers of *store*; *stack* releases the identity of this one.

    :raises OSError: the lock file cannot be created.
    """
    holder = holder_identity(options.data_dir, stack) if options.store_servers else ""
    timing = LeaseTiming(
        options.leader_elect_lease_seconds,
        options.leader_elect_renew_deadline_seconds,
        options.leader_elect_retry_seconds,
    )
    return Leadership(store, options.identity, SystemClock(), holder, timing)


async def start_controllers(options: Options, tasks: TaskOwner, parts: ControllerResources) -> None:
    """Start the enabled controllers; each runs while this server is the leader."""
    for name, run in (*_objects(options, parts), *_devices(options, parts), *_volumes(options, parts)):
        tasks.start(parts.leadership.run_while_leading(run), name)
    enabled = [item for item in discover_controllers().controllers if options.runs_controller(item.name)]
    if controllers := served(enabled, parts.registry, options.identity):
        manager = ControllerManager(
            controllers,
            parts.context,
            parts.registry,
            options.identity,
            options.gates,
            SystemClock(),
            parts.event_ttl_seconds,
            parts.leadership,
            options.compatibility_version,
            _metrics(options, parts),
        )
        tasks.start(manager.run(), "controllers")
    if options.sign_node_certificates:
        authority = await asyncio.to_thread(parts.certificates.own_authority)
        if authority is not None:
            signs_clients = await asyncio.to_thread(parts.certificates.trusts_own_clients)
            life = timedelta(seconds=options.node_certificate_seconds)
            signing = partial(
                run_node_csr_signer,
                parts.context.store,
                options.identity,
                parts.authorizer,
                authority,
                life,
                signs_clients=signs_clients,
            )
            tasks.start(parts.leadership.run_while_leading(signing), "node-certificates")


def _metrics(options: Options, parts: ControllerResources) -> MetricsClient:
    """Return the reader of metrics, from extension servers and node agents."""

    async def read_api(group: str, version: str, path: str) -> Any:
        remote = parts.remotes.table.get((group, version))
        if remote is None:
            raise LookupError(group)
        try:
            return await parts.extensions.read(remote, path)
        except ExtensionRequestError as error:
            raise MetricsError(str(error)) from error

    async def read_node(node: str, path: str) -> tuple[int, bytes]:
        return await parts.agents.call(node, "GET", path, max_reply_bytes=_MAX_STATISTICS_BYTES)

    return MetricsClient(read_api, read_node, options.identity, SystemClock())


def _objects(options: Options, parts: ControllerResources) -> Iterator[tuple[str, Run]]:
    context, registry, identity = parts.context, parts.registry, options.identity
    store = context.store
    if options.runs_controller("namespace-controller"):
        yield "namespaces", partial(run_namespace_deletion, context, registry, identity)
    restores_ca = not options.store_servers  # Another server of the same store may have another CA.
    filled = partial(keep_namespaces_filled, store, identity, parts.ca_certificate, restores_ca=restores_ca)
    yield "namespace-contents", filled
    if options.runs_controller("clusterrole-aggregation-controller"):
        yield "aggregated-roles", partial(keep_aggregated, store, identity)
    if registry.find(identity.group(GROUP), "v1", "customresourcedefinitions") is not None:
        yield "custom-resource-cleanup", lambda: build_cleanup(context, registry, identity).run()
    if options.enable_garbage_collector and options.runs_controller("garbage-collector-controller"):
        yield "garbage", partial(collect_garbage, context, registry, identity)


def _devices(options: Options, parts: ControllerResources) -> Iterator[tuple[str, Run]]:
    context, registry, identity, ttl = parts.context, parts.registry, options.identity, parts.event_ttl_seconds
    kinds = device_resources(registry, identity)
    if kinds is not None and options.runs_controller("resourceclaim-controller"):
        yield "resource-claims", partial(run_claim_controller, context, kinds, identity, ttl)
    evicts = options.gates.enabled("DRADeviceTaints") and options.runs_controller(DEVICE_TAINT_EVICTION)
    if kinds is not None and evicts:
        yield "device-taint-eviction", lambda: DeviceTaintEviction(context, registry, identity, ttl).run()
    if options.bind_pods_to_single_node:
        scheduler = partial(bind_to_single_node, context.store, identity, ttl, options.gates)
        yield "scheduler", partial(scheduler, allocates_devices=kinds is not None)


def _volumes(options: Options, parts: ControllerResources) -> Iterator[tuple[str, Run]]:
    if not options.manage_volumes:
        return
    context, registry, identity, ttl = parts.context, parts.registry, options.identity, parts.event_ttl_seconds
    if options.runs_controller("persistentvolume-binder-controller"):
        yield "volume-binder", partial(bind_claims, context.store, identity, ttl)
    if options.runs_controller("ephemeral-volume-controller"):
        yield "ephemeral-claims", partial(create_ephemeral_claims, context, registry, identity, ttl)
    if options.runs_controller("persistentvolume-attach-detach-controller"):
        yield "volume-attacher", partial(attach_volumes, context, registry, identity, ttl)
    directories = LocalDirectories(parts.agents, identity)
    provisioner = partial(LocalPathProvisioner, context, registry, directories, identity, ttl)
    yield "local-path-provisioner", lambda: provisioner().run()
