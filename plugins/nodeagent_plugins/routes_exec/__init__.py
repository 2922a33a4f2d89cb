"""Access to containers: ``/exec``, ``/attach``, ``/portForward`` and ``/run``.

The first three upgrade the connection (SPDY or WebSocket), and the bytes are copied between the client and the
runtime's streaming endpoint; with feature gate ``ExtendWebSocketsToNodeAgent`` the WebSockets of current clients end at
the node and are translated to SPDY. Each requires the verb ``create``, also for a WebSocket, whose request is a GET;
permission on ``nodes/proxy`` or on the path's subresource is sufficient.
spec: config.enableDebuggingHandlers, config.streamingConnectionIdleTimeout
"""

from __future__ import annotations

from collections.abc import Sequence

from nodeagent import hookimpl
from nodeagent.contracts.context import ConfigContext, ServerContext
from nodeagent.contracts.hooks import PluginHost
from nodeagent.contracts.node import NodeReport
from nodeagent.contracts.server import Exposure, Handler, Route

DECLARED_FEATURE = "ExtendWebSocketsToKubelet"
"""Name by which the API server recognizes nodes to which it passes WebSockets."""


@hookimpl
def nodeagent_configure(context: ConfigContext, plugins: PluginHost) -> None:
    if context.gates.enabled("ExtendWebSocketsToNodeAgent") and context.gates.enabled("NodeDeclaredFeatures"):
        plugins.register(DeclaredFeature(), name="routes_exec.declared_feature")


class DeclaredFeature:
    """Declares the feature in the node's status."""

    @hookimpl
    async def nodeagent_report_node(self) -> NodeReport:
        return NodeReport(declared_features=[DECLARED_FEATURE])


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
