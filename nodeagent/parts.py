"""Fills the context with the parts that plugins provide, in the order of the provide hooks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nodeagent.contracts.background import BackgroundLoop
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.events import EventRecorder
from nodeagent.contracts.local import LocalQuestion
from nodeagent.contracts.pods import PodDirectory, PodSource
from nodeagent.contracts.server import Authenticator, Authorizer, Route
from nodeagent.pluginmanager import Answer, PluginManager


def provide_parts(
    context: AgentContext,
    plugins: PluginManager,
    pods: PodDirectory,
    around_recorder: Callable[[EventRecorder], EventRecorder] = lambda recorder: recorder,
) -> None:
    """Ask the plugins for every part of *context*.

    :param around_recorder: gets the recorder and returns what the agent uses in its place.
    :raises PluginError: nobody provides a part, or a plugin failed.
    :raises ConfigError: a plugin cannot work with the configuration.
    """
    context.recorder = around_recorder(plugins.provide("nodeagent_provide_event_recorder", context=context))
    context.runtime = plugins.provide("nodeagent_provide_runtime", context=context)
    context.images = plugins.provide("nodeagent_provide_image_service", context=context)
    context.objects = plugins.provide("nodeagent_provide_object_reader", context=context)
    context.cgroups = plugins.provide("nodeagent_provide_cgroups", context=context)
    kinds = _flat(plugins.provide_all("nodeagent_provide_volume_kinds", context=context))
    kinds.reverse()  # of two kinds for one volume, that of the plugin registered later is preferred
    context.volumes = plugins.provide("nodeagent_provide_volume_manager", context=context, kinds=kinds)
    providers = _flat(plugins.provide_all("nodeagent_provide_credential_providers", context=context))
    context.puller = plugins.provide("nodeagent_provide_image_puller", context=context, credential_providers=providers)
    context.pods = pods
    context.prober = plugins.provide("nodeagent_provide_prober", context=context)
    context.stats = plugins.provide("nodeagent_provide_stats", context=context)
    context.syncer = plugins.provide("nodeagent_provide_pod_syncer", context=context, plugins=plugins)


def provide_sources(context: AgentContext, plugins: PluginManager) -> Sequence[PodSource]:
    """Return the pod sources that the configuration asks for."""
    return _flat(plugins.provide_all("nodeagent_provide_pod_sources", context=context))


def provide_loops(context: AgentContext, plugins: PluginManager) -> Sequence[tuple[str, BackgroundLoop]]:
    """Return the background loops, each with its plugin's name."""
    answers = plugins.provide_all("nodeagent_provide_background_loops", context=context, plugins=plugins)
    return [(answer.plugin, loop) for answer in answers for loop in answer.value]


def provide_access(context: AgentContext, plugins: PluginManager) -> tuple[Sequence[Authenticator], Authorizer]:
    """Return what guards the secured port.

    :raises ServerRefused: what the configuration asks for cannot work here.
    :raises PluginError: nobody provides an authorizer, or a plugin failed.
    """
    authenticators = _flat(plugins.provide_all("nodeagent_provide_authenticators", context=context))
    authorizer = plugins.provide("nodeagent_provide_authorizer", context=context)
    return authenticators, authorizer


def provide_routes(context: AgentContext, plugins: PluginManager) -> Sequence[Route]:
    """Return the paths that plugins serve."""
    return _flat(plugins.provide_all("nodeagent_provide_routes", context=context))


def provide_questions(context: AgentContext, plugins: PluginManager) -> Sequence[LocalQuestion]:
    """Return what plugins can be asked on the local socket."""
    return _flat(plugins.provide_all("nodeagent_provide_local_questions", context=context))


def _flat(answers: Sequence[Answer[Sequence[Any]]]) -> list[Any]:
    return [item for answer in answers for item in answer.value]
