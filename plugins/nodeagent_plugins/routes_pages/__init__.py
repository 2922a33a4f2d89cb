"""``/flagz`` and ``/statusz``: flags, start time and versions of the agent, as text or as API objects.

Secret values are masked. The layout of the text can change; tools request an API object, or use ``/configz`` and
``/metrics``. Served while the feature gates ``ComponentFlagz`` and ``ComponentStatusz`` are enabled, and by releases
before 1.32, which do not have them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nodeagent import hookimpl
from nodeagent.contracts.context import ConfigContext, ServerContext
from nodeagent.contracts.server import Exposure, Route

if TYPE_CHECKING:
    from datetime import datetime

    from aiohttp import web

    from nodeagent.contracts.hooks import PluginHost


@hookimpl
def nodeagent_configure(context: ConfigContext, plugins: PluginHost) -> None:
    plugins.register(Pages(context.clock.wall()), name="routes_pages.pages")


class Pages:
    """Routes of the pages; they are created at the first connection, and show when the agent started."""

    def __init__(self, started_at: datetime) -> None:
        self._started_at = started_at

    @hookimpl
    def nodeagent_provide_routes(self, context: ServerContext) -> Sequence[Route]:
        return page_routes(context, self._started_at)


def page_routes(context: ServerContext, started_at: datetime) -> Sequence[Route]:
    """Return the routes whose feature gates are enabled."""
    from aiohttp import web

    from nodeagent.base import identity
    from nodeagent.base.component_pages.negotiation import ObjectVersion, negotiate
    from nodeagent.base.component_pages.pages import (
        ComponentRun,
        flags_object,
        flags_page,
        status_object,
        status_page,
    )
    from nodeagent_plugins.routes_pages.responses import not_acceptable, object_response

    component = identity.current().component
    versions = tuple(version for version in ObjectVersion if version.since <= context.release.release)

    async def flagz(request: web.Request) -> web.Response:
        accepted = negotiate(request.headers.get("Accept", ""), "Flagz", versions)
        if accepted is None:
            return not_acceptable()
        values = context.effective.flag_values()
        if accepted.version is None:
            return web.Response(text=flags_page(component, values))
        return object_response(flags_object(component, values, accepted.version), accepted, context.release.release)

    async def statusz(request: web.Request) -> web.Response:
        accepted = negotiate(request.headers.get("Accept", ""), "Statusz", versions)
        if accepted is None:
            return not_acceptable()
        run = ComponentRun(
            component,
            started_at,
            context.clock.wall(),
            context.release.node_version,
            context.release.release,
            str(context.release),
            _top_paths(request.app),
        )
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
