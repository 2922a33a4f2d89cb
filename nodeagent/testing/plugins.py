"""Helpers that load a plugin into a real plugin manager."""

from __future__ import annotations

from typing import Any

from nodeagent.contracts.context import ServerContext
from nodeagent.contracts.pods import Rejection
from nodeagent.model.pod import Pod
from nodeagent.pluginmanager import PluginManager, QuarantinePolicy


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
    if result is None:
        return None
    rejection: Any = result.value
    assert isinstance(rejection, Rejection), f"{result.plugin} returned {rejection!r}"
    return rejection
