"""``/ui/``: web page of the node with its pods, their stages, logs and events, volumes and resources.

The files of the page are public and contain no data; the page requests its data with the user's credentials. Without
``enableDebuggingHandlers`` there is no page.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from nodeagent import hookimpl
from nodeagent.base import page
from nodeagent.contracts.context import ServerContext
from nodeagent.contracts.diagnostics import STATUS_QUERY, WHY_QUERY, WhyRequest
from nodeagent.contracts.server import Exposure, Route
from nodeagent.contracts.volume_report import VOLUMES_QUERY, VolumesReport, VolumesRequest

if TYPE_CHECKING:
    from aiohttp import web

ROOT = "/ui"


@hookimpl
def nodeagent_provide_routes(context: ServerContext) -> Sequence[Route]:
    if not context.config.enable_debugging_handlers:
        return ()
    from aiohttp import web

    files = page.load(Path(__file__).parent / "static")

    async def to_page(request: web.Request) -> web.Response:
        return web.Response(status=301, headers={"Location": f"{ROOT}/"})

    async def file(request: web.Request) -> web.Response:
        found = files.get(request.match_info.get("name") or page.INDEX)
        if found is None:
            return web.Response(status=404, text="404 page not found\n")
        return web.Response(body=found.body, headers={**page.HEADERS, "Content-Type": found.content_type})

    async def status(request: web.Request) -> web.Response:
        return _json(await context.queries[STATUS_QUERY].handler(None))

    async def volumes(request: web.Request) -> web.Response:
        query = context.queries.get(VOLUMES_QUERY)  # A third-party volume manager may have none.
        report = VolumesReport(context.node_name, []) if query is None else await query.handler(VolumesRequest())
        return _json(report)

    async def pod(request: web.Request) -> web.Response:
        requested = WhyRequest(request.match_info["namespace"], request.match_info["pod"])
        try:
            return _json(await context.queries[WHY_QUERY].handler(requested))
        except ValueError as error:
            return web.Response(status=404, text=f"{error}\n")

    return (
        Route("GET", ROOT, to_page, Exposure.OPEN),
        Route("GET", f"{ROOT}/", file, Exposure.OPEN),
        Route("GET", f"{ROOT}/{{name}}", file, Exposure.OPEN),
        Route("GET", f"{ROOT}/data/status", status),
        Route("GET", f"{ROOT}/data/volumes", volumes),
        Route("GET", f"{ROOT}/data/pods/{{namespace}}/{{pod}}", pod),
    )


def _json(response: object) -> web.Response:
    from aiohttp import web

    return web.Response(body=msgspec.json.encode(response), content_type="application/json")
