"""Tracing: spans of pod syncs, runtime and API server calls, and requests to the agent's server.

spec: config.tracing
"""

from __future__ import annotations

import socket

from nodeagent import hookimpl
from nodeagent.base import identity, tracing
from nodeagent.base.extras import missing_extra
from nodeagent.contracts.configuration import NodeAgentConfiguration
from nodeagent.contracts.context import ConfigContext
from nodeagent.errors import ConfigError, Problem


@hookimpl
def nodeagent_configure(config: NodeAgentConfiguration, context: ConfigContext) -> None:
    settings = config.tracing
    if settings is None or not context.gates.enabled("NodeAgentTracing"):
        return
    if missing := missing_extra("tracing", "tracing"):
        raise ConfigError([Problem("configuration", "", None, missing)])
    service = identity.current().component
    made = tracing.Tracing(
        service, settings.endpoint, settings.sampling_rate_per_million or 0, {"host.name": socket.gethostname()}
    )

    async def close() -> None:
        tracing.configure(None)
        await tracing.close_provider(made.provider)

    tracing.configure(made)
    context.cleanup.push_async_callback(close)
