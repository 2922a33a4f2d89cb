"""Pod resources: the API with which monitoring agents and network plugins query the resources of containers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nodeagent import hookimpl

if TYPE_CHECKING:
    from nodeagent.contracts.background import BackgroundLoop
    from nodeagent.contracts.context import AgentContext
    from nodeagent.contracts.hooks import PluginHost

DIRECTORY, SOCKET = "pod-resources", "kubelet.sock"


@hookimpl
def nodeagent_provide_background_loops(context: AgentContext, plugins: PluginHost) -> Sequence[BackgroundLoop]:
    from nodeagent_plugins.pod_resources.inventory import Inventory
    from nodeagent_plugins.pod_resources.server import PodResourcesServer

    results = plugins.provide_all("nodeagent_provide_resource_reporters", context=context)
    reporters = [reporter for result in results for reporter in result.value]
    inventory = Inventory(context.pods, reporters, context.gates)
    return (PodResourcesServer(context.root_dir / DIRECTORY / SOCKET, inventory, context.gates, context.clock),)
