"""CPU, memory and topology managers: exclusive CPUs and NUMA nodes for guaranteed containers.

Inactive while ``cpuManagerPolicy``, ``memoryManagerPolicy`` and ``topologyManagerPolicy`` are none and no plugin
provides topology hints.
spec: config.cpuManagerPolicy, config.memoryManagerPolicy, config.topologyManagerPolicy
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent.contracts.context import AgentContext
from nodeagent_plugins.resource_managers.state_files import CPU_STATE, MEMORY_STATE

if TYPE_CHECKING:
    from nodeagent.contracts.hooks import PluginHost


@hookimpl
def nodeagent_components_created(context: AgentContext, plugins: PluginHost) -> None:
    config = context.config
    policies = (config.cpu_manager_policy, config.memory_manager_policy, config.topology_manager_policy)
    requested = any(policy.lower() != "none" for policy in policies)
    results = plugins.provide_all("nodeagent_provide_hint_providers", context=context)
    providers = [provider for result in results for provider in result.value]
    # A state file from before a restart requires the managers; otherwise its assignments would never be released.
    if requested or providers or any((context.root_dir / name).exists() for name in (CPU_STATE, MEMORY_STATE)):
        from nodeagent_plugins.resource_managers.manager import ResourceManagers

        plugins.register(ResourceManagers(context, providers), name="resource_managers.node")
