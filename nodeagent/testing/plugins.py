"""Helpers that load a plugin into a real plugin manager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nodeagent.contracts.context import ServerContext
from nodeagent.contracts.eviction import EvictionCandidate, Reclaimed
from nodeagent.contracts.hooks import HookResult
from nodeagent.contracts.node import NodeReport
from nodeagent.contracts.pods import Rejection
from nodeagent.contracts.runtime import ContainerConfig, SandboxConfig
from nodeagent.contracts.stats import PodUsage
from nodeagent.errors import PluginError
from nodeagent.model.pod import Container, Pod
from nodeagent.node.status import merge_reports
from nodeagent.pluginmanager import PluginManager, QuarantinePolicy
from nodeagent.testing.pods import sandbox_config


def load_plugin(plugin: object, *, name: str = "plugin", context: ServerContext | None = None) -> PluginManager:
    """Register *plugin*, a module or object with hooks, as the agent does; with *context*, also configure it.

    With *context*, the hooks ``nodeagent_configure`` and ``nodeagent_components_created`` are called. The plugin is
    required and never in quarantine, so that each failure is raised.

    :raises PluginError: a hook is unknown, accepts arguments that the hook does not have, or failed.
    """
    manager = PluginManager()
    manager.register(plugin, name=name, origin="test")
    manager.contain(QuarantinePolicy(failures=0), [name])
    if context is not None:
        manager.provide_all("nodeagent_configure", config=context.config, context=context, plugins=manager)
        manager.provide_all("nodeagent_components_created", context=context, plugins=manager)
    return manager


async def admit(manager: PluginManager, pod: Pod, *active: Pod) -> Rejection | None:
    """Call the admission hook for *pod*, given the *active* pods; return the first rejection."""
    result = await manager.call_first("nodeagent_admit_pod", subject=pod.full_name, pod=pod, active=list(active))
    return _rejection(result)


async def permit(manager: PluginManager, pod: Pod) -> Rejection | None:
    """Call ``nodeagent_permit_pod``; return the first rejection, because of which *pod* waits."""
    return _rejection(await manager.call_first("nodeagent_permit_pod", pod=pod))


async def permit_eviction(manager: PluginManager, pod: Pod, signal: str = "memory.available") -> Rejection | None:
    """Call ``nodeagent_permit_eviction``; return the first veto."""
    return _rejection(await manager.call_first("nodeagent_permit_eviction", pod=pod, signal=signal))


async def rank_for_eviction(
    manager: PluginManager, *pods: Pod, signal: str = "memory.available", usage: Mapping[str, PodUsage] | None = None
) -> list[Pod]:
    """Call ``nodeagent_rank_pods_for_eviction`` with *pods* in the agent's order; return the changed order.

    :param usage: usage by pod UID.
    """
    candidates = [EvictionCandidate(pod, (usage or {}).get(pod.uid)) for pod in pods]
    ranked = await manager.call_chain(
        "nodeagent_rank_pods_for_eviction", "candidates", candidates, signal=signal, tolerant=False
    )
    return [candidate.pod for candidate in ranked]


async def reclaim_disk(manager: PluginManager, signal: str = "nodefs.available") -> list[Reclaimed]:
    """Call ``nodeagent_reclaim_disk``; return the result of each plugin that freed something."""
    return [each.value for each in await _gather(manager, "nodeagent_reclaim_disk", signal=signal)]


async def mutate_sandbox(manager: PluginManager, pod: Pod, sandbox: SandboxConfig | None = None) -> SandboxConfig:
    """Call ``nodeagent_mutate_sandbox``; return the configuration that the runtime receives."""
    config = sandbox or sandbox_config(pod)
    return await manager.call_chain("nodeagent_mutate_sandbox", "sandbox", config, pod=pod)


async def mutate_container(
    manager: PluginManager, pod: Pod, container: Container | None = None, settings: ContainerConfig | None = None
) -> ContainerConfig:
    """Call ``nodeagent_mutate_container``; return the configuration that the runtime receives.

    :param container: defaults to the first container of *pod*.
    """
    container = container or pod.spec.containers[0]
    settings = settings or ContainerConfig(container.name, 0, container.image)
    return await manager.call_chain("nodeagent_mutate_container", "settings", settings, pod=pod, container=container)


async def report_node(manager: PluginManager) -> NodeReport:
    """Call ``nodeagent_report_node``; return the combined report."""
    return merge_reports(each.value for each in await _gather(manager, "nodeagent_report_node"))


async def notify(manager: PluginManager, hook: str, **arguments: Any) -> None:
    """Call a notification hook, such as ``nodeagent_pod_terminated``, with all of its arguments.

    :raises PluginError: an implementation failed.
    """
    await _gather(manager, hook, **arguments)


async def _gather(manager: PluginManager, hook: str, **arguments: Any) -> Sequence[HookResult[Any]]:
    """Return all results; unlike in the agent, a failure is raised."""
    before = _failures(manager, hook)
    results = await manager.gather(hook, **arguments)
    for plugin, count in _failures(manager, hook).items():
        if count > before.get(plugin, 0):
            state = manager.calls.quarantines.get(plugin.partition(".")[0])
            raise PluginError(plugin, f"{hook} failed" if state is None else state.last_error)
    return results


def _failures(manager: PluginManager, hook: str) -> dict[str, int]:
    """Return the number of failed calls by plugin object."""
    return {info.name: info.stats[hook].failures for info in manager.plugins() if hook in info.stats}


def _rejection(result: HookResult[Any] | None) -> Rejection | None:
    if result is None:
        return None
    rejection: Any = result.value
    assert isinstance(rejection, Rejection), f"{result.plugin} returned {rejection!r}"
    return rejection
