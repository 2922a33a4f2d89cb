"""``/flagz`` and ``/statusz``: flags and uptime of the agent as plain text.

Secret values are masked. The layout can change; tools use ``/configz`` and ``/metrics``.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from datetime import datetime

from aiohttp import web

from nodeagent import hookimpl
from nodeagent.base import identity
from nodeagent.base.release import SelectedRelease
from nodeagent.contracts.context import AgentContext, ServerContext
from nodeagent.contracts.server import Exposure, Route

_NOTE = "This page is not an API: its layout can change at any time."


@hookimpl
def nodeagent_provide_routes(context: ServerContext) -> Sequence[Route]:
    started_at = context.clock.wall()

    async def flagz(request: web.Request) -> web.Response:
        return web.Response(text=flags_page(context))

    async def statusz(request: web.Request) -> web.Response:
        return web.Response(text=status_page(started_at, context.clock.wall(), context.release))

    return (
        Route("GET", "/flagz", flagz, Exposure.DEBUG_HIDDEN, fine_grained=("configz",)),
        Route("GET", "/statusz", statusz, Exposure.DEBUG_HIDDEN, fine_grained=("statusz",)),
    )


def flags_page(context: AgentContext) -> str:
    """Return every flag with the effective value, wherever it was set."""
    lines = [f"{name}={_shown(value)}" for name, value in sorted(context.effective.flag_values().items())]
    return _page("flags", lines)


def status_page(started_at: datetime, now: datetime, selected: SelectedRelease) -> str:
    """Return start time, uptime and versions of the agent."""
    seconds = int((now - started_at).total_seconds())
    return _page(
        "statusz",
        [
            f"Started: {started_at:%a %b %d %H:%M:%S UTC %Y}",
            f"Up: {seconds // 3600} hr {seconds // 60 % 60:02} min {seconds % 60:02} sec",
            f"Python version: {platform.python_version()}",
            f"Binary version: {selected.node_version}",
            f"Compatibility version: {selected}",
            "Paths: /configz /flagz /healthz /metrics /statusz",
        ],
    )


def _page(title: str, lines: Sequence[str]) -> str:
    return "\n".join([f"{identity.current().component} {title}", _NOTE, "", *lines]) + "\n"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ",".join(f"{key}={_shown(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        return ",".join(map(_shown, value))
    return "" if value is None else str(value)
