"""Handlers for ``/debug/pprof/``."""

from __future__ import annotations

from aiohttp import web

from nodeagent.base.profiling.profiles import PROFILES, InvalidParameter, Profiles
from nodeagent.base.profiling.sampling import Busy


async def to_index(request: web.Request) -> web.Response:
    return web.Response(status=301, headers={"Location": "/debug/pprof/"})


async def index(request: web.Request) -> web.Response:
    rows = "\n".join(f'<li><a href="./{name}?debug=1">{name}</a> {text}' for name, text in PROFILES.items())
    page = f'<!doctype html>\n<meta charset="utf-8">\n<title>Profiles</title>\n<ul>\n{rows}\n</ul>\n'
    return web.Response(text=page, content_type="text/html", headers={"Content-Security-Policy": "default-src 'none'"})


async def symbol(request: web.Request) -> web.Response:
    """Report that profiles contain their symbols."""
    return web.Response(text="num_symbols: 0\n")


class ProfileHandler:
    """Handler for the path of a single profile."""

    def __init__(self, profiles: Profiles) -> None:
        self._profiles = profiles

    async def handle(self, request: web.Request) -> web.Response:
        try:
            content = await self._profiles.take(request.match_info["profile"], request.query)
        except Busy as error:
            return web.Response(status=409, text=f"{error}\n")
        except InvalidParameter as error:
            return web.Response(status=400, text=f"{error}\n")
        if content is None:
            return web.Response(status=404, text="Unknown profile\n")
        return web.Response(body=content.body, headers=content.headers)
