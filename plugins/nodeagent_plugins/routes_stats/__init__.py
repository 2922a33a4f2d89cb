"""``/stats/summary`` and the additional metrics pages: resource usage, probes and SLIs.

spec: config.showHiddenMetricsForVersion
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from nodeagent import hookimpl
from nodeagent.base.metrics import Family, expose, instruments
from nodeagent.contracts.context import AgentContext, ServerContext
from nodeagent.contracts.server import Exposure, Handler, Route
from nodeagent.errors import NodeAgentError

if TYPE_CHECKING:
    from aiohttp import web


@hookimpl
def nodeagent_provide_routes(context: ServerContext) -> Sequence[Route]:
    from aiohttp import web

    from nodeagent_plugins.routes_stats.resource import resource_families
    from nodeagent_plugins.routes_stats.summary import cpu_and_memory, summary

    async def stats(request: web.Request) -> web.Response:
        requested = [*request.query.getall("only_cpu_and_memory", ())]
        if request.method == "POST" and request.content_type == "application/x-www-form-urlencoded":
            requested += [str(value) for value in (await request.post()).getall("only_cpu_and_memory", ())]
        brief = requested == ["true"]
        node, pods = await context.stats.node(), await context.stats.pods(volumes=not brief)
        shown = cpu_and_memory(context.node_name, node, pods) if brief else summary(context.node_name, node, pods)
        return web.Response(body=msgspec.json.encode(shown), content_type="application/json")

    async def resources(request: web.Request) -> web.Response:
        try:
            families = resource_families(await context.stats.node(), await context.stats.pods(volumes=False))
        except NodeAgentError:
            families = resource_families(None, ())
        return _page(context, request, families)

    def page(name: str) -> Handler:
        async def counted(request: web.Request) -> web.Response:
            return _page(context, request, instruments(page=name))

        return counted

    slis = (Route("GET", "/metrics/slis", page("slis"), Exposure.READ_ONLY, ("metrics",)),)
    return (
        *(Route(method, "/stats/summary", stats, Exposure.READ_ONLY, ("stats",)) for method in ("GET", "POST")),
        Route("GET", "/metrics/resource", resources, Exposure.READ_ONLY, ("metrics",)),
        Route("GET", "/metrics/probes", page("probes"), Exposure.READ_ONLY, ("metrics",)),
        *(slis if context.gates.enabled("ComponentSLIs") else ()),
    )


def _page(context: AgentContext, request: web.Request, families: Iterable[Family]) -> web.Response:
    from aiohttp import web

    shown = bool(context.config.show_hidden_metrics_for_version)
    body, content_type = expose(families, request.headers.get("Accept", ""), deprecated=shown)
    return web.Response(body=body, headers={"Content-Type": content_type})
