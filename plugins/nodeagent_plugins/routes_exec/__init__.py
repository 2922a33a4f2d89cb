"""Access to containers: ``/exec``, ``/attach``, ``/portForward`` and ``/run``.

The first three upgrade the connection (SPDY or WebSocket), and the bytes are copied between the client and the
runtime's streaming endpoint. Each requires the verb ``create``, also for a WebSocket, whose request is a GET;
permission on ``nodes/proxy`` or on the path's subresource is sufficient.
spec: config.enableDebuggingHandlers, config.streamingConnectionIdleTimeout
"""

from __future__ import annotations

from collections.abc import Sequence

from nodeagent import hookimpl
from nodeagent.contracts.context import ServerContext
from nodeagent.contracts.server import Exposure, Handler, Route


@hookimpl
def nodeagent_provide_routes(context: ServerContext) -> Sequence[Route]:
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
