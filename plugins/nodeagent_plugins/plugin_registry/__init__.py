"""Plugin registry: CSI drivers, device plugins and DRA drivers that register with a socket in ``plugins_registry``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nodeagent import hookimpl

if TYPE_CHECKING:
    from nodeagent.contracts.background import BackgroundLoop
    from nodeagent.contracts.context import AgentContext
    from nodeagent.contracts.hooks import PluginHost


@hookimpl
def nodeagent_provide_background_loops(context: AgentContext, plugins: PluginHost) -> Sequence[BackgroundLoop]:
    results = plugins.provide_all("nodeagent_provide_plugin_handlers", context=context)
    handlers = {handler.plugin_type: handler for result in results for handler in result.value}
    if not handlers:
        return ()
    from nodeagent_plugins.plugin_registry.reconciler import Reconciler

    return (Reconciler(context.root_dir / "plugins_registry", handlers, context.clock),)
