"""Statistics: resource usage of the node, its pods and their containers.

spec: config.volumeStatsAggPeriod, config.nodeagentCgroups, config.systemCgroups
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from nodeagent import hookimpl
from nodeagent_plugins.stats.provider import MAX_AGE_SECONDS, MeasuredStats

if TYPE_CHECKING:
    from nodeagent.contracts.background import BackgroundLoop
    from nodeagent.contracts.context import AgentContext, ProberContext, ServerContext
    from nodeagent.contracts.server import Route
    from nodeagent.contracts.stats import StatsProvider

NAME = "stats"


@hookimpl
def nodeagent_settings_schema() -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "max_age_seconds": {
                "type": "number",
                "minimum": 0,
                "default": MAX_AGE_SECONDS,
                "description": "Maximum age of served statistics in seconds.",
            },
        },
    }


@hookimpl
def nodeagent_provide_stats(context: ProberContext) -> StatsProvider:
    settings = context.plugin_settings.get(NAME, {})
    return MeasuredStats(context, max_age_seconds=settings.get("max_age_seconds", MAX_AGE_SECONDS))


@hookimpl
def nodeagent_provide_background_loops(context: AgentContext) -> Sequence[BackgroundLoop]:
    return [context.stats.volumes] if isinstance(context.stats, MeasuredStats) else []


@hookimpl
def nodeagent_provide_routes(context: ServerContext) -> Sequence[Route]:
    from nodeagent_plugins.stats.cadvisor import cadvisor_routes

    return cadvisor_routes(context, context.stats) if isinstance(context.stats, MeasuredStats) else []
