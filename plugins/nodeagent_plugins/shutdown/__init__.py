"""Graceful node shutdown: terminate pods in order of priority before the node shuts down.

spec: config.shutdownGracePeriod, config.shutdownGracePeriodCriticalPods, config.shutdownGracePeriodByPodPriority
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent.base import identity
from nodeagent.contracts.checks import NodeCheck
from nodeagent.contracts.context import AgentContext, ConfigContext, ImageContext
from nodeagent.contracts.shutdown import shutdown_periods
from nodeagent_plugins.shutdown.check import shutdown_check
from nodeagent_plugins.shutdown.logind import Logind
from nodeagent_plugins.shutdown.manager import ShutdownManager
from nodeagent_plugins.shutdown.plan import PlanFile

if TYPE_CHECKING:
    from nodeagent.contracts.hooks import PluginHost

LOGIND_DROP_INS = Path("/etc/systemd/logind.conf.d")


@hookimpl
def nodeagent_components_created(context: AgentContext, plugins: PluginHost) -> None:
    periods = shutdown_periods(context.config, context.gates)
    plan = PlanFile(periods, context)
    plugins.register(plan, name="shutdown.plan")
    if periods.entries:
        plugins.register(
            ShutdownManager(periods, context, _logind(context), plan.report_problem), name="shutdown.manager"
        )


@hookimpl
def nodeagent_provide_node_checks(context: ImageContext) -> Sequence[NodeCheck]:
    enabled = shutdown_periods(context.config, context.gates).entries
    return [shutdown_check(_logind(context))] if enabled else []


def _logind(context: ConfigContext) -> Logind:
    component = identity.current().component
    return Logind(component, LOGIND_DROP_INS / f"99-{component}.conf", context.clock)
