"""Reaching into containers: ``/exec``, ``/attach``, ``/portForward`` and ``/run``.

The first three are upgraded connections (SPDY or WebSocket), passed byte for byte between the client and the runtime's
streaming endpoint. Each needs the verb ``create``, also where a WebSocket makes the request a GET; the right may be
given on ``nodes/proxy`` or on the path's own subresource.
spec: config.enableDebuggingHandlers, config.streamingConnectionIdleTimeout
"""

from __future__ import annotations

from collections.abc import Sequence

from nodeagent import hookimpl
from nodeagent.contracts.context import AgentContext
from nodeagent.contracts.server import Exposure, Handler, Route


@hookimpl
def nodeagent_provide_routes(context: AgentContext) -> Sequence[Route]:
    from nodeagent_plugins.routes_exec.handlers import Handlers

    handlers = Handlers(context)
    pod = "{namespace}/{pod}"
    return (
        *_paths("exec", f"{pod}/{{container}}", f"{pod}/{{uid}}/{{container}}", ("GET", "POST"), handlers.exec),
        *_paths("attach", f"{pod}/{{container}}", f"{pod}/{{uid}}/{{container}}", ("GET", "POST"), handlers.attach),
        *_paths("portForward", pod, f"{pod}/{{uid}}", ("GET", "POST"), handlers.port_forward),
        *_paths("run", f"{pod}/{{container}}", f"{pod}/{{uid}}/{{container}}", ("POST",), handlers.run),
    )


def _paths(name: str, short: str, long: str, methods: Sequence[str], handler: Handler) -> Sequence[Route]:
    return tuple(
        Route(
            method,
            f"/{name}/{rest}",
            handler,
            Exposure.DEBUG,
            subresources=("proxy", name.lower()),
            verb="create",
            streams=True,
        )
        for rest in (short, long)
        for method in methods
    )
