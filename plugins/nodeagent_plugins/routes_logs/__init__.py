"""Container logs and system logs: ``/containerLogs`` and ``/logs/``.

spec: config.enableDebuggingHandlers, config.enableSystemLogHandler, config.enableSystemLogQuery
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nodeagent import hookimpl
from nodeagent.contracts.context import AgentContext, ServerContext
from nodeagent.contracts.server import Exposure, Route

SYSTEM_LOGS = Path("/var/log")


@hookimpl
def nodeagent_provide_routes(context: ServerContext) -> Sequence[Route]:
    return log_routes(context, SYSTEM_LOGS)


def log_routes(context: AgentContext, system_logs: Path) -> Sequence[Route]:
    """Return the routes; *system_logs* is the root directory of ``/logs/``."""
    from nodeagent_plugins.routes_logs.container import ContainerLogs
    from nodeagent_plugins.routes_logs.system import SystemLogs

    containers = ContainerLogs(context)
    queries = context.config.enable_system_log_query and context.gates.enabled("NodeLogQuery")
    system = SystemLogs(system_logs, context.clock, queries=queries)
    off = "" if context.config.enable_system_log_handler else "logs endpoint is disabled."
    return (
        Route("GET", "/containerLogs/{namespace}/{pod}/{container}", containers.handle, Exposure.DEBUG, streams=True),
        Route("GET", "/logs/", system.handle, Exposure.DEBUG, subresources=("log",), rejection=off, streams=True),
        Route(
            "GET", "/logs/{path:.+}", system.handle, Exposure.DEBUG, subresources=("log",), rejection=off, streams=True
        ),
    )
