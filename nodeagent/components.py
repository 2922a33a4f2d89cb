"""Component assembly: call the provider hooks in their documented order and fill the agent context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nodeagent.contracts.background import BackgroundLoop
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.events import EventRecorder
from nodeagent.contracts.hooks import HookResult
from nodeagent.contracts.local import LocalQuery
from nodeagent.contracts.pods import PodDirectory, PodSource
from nodeagent.contracts.server import Authenticator, Authorizer, Route
from nodeagent.pluginmanager import PluginManager


def provide_components(
    context: AgentContext,
    plugins: PluginManager,
    pods: PodDirectory,
    wrap_recorder: Callable[[EventRecorder], EventRecorder] = lambda recorder: recorder,
) -> None:
    """Set every component of *context*.

    :param wrap_recorder: returns the recorder to use instead of the provided one.
    :raises PluginError: no plugin provides a component, or a plugin failed.
    :raises ConfigError: a plugin does not support the configuration.
    """
    context.recorder = wrap_recorder(plugins.provide("nodeagent_provide_event_recorder", context=context))
    context.runtime = plugins.provide("nodeagent_provide_runtime", context=context)
    context.images = plugins.provide("nodeagent_provide_image_service", context=context)
    context.objects = plugins.provide("nodeagent_provide_object_reader", context=context)
    context.cgroups = plugins.provide("nodeagent_provide_cgroups", context=context)
    kinds = _flat(plugins.provide_all("nodeagent_provide_volume_kinds", context=context))
    kinds.reverse()  # the plugin registered last takes precedence
    context.volumes = plugins.provide("nodeagent_provide_volume_manager", context=context, kinds=kinds)
    providers = _flat(plugins.provide_all("nodeagent_provide_credential_providers", context=context))
    context.puller = plugins.provide("nodeagent_provide_image_puller", context=context, credential_providers=providers)
    context.pods = pods
    context.prober = plugins.provide("nodeagent_provide_prober", context=context)
    context.stats = plugins.provide("nodeagent_provide_stats", context=context)
    context.syncer = plugins.provide("nodeagent_provide_pod_syncer", context=context, plugins=plugins)


def provide_sources(context: AgentContext, plugins: PluginManager) -> Sequence[PodSource]:
    """Return the pod sources that the configuration enables."""
    return _flat(plugins.provide_all("nodeagent_provide_pod_sources", context=context))


def provide_loops(context: AgentContext, plugins: PluginManager) -> Sequence[tuple[str, BackgroundLoop]]:
    """Return the background loops, each with the name of its plugin."""
    results = plugins.provide_all("nodeagent_provide_background_loops", context=context, plugins=plugins)
    return [(result.plugin, loop) for result in results for loop in result.value]


def provide_access(context: AgentContext, plugins: PluginManager) -> tuple[Sequence[Authenticator], Authorizer]:
    """Return the authenticators and the authorizer of the secure port.

    :raises ServerConfigError: the configured authentication or authorization cannot work on this node.
    :raises PluginError: no plugin provides an authorizer, or a plugin failed.
    """
    authenticators = _flat(plugins.provide_all("nodeagent_provide_authenticators", context=context))
    authorizer = plugins.provide("nodeagent_provide_authorizer", context=context)
    return authenticators, authorizer


def provide_routes(context: AgentContext, plugins: PluginManager) -> Sequence[Route]:
    """Return the HTTP routes of all plugins."""
    return _flat(plugins.provide_all("nodeagent_provide_routes", context=context))


def provide_local_queries(context: AgentContext, plugins: PluginManager) -> Sequence[LocalQuery]:
    """Return the local queries of all plugins."""
    return _flat(plugins.provide_all("nodeagent_provide_local_queries", context=context))


def _flat(results: Sequence[HookResult[Sequence[Any]]]) -> list[Any]:
    return [item for result in results for item in result.value]
