"""``/configz``: the effective configuration with all defaults and the runtime's cgroup driver; secrets are masked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from nodeagent import hookimpl
from nodeagent.base import identity
from nodeagent.contracts.context import ServerContext
from nodeagent.contracts.server import Exposure, Route

if TYPE_CHECKING:
    from aiohttp import web


@hookimpl
def nodeagent_provide_routes(context: ServerContext) -> Sequence[Route]:
    from aiohttp import web

    async def configz(request: web.Request) -> web.Response:
        name = f"{identity.current().component}config"
        shown = {**context.effective.masked(), "cgroupDriver": context.cgroups.driver}
        return web.Response(body=msgspec.json.encode({name: shown}), content_type="application/json")

    return (Route("GET", "/configz", configz, Exposure.DEBUG_HIDDEN, fine_grained=("configz", "proxy")),)
