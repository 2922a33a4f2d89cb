"""Component assembly: call the provider hooks in their documented order, each with its stage of the context."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec.structs import replace

from nodeagent.contracts.allocation import PodAllocations
from nodeagent.contracts.background import BackgroundLoop
from nodeagent.contracts.context import (
    AgentContext,
    ApiContext,
    CgroupsContext,
    ClaimsContext,
    DevicesContext,
    ImageContext,
    NodeContext,
    ObjectsContext,
    ProberContext,
    PullerContext,
    RecorderContext,
    RuntimeContext,
    ServerContext,
    StatsContext,
    VolumesContext,
)
from nodeagent.contracts.events import EventRecorder
from nodeagent.contracts.hooks import HookResult
from nodeagent.contracts.local import LocalQuery
from nodeagent.contracts.pods import PodDirectory, PodSource
from nodeagent.contracts.server import Authenticator, Authorizer, Route
from nodeagent.model.meta import ObjectReference
from nodeagent.pluginmanager import PluginManager
from nodeagent.pluginmanager.contained_tasks import contain_handler


def provide_runtime(context: ApiContext, plugins: PluginManager) -> ImageContext:
    """Provide the container runtime and its image service.

    :raises PluginError: no plugin provides a component, or a plugin failed.
    :raises ConfigError: a plugin does not support the configuration.
    """
    runtime = context.stage(RuntimeContext, runtime=plugins.provide("nodeagent_provide_runtime", context=context))
    return runtime.stage(ImageContext, images=plugins.provide("nodeagent_provide_image_service", context=runtime))


def provide_recorder(
    context: ApiContext,
    plugins: PluginManager,
    pods: PodDirectory,
    allocations: PodAllocations,
    wrap_recorder: Callable[[EventRecorder], EventRecorder] = lambda recorder: recorder,
) -> RecorderContext:
    """Provide the event recorder and the runtime.

    :param wrap_recorder: returns the recorder to use instead of the provided one.
    :raises PluginError: no plugin provides a component, or a plugin failed.
    :raises ConfigError: a plugin does not support the configuration.
    """
    name = context.node_name
    node_reference = ObjectReference(kind="Node", name=name, uid=name)
    recorder = wrap_recorder(plugins.provide("nodeagent_provide_event_recorder", context=context))
    return provide_runtime(context, plugins).stage(
        RecorderContext,
        recorder=recorder,
        node_reference=lambda: node_reference,
        pods=pods,
        allocations=allocations,
    )


def provide_components(node: NodeContext, plugins: PluginManager) -> StatsContext:
    """Provide every component between the node manager and the pod syncer.

    :raises PluginError: no plugin provides a component, or a plugin failed.
    :raises ConfigError: a plugin does not support the configuration.
    """
    objects = node.stage(ObjectsContext, objects=plugins.provide("nodeagent_provide_object_reader", context=node))
    cgroups = objects.stage(CgroupsContext, cgroups=plugins.provide("nodeagent_provide_cgroups", context=objects))
    kinds = _by_precedence(plugins, plugins.provide_all("nodeagent_provide_volume_kinds", context=cgroups))
    persistent_kinds = _by_precedence(
        plugins, plugins.provide_all("nodeagent_provide_persistent_volume_kinds", context=cgroups)
    )
    claims = plugins.provide_optional("nodeagent_provide_claim_resolver", context=cgroups)
    volumes = cgroups.stage(
        VolumesContext,
        volumes=plugins.provide(
            "nodeagent_provide_volume_manager",
            context=cgroups,
            kinds=kinds,
            persistent_kinds=persistent_kinds,
            claims=claims,
        ),
    )
    device_providers = _flat(plugins.provide_all("nodeagent_provide_device_providers", context=volumes))
    devices = volumes.stage(
        DevicesContext,
        devices=plugins.provide("nodeagent_provide_device_manager", context=volumes, providers=device_providers),
    )
    drivers = _flat(plugins.provide_all("nodeagent_provide_claim_drivers", context=devices))
    claimed = devices.stage(
        ClaimsContext,
        claims=plugins.provide_optional("nodeagent_provide_claim_manager", context=devices, drivers=drivers),
    )
    providers = _flat(plugins.provide_all("nodeagent_provide_credential_providers", context=claimed))
    puller = claimed.stage(
        PullerContext,
        puller=plugins.provide("nodeagent_provide_image_puller", context=claimed, credential_providers=providers),
    )
    prober = puller.stage(ProberContext, prober=plugins.provide("nodeagent_provide_prober", context=puller))
    return prober.stage(StatsContext, stats=plugins.provide("nodeagent_provide_stats", context=prober))


def provide_syncer(
    context: StatsContext, plugins: PluginManager, flush_statuses: Callable[[float], Awaitable[None]]
) -> AgentContext:
    """Provide the pod syncer, then notify the plugins that all components exist.

    :param flush_statuses: waits until all pod statuses were sent, at most the given seconds.
    :raises PluginError: no plugin provides the syncer, or a plugin failed.
    :raises ConfigError: a plugin does not support the configuration.
    """
    syncer = plugins.provide("nodeagent_provide_pod_syncer", context=context, plugins=plugins)
    agent = context.stage(AgentContext, syncer=syncer, flush_statuses=flush_statuses)
    plugins.provide_all("nodeagent_components_created", context=agent, plugins=plugins)
    return agent


def provide_sources(context: AgentContext, plugins: PluginManager) -> Sequence[PodSource]:
    """Return the pod sources that the configuration enables."""
    return _flat(plugins.provide_all("nodeagent_provide_pod_sources", context=context))


def provide_loops(context: AgentContext, plugins: PluginManager) -> Sequence[tuple[str, BackgroundLoop]]:
    """Return the background loops, each with the name of its plugin."""
    results = plugins.provide_all("nodeagent_provide_background_loops", context=context, plugins=plugins)
    return [(result.plugin, loop) for result in results for loop in result.value]


def provide_access(context: ServerContext, plugins: PluginManager) -> tuple[Sequence[Authenticator], Authorizer]:
    """Return the authenticators and the authorizer of the secure port.

    :raises ServerConfigError: the configured authentication or authorization cannot work on this node.
    :raises PluginError: no plugin provides an authorizer, or a plugin failed.
    """
    authenticators = _flat(plugins.provide_all("nodeagent_provide_authenticators", context=context))
    authorizer = plugins.provide("nodeagent_provide_authorizer", context=context)
    return authenticators, authorizer


def provide_routes(context: ServerContext, plugins: PluginManager) -> Sequence[Route]:
    """Return the HTTP routes of all plugins."""
    return _contained(plugins, plugins.provide_all("nodeagent_provide_routes", context=context))


def provide_local_queries(context: AgentContext, plugins: PluginManager) -> Sequence[LocalQuery]:
    """Return the local queries of all plugins."""
    return _contained(plugins, plugins.provide_all("nodeagent_provide_local_queries", context=context))


def _contained(plugins: PluginManager, results: Sequence[HookResult[Sequence[Any]]]) -> list[Any]:
    """Return the objects, with contained handlers if they are those of third-party plugins."""
    return [
        item if plugins.is_bundled(plugin) else replace(item, handler=contain_handler(plugin, item.handler))
        for plugin, item in ((result.plugin.partition(".")[0], item) for result in results for item in result.value)
    ]


def _by_precedence(plugins: PluginManager, results: Sequence[HookResult[Sequence[Any]]]) -> list[Any]:
    """Return the objects of third-party plugins before bundled ones; among each, the last plugin takes precedence."""
    return _flat(sorted(results, key=lambda result: not plugins.is_bundled(result.plugin)))[::-1]


def _flat(results: Sequence[HookResult[Sequence[Any]]]) -> list[Any]:
    return [item for result in results for item in result.value]
