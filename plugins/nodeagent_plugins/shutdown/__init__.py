"""Graceful node shutdown: pods end in order before the machine goes.

spec: config.shutdownGracePeriod, config.shutdownGracePeriodCriticalPods, config.shutdownGracePeriodByPodPriority
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent.base import identity
from nodeagent.config.types import NodeAgentConfiguration
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.shutdown import shutdown_periods
from nodeagent_plugins.shutdown.logind import Logind
from nodeagent_plugins.shutdown.manager import ShutdownManager
from nodeagent_plugins.shutdown.plan import PlanFile

if TYPE_CHECKING:
    from nodeagent.pluginmanager import PluginManager

LOGIND_DROP_INS = Path("/etc/systemd/logind.conf.d")


@hookimpl
def nodeagent_configure(config: NodeAgentConfiguration, context: AgentContext, plugins: PluginManager) -> None:
    periods = shutdown_periods(config, context.gates)
    plugins.register(PlanFile(periods, context), name="shutdown.plan")
    if periods.entries:
        component = identity.current().component
        logind = Logind(component, LOGIND_DROP_INS / f"99-{component}.conf", context.clock)
        plugins.register(ShutdownManager(periods, context, logind), name="shutdown.manager")
