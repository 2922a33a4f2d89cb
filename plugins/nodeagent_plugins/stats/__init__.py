"""Statistics: how much the node, its pods and their containers use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nodeagent_plugins.stats.provider import MeasuredStats

from nodeagent import hookimpl

if TYPE_CHECKING:
    from nodeagent.contracts.context import AgentContext
    from nodeagent.contracts.stats import StatsProvider


@hookimpl
def nodeagent_provide_stats(context: AgentContext) -> StatsProvider:
    return MeasuredStats(context)
