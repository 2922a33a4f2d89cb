"""``/flagz`` and ``/statusz``: flags, start time and versions of the agent, as text or as API objects.

Secret values are masked. The layout of the text can change; tools request an API object, or use ``/configz`` and
``/metrics``. Served while the feature gates ``ComponentFlagz`` and ``ComponentStatusz`` are enabled, and by releases
before 1.32, which do not have them.
"""

from __future__ import annotations

from collections.abc import Sequence

from aiohttp import web

from nodeagent import hookimpl
from nodeagent.contracts.context import ServerContext
from nodeagent.contracts.server import Exposure, Route
from nodeagent_plugins.routes_pages.negotiation import ObjectVersion, negotiate
from nodeagent_plugins.routes_pages.pages import AgentRun, flags_object, flags_page, status_object, status_page
from nodeagent_plugins.routes_pages.responses import not_acceptable, object_response


@hookimpl
def nodeagent_provide_routes(context: ServerContext) -> Sequence[Route]:
    started_at = context.clock.wall()
    versions = tuple(version for version in ObjectVersion if version.since <= context.release.release)

    async def flagz(request: web.Request) -> web.Response:
        accepted = negotiate(request.headers.get("Accept", ""), "Flagz", versions)
        if accepted is None:
            return not_acceptable()
        values = context.effective.flag_values()
        if accepted.version is None:
            return web.Response(text=flags_page(values))
        return object_response(flags_object(values, accepted.version), accepted, context.release.release)

    async def statusz(request: web.Request) -> web.Response:
        accepted = negotiate(request.headers.get("Accept", ""), "Statusz", versions)
        if accepted is None:
            return not_acceptable()
        run = AgentRun(started_at, context.clock.wall(), context.release, _top_paths(request.app))
        if accepted.version is None:
            return web.Response(text=status_page(run))
        return object_response(status_object(run, accepted.version), accepted, context.release.release)

    routes = {
        "ComponentFlagz": Route("GET", "/flagz", flagz, Exposure.DEBUG_HIDDEN, fine_grained=("configz",)),
        "ComponentStatusz": Route("GET", "/statusz", statusz, Exposure.DEBUG_HIDDEN, fine_grained=("statusz",)),
    }
    return tuple(route for gate, route in routes.items() if context.gates.enabled(gate))


def _top_paths(application: web.Application) -> list[str]:
    """Return the first segments of all paths that the server serves."""
    tops = {resource.canonical.split("/")[1] for resource in application.router.resources()}
    return sorted(f"/{top}" for top in tops if top and not top.startswith("{"))
